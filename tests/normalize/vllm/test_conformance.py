"""The normalizer, derivations and policies against 3,031 starts of the real engine, and 5,436 runner decisions."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from policy_eval.derive import derive
from policy_eval.evaluate import Evaluator
from policy_eval.model import Document
from policy_eval.normalize.command import normalize_command
from policy_eval.pack import load_pack

CASES = {"0.28.0": 610, "0.29.0": 610, "0.30.0": 610, "0.31.0": 591, "0.32.0": 610}
RUNNER_ROWS = {"0.28.0": 918, "0.29.0": 918, "0.30.0": 918, "0.31.0": 918, "0.32.0": 918, "0.33.0": 918}
REPLAY = "sampling distribution replay"
SPECULATION = (
    "method",
    "num_speculative_tokens",
    "enable_adaptive_verification",
    "parallel_drafting",
    "use_heterogeneous_vocab",
    "draft_sample_method",
    "rejection_sample_method",
)


def rows(path: Path, count: int) -> list[dict[str, Any]]:
    """The cases of a file, all of them, in an order that nothing may depend on."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(found) == count, path
    random.Random(path.name).shuffle(found)
    return found


def normalized(case: dict[str, Any], models: dict[str, str]) -> Document:
    """The document of one case."""
    argv, files = list(case["argv"]), {}
    if case["yaml_config"] is not None:
        name = f"serve.{case['yaml_ext']}"
        argv = [word.replace("CONFIG_YAML", name) for word in argv]
        files[name] = case["yaml_config"]
    host = {
        "platform": case["host"]["platform"],
        "has_triton": case["host"]["has_triton"],
        "logits_processor_plugins": case["host"].get("logits_processor_entry_points", []),
    }
    return normalize_command(
        argv, engine_version=case["vllm"], env=case["env"], files=files, hf_configs=models, host=host
    )


def effective(document: Document) -> dict[str, Any]:
    """The facts that the engine's check saw, as this package has them."""
    model = document.value["model_config"]
    speculation = document.value["speculative_config"]
    refusal = document.errors[0].message if document.errors else None
    return {
        "return_sampling_mask": model["return_sampling_mask"],
        "use_v2_model_runner": document.value.get("use_v2_model_runner"),
        "use_v2_error": refusal,
        "speculative_config": speculation and {key: speculation.get(key) for key in SPECULATION},
        "is_diffusion": model.get("is_diffusion"),
        "logits_processors": model["logits_processors"],
        "logprobs_mode": model["logprobs_mode"],
        "max_logprobs": model["max_logprobs"],
        "enable_trace_replay": model.get("enable_trace_replay"),
    }


@dataclass
class Tally:
    """What agrees, and every difference by the engine's words."""

    facts: int = 0
    replay: int = 0
    counted: int = 0
    agreed: int = 0
    reached_apart: int = 0
    reached_apart_agreed: int = 0
    words: int = 0
    differing: Counter[tuple[str, str]] = field(default_factory=Counter)
    apart: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def judge(case: dict[str, Any], document: Document, evaluator: Evaluator) -> tuple[str, str | None]:
    """The outcome class and the first message that the engine would show."""
    report = evaluator.evaluate(document, first=True).documents[0]
    if report.problems:
        return "rejected", report.problems[0].message
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if any(finding.outcome != "failed" for finding in errors):
        return "indeterminate", errors[0].message
    return ("rejected", errors[0].message) if errors else ("accepted", None)


def take(tally: Tally, case: dict[str, Any], models: dict[str, str], evaluator: Evaluator, pack: Any) -> None:
    document = normalized(case, models)
    name = f"{case['vllm']} {case['id']}"
    reached = case.get("reached_check")
    if reached:
        derived = derive(document, pack.derivations)
        found, wanted = effective(derived), {"use_v2_error": None, **case["effective"]}
        different = {key: found[key] for key in wanted if found[key] != wanted[key]}
        if different or derived.value.get("unknown"):
            tally.wrong.append(f"{name}: {different} {derived.value.get('unknown')}")
        tally.facts += 1
    outcome, message = judge(case, document, evaluator)
    wanted_outcome = "accepted" if case["outcome"] == "accepted" else "rejected"
    if (case["message"] or "").startswith(REPLAY) and reached:
        tally.replay += 1
        if message != case["message"]:
            tally.wrong.append(f"{name}: {message} instead of {case['message']}")
    words = (case["message"] or "")[:70], f"{wanted_outcome} by the engine, {outcome} here"
    if case["stage"] == "engine_config" and not (case["message"] or "").startswith(REPLAY):
        # Refusals by other parts of the engine: ours where a package has a rule for them.
        tally.apart[words] += 1
        tally.reached_apart += bool(reached)
        tally.reached_apart_agreed += bool(reached) and outcome == wanted_outcome
        return
    tally.counted += 1
    tally.words += case["stage"] in ("argparse", "cli") and message == case["message"]
    if outcome == wanted_outcome:
        tally.agreed += 1
    else:
        tally.differing[words] += 1
        tally.wrong.append(f"{name}: {words[1]}: {message}")


