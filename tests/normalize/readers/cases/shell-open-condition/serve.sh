EXTRA=()
if nvidia-smi | grep -q H200; then
  EXTRA+=(--max-logprobs 100)
else
  EXTRA+=(--max-logprobs 10)
fi
vllm serve m/open --return-sampling-mask "${EXTRA[@]}"
