"""Every shape that is read, in the order in which an input is tried."""

from __future__ import annotations

from policy_eval.normalize.readers import (
    compose,
    kubernetes,
    llmd,
    nemo_rl,
    normalized,
    prime_rl,
    production_stack,
    ray,
    shell_script,
    skypilot,
    systemd,
    vllm_config,
)
from policy_eval.normalize.readers.shape import Shape

SHAPES: tuple[Shape, ...] = (
    normalized.SHAPE,
    kubernetes.SHAPE,
    systemd.SHAPE,
    prime_rl.SHAPE,
    production_stack.SHAPE,
    llmd.SHAPE,
    ray.SHAPE,
    compose.SHAPE,
    nemo_rl.SHAPE,
    skypilot.SHAPE,
    vllm_config.SHAPE,
    shell_script.COMMAND_LINE,
    shell_script.SHAPE,
)
