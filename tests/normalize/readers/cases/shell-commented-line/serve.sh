vllm serve m/cut \
  --return-sampling-mask \
  # --enforce-eager \
  --logprobs-mode processed_logprobs
