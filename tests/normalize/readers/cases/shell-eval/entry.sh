#!/bin/sh
VLLM_ADDITIONAL_ARGS="--logprobs-mode 'processed_logprobs' --max-logprobs 7"
eval "exec vllm serve /mnt/models --return-sampling-mask ${VLLM_ADDITIONAL_ARGS}"
