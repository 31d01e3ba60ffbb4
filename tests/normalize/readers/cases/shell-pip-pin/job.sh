pip install "vllm==0.31.0" ray
export VLLM_USE_V2_MODEL_RUNNER=0
numactl --cpunodebind=0 vllm serve m/pin --return-samp --logprobs raw_logits
