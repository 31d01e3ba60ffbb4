#!/bin/bash
export MODE=processed_logprobs
PORT=9000
srun --nodes 1 bash -lc 'vllm serve m/inner --logprobs-mode $MODE --port $PORT'
bash -c "exec vllm serve m/outer --port $PORT"
