#!/bin/bash
MODE=raw_logprobs
PORT=8000
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mode) MODE="$2"; shift 2 ;;
    *) shift ;;
  esac
done
vllm serve m/loop --logprobs-mode "$MODE" --port "$PORT"
