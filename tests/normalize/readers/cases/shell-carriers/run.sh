#!/bin/bash
export VLLM_USE_V2_MODEL_RUNNER=1
tmux new-session -d -s engine "vllm serve m/tmux --logprobs-mode processed_logits"
ssh gpu01 'vllm serve m/remote --max-logprobs 5'
echo "vllm serve m/not-run"
timeout 3600 vllm serve m/timed
