#!/bin/bash
vllm serve my/model \
  --return-sampling-mask "--logprobs-mode
