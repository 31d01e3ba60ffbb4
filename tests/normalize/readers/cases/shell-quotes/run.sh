FLAGS='--logprobs-mode "processed_logprobs"'
vllm serve m/quotes $FLAGS --speculative-config "{\"method\": \"ngram\", \"num_speculative_tokens\": $((1 + 1))}" --hf-overrides {"a":1,"b":2} --served-model-name $'tab\there' café
