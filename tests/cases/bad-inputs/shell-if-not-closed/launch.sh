if true; then
  vllm serve my/model --return-sampling-mask