def test_facts_and_verdicts_are_those_of_the_engine(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "conformance" / "vllm"
    models = {path.name: str(path) for path in (folder / "models").iterdir()}
    evaluator, pack = Evaluator.load(), load_pack()
    tally = Tally()
    for version, count in CASES.items():
        for case in rows(folder / f"{version}.jsonl", count):
            take(tally, case, models, evaluator, pack)
    assert tally.counted + sum(tally.apart.values()) == sum(CASES.values())
    with capsys.disabled():
        print(f"\nfacts compared: {tally.facts}; replay messages compared: {tally.replay}")
        print(f"outcome class: {tally.agreed} of {tally.counted} agree; parser's words: {tally.words}")
        everything = tally.counted + tally.reached_apart
        agreed = tally.agreed + tally.reached_apart_agreed
        print(f"with the refusals by other parts that come after the replay check: {agreed} of {everything}")
        print("refusals by other parts of the engine, counted apart:")
        for (message, outcome), number in sorted(tally.apart.items()):
            print(f"  {number:4} {outcome}: {message}")
        for (message, outcome), number in sorted(tally.differing.items()):
            print(f"  DIFFERS {number:4} {outcome}: {message}")
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    assert tally.facts == 2211
    assert tally.replay > 1000
    assert tally.agreed >= 0.99 * tally.counted


# --- the runner's derivation ---------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "model_config": {
        "is_diffusion": False,
        "logits_processors": None,
        "runner_type": "generate",
        "is_moe": False,
        "is_hybrid": False,
        "is_attention_free": False,
        "hf_config": {"architectures": ["LlamaForCausalLM"], "canvas_length": None},
    },
    "speculative_config": None,
}


def of_model(**facts: Any) -> dict[str, Any]:
    return {"model_config": facts}


def architecture(name: str, **facts: Any) -> dict[str, Any]:
    return of_model(hf_config={"architectures": [name]}, is_moe=True, **facts)


def parallel(**facts: Any) -> dict[str, Any]:
    return {"parallel_config": facts}


def speculation(name: str) -> dict[str, Any]:
    """``spec:METHOD+deviation…`` as facts."""
    method, *deviations = name.removeprefix("spec:").split("+")
    found: dict[str, Any] = {
        "speculative_config": {
            "method": method,
            "parallel_drafting": "parallel_drafting" in deviations or method in ("dflash", "dspark"),
            "use_heterogeneous_vocab": "het_vocab" in deviations,
            "enable_adaptive_verification": "adaptive" in deviations,
            "draft_hf_config": {"architectures": ["Draft"], "layer_types": []},
        }
    }
    if "pp2" in deviations:
        found |= parallel(pipeline_parallel_size=2)
    if "lora" in deviations:
        found["lora_config"] = {}
    return found


FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "hisparse": {"attention_config": {"hisparse_config": {}}},
    "watermark": {"watermark_config": {}},
    "diffusion": of_model(is_diffusion=True),
    "logits_processors": of_model(logits_processors=["a:b"]),
    "moe": architecture("MixtralForCausalLM"),
    "moe_default_arch": architecture("Qwen2MoeForCausalLM"),
    "deepseek_v4": architecture("DeepseekV4ForCausalLM"),
    "deepseek_v32": architecture("DeepseekV32ForCausalLM"),
    "glm_moe_dsa": architecture("GlmMoeDsaForCausalLM"),
    "kimi_k3": architecture("KimiK3ForConditionalGeneration", is_hybrid=True),
    "hybrid": of_model(is_hybrid=True),
    "attention_free": of_model(is_attention_free=True),
    "pooling": of_model(runner_type="pooling"),
    "pcp2": parallel(prefill_context_parallel_size=2),
    "pcp2_mla": parallel(prefill_context_parallel_size=2),
    "stock_torch_compile": {"compilation_config": {"mode": 1}},
    "enable_sp_tp2": {
        "compilation_config": {"pass_config": {"enable_sp": True}},
        **parallel(tensor_parallel_size=2),
    },
    "ext_launcher_pp2": parallel(distributed_executor_backend="external_launcher", pipeline_parallel_size=2),
    "dbo": parallel(enable_dbo=True),
    "ubatch": parallel(ubatch_size=4),
    "elastic_ep": parallel(enable_elastic_ep=True),
    "routed_experts": of_model(enable_return_routed_experts=True),
    "prompt_embeds": of_model(enable_prompt_embeds=True),
    "kv_sharing_fast_prefill": {"cache_config": {"kv_sharing_fast_prefill": True}},
    "mamba_all": {"cache_config": {"mamba_cache_mode": "all"}},
    "ec_transfer": {},
}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in changes.items():
        inner = base.get(key)
        found[key] = merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return found


def runner_document(row: dict[str, Any]) -> Document:
    feature = row["feature"]
    changes = speculation(feature) if feature.startswith("spec:") else FEATURES[feature]
    value = merged(PLAIN, changes) | {
        "schema": "policy-eval/config/v1",
        "engine": {"name": "vllm", "version": row["version"]},
        "env": {} if row["env"] is None else {"VLLM_USE_V2_MODEL_RUNNER": row["env"]},
        "host": {
            "platform": row["platform"],
            "has_triton": row["has_triton"],
            "logits_processor_plugins": ["plugin"] if row["logits_processor_entry_points"] else [],
        },
    }
    return Document(name=feature, value=value)


@pytest.mark.parametrize("version", RUNNER_ROWS)
def test_the_model_runner_is_the_engines_choice(version: str, shared: Path) -> None:
    derivations = load_pack().derivations
    compared = 0
    for row in rows(shared / "conformance" / "vllm" / f"use_v2-{version}.jsonl", RUNNER_ROWS[version]):
        if row["feature"] in ("hisparse", "watermark") and version in ("0.28.0", "0.29.0"):
            continue  # those releases do not read them
        found = derive(runner_document(row), derivations)
        error = found.errors[0].message if found.errors else None
        assert (found.value.get("use_v2_model_runner"), error) == (
            row["use_v2_model_runner"],
            row["error"],
        ), row
        compared += 1
    assert compared == (882 if version in ("0.28.0", "0.29.0") else 918)
