"""Ratios of the evaluator against hand-written Python and other CEL engines, in one run.

    python tests/bench/bench_spine.py [--process]

Absolute times depend on the machine; the ratios are what the budgets are about. ``--process`` also times whole
processes against check-jsonschema. Engines that are not installed (extra ``bench``) are left out and named.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import Table, ratio

from policy_eval import Evaluator

ROOT = Path(__file__).resolve().parents[2]

DOCUMENT: dict[str, Any] = {
    "schema": "policy-eval/config/v1",
    "engine": {"name": "vllm", "version": "0.32.0"},
    "model_config": {
        "return_sampling_mask": True,
        "is_diffusion": False,
        "logits_processors": None,
        "logprobs_mode": "processed_logprobs",
    },
    "speculative_config": None,
    "use_v2_model_runner": True,
}


def hand_written(config: dict[str, Any]) -> int:
    """The five checks as one would write them in Python: the index of the first that fails, or -1."""
    model = config["model_config"]
    if model is None or not model["return_sampling_mask"]:
        return -2
    if not config["use_v2_model_runner"]:
        return 0
    speculative = config["speculative_config"]
    if speculative is not None and speculative["enable_adaptive_verification"]:
        return 1
    if model["is_diffusion"]:
        return 2
    if model["logits_processors"]:
        return 3
    if model["logprobs_mode"] != "processed_logprobs":
        return 4
    return -1


def cel_python() -> Callable[[], object]:
    """The five rules through cel-python's own evaluator, document converted once.

    It cannot compare a map with null, so it gets the rules, and a document, that do without.
    """
    import celpy
    from celpy.adapter import json_to_cel

    environment = celpy.Environment()
    texts = [
        "config.model_config.return_sampling_mask",
        "config.use_v2_model_runner",
        "!config.speculative_config.enable_adaptive_verification",
        "!config.model_config.is_diffusion",
        "size(config.model_config.logits_processors) == 0",
        'config.model_config.logprobs_mode == "processed_logprobs"',
    ]
    programs = [environment.program(environment.compile(text)) for text in texts]
    model = {**DOCUMENT["model_config"], "logits_processors": []}
    speculative = {"enable_adaptive_verification": False}
    config = json_to_cel({**DOCUMENT, "model_config": model, "speculative_config": speculative})
    return lambda: all(program.evaluate({"config": config}) for program in programs)


def main() -> int:
    """Print the table; exit 1 when a budget is missed."""
    evaluator = Evaluator.load()
    bundled = next(policy for policy in evaluator.policies if policy.name == "vllm-sampling-replay")
    compiled = next(
        one for one in evaluator._plan("vllm", "0.32.0").applied if one.policy is bundled
    ).compiled
    assert compiled.first(DOCUMENT) == hand_written(DOCUMENT) == -1
    assert evaluator.first_failure(DOCUMENT) is None
    assert evaluator.evaluate(DOCUMENT).outcome == "approved"

    def by_hand() -> object:
        return hand_written(DOCUMENT)

    table = Table()
    print("one document, against hand-written Python")
    ours = ratio(lambda: compiled.first(DOCUMENT), by_hand)
    table.row("compiled five-rule policy", ours, 1.6)
    table.row("Evaluator.first_failure", ratio(lambda: evaluator.first_failure(DOCUMENT), by_hand), 4)
    table.row("Evaluator.evaluate, full report", ratio(lambda: evaluator.evaluate(DOCUMENT), by_hand), 20)
    theirs = ratio(cel_python(), by_hand)
    table.row("cel-python, document converted", theirs)
    print(f"compiled policy against cel-python: {theirs / ours:,.0f} x faster (budget 300)")
    missed = table.missed > 0 or theirs / ours < 300
    if "--process" in sys.argv[1:]:
        missed |= not whole_process()
    return int(missed)


def whole_process() -> bool:
    """``policy-eval config.json`` against check-jsonschema on the same file, run in turns."""
    ours = shutil.which("policy-eval", path=str(Path(sys.executable).parent)) or shutil.which("policy-eval")
    theirs = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent)) or shutil.which(
        "check-jsonschema"
    )
    if not ours or not theirs:
        print("whole process: check-jsonschema is not installed (extra `bench`)")
        return True
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(DOCUMENT))
        commands = [
            [ours, str(file)],
            [theirs, "--schemafile", str(ROOT / "schemas" / "config.schema.json"), str(file)],
            [sys.executable, "-c", "pass"],
        ]
        times: list[list[float]] = [[], [], []]
        for turn in range(16):
            for at, command in enumerate(commands):
                began = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                taken = time.perf_counter() - began
                if turn:
                    times[at].append(taken)
    medians = [statistics.median(found) for found in times]
    ratio = medians[0] / medians[1]
    print(f"policy-eval config.json: {medians[0] * 1e3:.0f} ms; check-jsonschema {medians[1] * 1e3:.0f} ms;")
    print(f"  bare Python {medians[2] * 1e3:.0f} ms; ratio {ratio:.2f} (budget 0.5)")
    return ratio <= 0.5


if __name__ == "__main__":
    sys.exit(main())
