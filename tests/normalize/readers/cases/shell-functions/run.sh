launch() {
  local model=$1; shift
  python -m vllm.entrypoints.openai.api_server --model "$model" "$@" &
}
for role in actor reference; do
  launch "m/$role" --port 8000 --served-model-name "$role"
done
case "$MODE" in
  raw) launch m/raw --logprobs-mode raw_logits ;;
esac
wait
