#!/bin/sh
sglang serve --model-path m/sg --sampling-mask-max-tokens lots --disaggregation-mode both --speculative-algorithm
