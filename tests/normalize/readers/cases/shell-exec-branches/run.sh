if [ "$STAGE" = prod ]; then
  exec vllm serve m/prod --return-sampling-mask
else
  exec vllm serve m/dev
fi
vllm serve m/never
