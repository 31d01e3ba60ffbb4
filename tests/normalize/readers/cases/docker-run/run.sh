#!/usr/bin/env bash
TAG=v0.32.0
docker pull vllm/vllm-openai:$TAG
docker run -d --rm \
  --name rollout --gpus '"device=0,1"' \
  -p 8000:8000 -v "$HOME/models:/models" \
  -e VLLM_USE_V2_MODEL_RUNNER=1 --env HF_TOKEN \
  --env-file run.env \
  --ipc=host vllm/vllm-openai:$TAG \
  /models/actor --return-sampling-mask \
  --logprobs-mode processed_logprobs
podman run --entrypoint bash docker.io/vllm/vllm-openai:v0.30.0 -c 'vllm serve m/inner --max-logprobs 5'
