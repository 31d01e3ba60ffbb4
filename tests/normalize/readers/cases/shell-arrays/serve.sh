#!/bin/bash
# Serve the actor for sampling replay.
set -eo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/common.sh"

MODEL=${1:-Qwen/Qwen3-8B}
export VLLM_USE_V2_MODEL_RUNNER=1

ARGS=(
  --return-sampling-mask
  # --enforce-eager
  --logprobs-mode "$MODE"
)
if [[ -n "${SPEC:-}" ]]; then
  ARGS+=(--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}')
fi
[ "$WIDE" = 1 ] && ARGS+=(--max-logprobs 200)

vllm serve "$MODEL" "${ARGS[@]}" \
  --seed 1 2>&1 | tee serve.log
