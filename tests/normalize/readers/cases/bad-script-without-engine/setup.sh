#!/bin/bash
echo "vllm serve m/x"
pip install vllm==0.32.0
