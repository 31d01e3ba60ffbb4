#!/bin/sh
export SGLANG_ENABLE_DISAGG_SAMPLING_MASK=1 SGLANG_SIMULATE_ACC_LEN="$ACC"
python3 -m sglang.launch_server --model-path m/sg --sampling-mask-max-tokens=0 \
  --enable-custom-logit-processor --tp-size 8 --disaggregation-mode prefill
