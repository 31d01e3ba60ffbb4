vllm serve "$MODEL" --return-sampling-mask --logprobs-mode "$MODE" $EXTRA_ARGS
