"""vLLM: command line, environment and model folder -> normalized document."""

from policy_eval.normalize.vllm.hf_config import HfConfig
from policy_eval.normalize.vllm.resolve import resolve

__all__ = ["HfConfig", "resolve"]
