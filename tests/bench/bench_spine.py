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
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def seconds(function: Callable[[], object], repeat: int = 7) -> float:
    """Seconds a call takes: the least of several rounds, each long enough to measure."""
    timer = timeit.Timer(function)
    number, taken = timer.autorange()
    number = max(1, int(number * 0.2 / max(taken, 1e-9)))
    return min(timer.repeat(repeat, number)) / number


def cel_python() -> Callable[[], object] | None:
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

    def relative(function: Callable[[], object]) -> float:
        # Measured side by side, so that a change of the machine's speed falls on both.
        pairs = [(seconds(function, 1), seconds(lambda: hand_written(DOCUMENT), 1)) for _ in range(7)]
        return statistics.median(ours / theirs for ours, theirs in pairs)

    base = seconds(lambda: hand_written(DOCUMENT))
    rows: list[tuple[str, float, float | None]] = [
        ("hand-written Python", 1.0, None),
        ("compiled five-rule policy", relative(lambda: compiled.first(DOCUMENT)), 1.6),
        ("Evaluator.first_failure", relative(lambda: evaluator.first_failure(DOCUMENT)), 4.0),
        ("Evaluator.evaluate, full report", relative(lambda: evaluator.evaluate(DOCUMENT)), 20.0),
    ]
    missed = False
    peer = cel_python()
    if peer:
        celpy_ratio = relative(peer)
        rows.append(("cel-python, document converted", celpy_ratio, None))
        faster = celpy_ratio / rows[1][1]
        missed |= faster < 300
        print(f"compiled policy against cel-python: {faster:,.0f} x faster (budget 300)")
    print(f"hand-written Python: {base * 1e6:.3f} us a document")
    for name, ratio, budget in rows:
        missed |= budget is not None and ratio > budget
        print(f"{name:38} {ratio:10.2f} x" + (f"   budget {budget} x" if budget else ""))
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
                taken = timeit.timeit(
                    lambda c=command: subprocess.run(c, check=True, capture_output=True), number=1
                )  # type: ignore[misc]
                if turn:
                    times[at].append(taken)
    medians = [statistics.median(found) for found in times]
    ratio = medians[0] / medians[1]
    print(f"policy-eval config.json: {medians[0] * 1e3:.0f} ms; check-jsonschema {medians[1] * 1e3:.0f} ms;")
    print(f"  bare Python {medians[2] * 1e3:.0f} ms; ratio {ratio:.2f} (budget 0.5)")
    return ratio <= 0.5


if __name__ == "__main__":
    sys.exit(main())
