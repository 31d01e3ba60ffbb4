MODE=processed_logprobs
WIDE=1
