"""``policy-eval prove`` and ``check_masks`` as their users meet them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the sampler needs torch")

from policy_eval.commands import judge, prove
from policy_eval.errors import PolicyEvalError
from policy_eval.evaluate import Evaluator
from policy_eval.model import Document
from policy_eval.prove.check import check_masks

POLICY = """\
apiVersion: policy-eval/v1
kind: Policy
metadata: {{name: mine, title: Mine}}
spec:
  engine: vllm
  versions: ">=0.33,<0.34"
  matchConditions:
    - {{name: requested, expression: "config.model_config != null && config.model_config.return_sampling_mask"}}
  validations:
    - {{id: PLAIN, expression: "config.use_v2_model_runner && !config.model_config.is_diffusion &&
        (config.model_config.logits_processors == null || size(config.model_config.logits_processors) == 0) &&
        config.model_config.logprobs_mode == 'processed_logprobs'", message: "<b>plain & simple</b>"}}
    - {{id: SPEC, expression: "{spec}", message: speculation}}
    - {{id: KV, expression: "config.kv_transfer_config == null", message: connector}}
"""
SOUND = "config.speculative_config == null || !config.speculative_config.enable_adaptive_verification"


def write(folder: Path, spec: str) -> str:
    (folder / "policy.yaml").write_text(POLICY.format(spec=spec), encoding="utf-8")
    return str(folder / "policy.yaml")


def proof(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = prove.main([*arguments, "--format", "json", "--seeds", "1"])
    return code, json.loads(capsys.readouterr().out)


def test_a_sound_policy_and_a_rule_that_is_not_modelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = proof(capsys, write(tmp_path, SOUND))
    assert (code, found["outcome"]) == (0, "proved")
    assert {one["rule"]: one["status"] for one in found["rules"]} == {
        "PLAIN": "proved",
        "SPEC": "proved",
        "KV": "not modelled",
    }
    assert all(one["evidence"]["consistent"] for one in found["approved"])
    assert not found["counterexamples"]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ("config.speculative_config == null", "too strict"),
        ("true", "redundant"),
        ("config.speculative_config.enable_adaptive_verification == false", "fails"),
        ("config.use_v2_model_runner", "redundant"),
    ],
)
def test_what_is_wrong_with_a_rule_is_named(
    spec: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = proof(capsys, write(tmp_path, spec))
    assert (code, found["outcome"]) == (1, "not proved")
    assert {one["rule"]: one["status"] for one in found["rules"]}["SPEC"] == status


def test_a_counterexample_can_be_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, out = write(tmp_path, "true"), tmp_path / "out"
    assert prove.main([policy, "--seeds", "1", "--out", str(out)]) == 1
    assert "counterexample: let through, and not consistent" in capsys.readouterr().out
    document = json.loads((out / "counterexample-1.json").read_text())
    assert Evaluator.load([policy]).evaluate(document).outcome == "approved"
    assert check_masks(Document(name="it", value=document))
    recording = [str(out / f"counterexample-1.{kind}") for kind in ("jsonl", "npy")]
    assert judge.main([recording[0], "--logits", recording[1]]) == 1
    only = json.loads((out / "PLAIN.json").read_text())
    report = Evaluator.load([policy]).evaluate(only)
    assert [finding.rule for finding in report.findings] == ["PLAIN"]


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main([write(tmp_path, SOUND), "--seeds", "1", "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert not re.search(r"https?:|<script|<link|<img|src=|url\(|@import|<b>plain", page)
    assert "default-src 'none'" in page
    assert page.count("<svg") == page.count("</svg>") >= 6
    assert "not modelled" in page


def test_text_has_a_line_for_each_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main([write(tmp_path, SOUND), "--seeds", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("proved  mine (0.33.0 to 0.33.0)\n")
    assert "every token consistent" in text
    assert re.search(r"^  PLAIN +proved +\d", text, re.M)
    assert "  KV  not modelled: it reads no fact that the engine in miniature models" in text


def test_a_policy_about_something_else_is_not_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = POLICY.format(spec=SOUND)
    lines = [line for line in text.splitlines() if "KV" in line]
    (tmp_path / "policy.yaml").write_text(
        "\n".join([*text[: text.index("    - {id: PLAIN")].splitlines(), *lines])
    )
    code, found = proof(capsys, str(tmp_path / "policy.yaml"))
    assert (code, found["outcome"]) == (2, "not modelled")


@pytest.mark.parametrize("arguments", [["nowhere.yaml"], ["--seeds", "0"]])
def test_what_cannot_be_read_is_said(arguments: list[str]) -> None:
    with pytest.raises(PolicyEvalError):
        prove.main(arguments)


def document(**facts: Any) -> Document:
    value = {
        "schema": "policy-eval/config/v1",
        "engine": {"name": "vllm", "version": "0.33.0"},
        "use_v2_model_runner": True,
        "model_config": {
            "return_sampling_mask": True,
            "is_diffusion": False,
            "logprobs_mode": "processed_logprobs",
        },
    }
    return Document(name="it", value={**value, **facts})


def test_masks_of_one_configuration() -> None:
    assert check_masks(document()) == []
    assert check_masks(document(model_config={"return_sampling_mask": False})) == []
    assert check_masks(document(engine={"name": "vllm"})) == []
    found = check_masks(document(use_v2_model_runner=False))
    assert [problem.message for problem in found] == [
        "masks are not consistent: `row-present` is broken 60 times in 60 tokens"
    ]
    assert check_masks(document(sampling_params={"temperature": 0, "top_k": 5}))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"engine": {"name": "sglang"}}, "`sglang`"),
        ({"unknown": ["/model_config/is_diffusion"]}, "`/model_config/is_diffusion` is unknown"),
    ],
)
def test_masks_that_cannot_be_checked(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyEvalError, match=words):
        check_masks(document(**facts))
