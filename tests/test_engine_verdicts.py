"""The bundled replay policy against the engine's own checks, over the full cross product of their inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_eval import Evaluator

RELEASES = {"0.28.0": 492, "0.29.0": 492, "0.30.0": 492, "0.31.0": 492, "0.32.0": 492, "0.33.0": 492}
SPECULATION: dict[str, dict[str, Any] | None] = {
    "none": None,
    "plain": {"enable_adaptive_verification": False},
    "adaptive": {"enable_adaptive_verification": True},
}


def document(version: str, row: dict[str, Any]) -> dict[str, Any]:
    """The engine's inputs to its checks as a normalized document."""
    model = {
        "return_sampling_mask": row["return_sampling_mask"],
        "is_diffusion": row["is_diffusion"],
        "logits_processors": row["logits_processors"],
        "logprobs_mode": row["logprobs_mode"],
    }
    return {
        "schema": "policy-eval/config/v1",
        "engine": {"name": "vllm", "version": version},
        "model_config": model if row["has_model_config"] else None,
        "speculative_config": SPECULATION[row["speculative"]],
        "use_v2_model_runner": row["use_v2_model_runner"],
    }


@pytest.mark.parametrize("version", RELEASES)
def test_every_row_of_the_engine_gets_its_verdict_and_its_words(version: str, shared: Path) -> None:
    evaluator = Evaluator.load()
    lines = (shared / "conformance" / "vllm" / f"verify-{version}.jsonl").read_text().splitlines()
    judged = 0
    for line in lines:
        row = json.loads(line)
        assert row["version"] == version
        config = document(version, row["input"])
        outcome = "rejected" if row["outcome"] == "rejected" else None
        mine = [
            finding
            for finding in evaluator.evaluate(config, first=True).findings
            if finding.policy == "vllm-sampling-replay"
        ]
        everything = [
            finding
            for finding in evaluator.evaluate(config).findings
            if finding.policy == "vllm-sampling-replay"
        ]
        messages = [finding.message for finding in mine if finding.severity == "error"]
        assert messages == ([row["message"]] if outcome else []), line
        assert bool(everything) == bool(outcome), line
        assert all(finding.outcome == "failed" for finding in everything), line
        judged += 1
    assert judged == len(lines) == RELEASES[version]


# The same checks in small, so that they are tested where the recorded rows are not.
ASKED = {
    "has_model_config": True,
    "return_sampling_mask": True,
    "use_v2_model_runner": True,
    "speculative": "none",
    "is_diffusion": False,
    "logits_processors": None,
    "logprobs_mode": "processed_logprobs",
}
V2 = "sampling distribution replay requires Model Runner V2"
NO_SPECULATION = "sampling distribution replay does not support speculative decoding"
FIXED = (
    "sampling distribution replay with speculative decoding requires fixed verification boundaries; "
    "disable adaptive verification"
)
DIFFUSION = "sampling distribution replay does not support diffusion models"
PROCESSORS = "sampling distribution replay does not support custom logits processors"
MODE = (
    "sampling distribution replay requires logprobs_mode='processed_logprobs' so that returned logprobs are "
    "normalized over the same nucleus as the sampling mask"
)


@pytest.mark.parametrize(
    ("version", "change", "messages"),
    [
        ("0.32.0", {}, []),
        ("0.32.0", {"has_model_config": False, "use_v2_model_runner": False}, []),
        ("0.32.0", {"return_sampling_mask": False, "use_v2_model_runner": False}, []),
        ("0.28.0", {"use_v2_model_runner": False}, [V2]),
        ("0.31.0", {"speculative": "plain"}, [NO_SPECULATION]),
        ("0.31.0", {"speculative": "adaptive"}, [NO_SPECULATION]),
        ("0.32.0", {"speculative": "plain"}, []),
        ("0.33.0", {"speculative": "adaptive"}, [FIXED]),
        ("0.30.0", {"is_diffusion": True}, [DIFFUSION]),
        ("0.30.0", {"logits_processors": ["a:b"]}, [PROCESSORS]),
        ("0.30.0", {"logits_processors": [""]}, [PROCESSORS]),
        ("0.30.0", {"logits_processors": []}, []),
        ("0.29.0", {"logprobs_mode": "raw_logprobs"}, [MODE]),
        ("0.29.0", {"logprobs_mode": "processed_logits"}, [MODE]),
        (
            "0.33.0",
            {"use_v2_model_runner": False, "is_diffusion": True, "logprobs_mode": "raw_logits"},
            [V2, DIFFUSION, MODE],
        ),
    ],
)
def test_each_check_in_small(version: str, change: dict[str, Any], messages: list[str]) -> None:
    evaluator = Evaluator.load()
    config = document(version, {**ASKED, **change})
    findings = [f for f in evaluator.evaluate(config).findings if f.policy == "vllm-sampling-replay"]
    assert [finding.message for finding in findings] == messages
    first = evaluator.first_failure(config)
    assert (first.message if first else None) == (messages[0] if messages else None)
