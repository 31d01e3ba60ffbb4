#!/bin/bash
ROLLOUT_ARGS=(
   --rollout-batch-size 32
   --rollout-temperature 1.0
   --rollout-top-p 0.95
   --rollout-top-k 128
)
SGLANG_ARGS=(
   --sglang-mem-fraction-static 0.8
   --sglang-sampling-mask-max-tokens 256
   --use-miles-router
)
ray job submit --address http://127.0.0.1:8265 -- python3 train.py \
   --kl-coef 0.0 \
   ${ROLLOUT_ARGS[@]} \
   ${SGLANG_ARGS[@]}
