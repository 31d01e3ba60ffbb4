set -x
NUM_GPUS=4
uv run --isolated --extra vllm -m skyrl_train.entrypoints.main_base \
  trainer.policy.model.path="m/sky-rl" \
  trainer.algorithm.enable_sample_support_replay=true \
  generator.inference_engine.enable_return_sample_support_set=true \
  generator.inference_engine.engine_init_kwargs.logprobs_mode=processed_logprobs \
  generator.sampling_params.top_k=50 \
  generator.sampling_params.temperature=1.0 \
  generator.num_inference_engines=$NUM_GPUS
