#!/bin/bash
A=()
[ -n "$ONE" ] && A+=(--max-logprobs 1)
[ -n "$TWO" ] && A+=(--max-logprobs 2)
[ -n "$THREE" ] && A+=(--max-logprobs 3)
[ -n "$FOUR" ] && A+=(--max-logprobs 4)
[ -n "$FIVE" ] && A+=(--max-logprobs 5)
vllm serve m/many --logprobs-mode raw_logits "${A[@]}"
