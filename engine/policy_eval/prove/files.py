"""Proof as files: each configuration that shows something, to run again, and its rollout, to judge again."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.prove.evidence import recorded
from policy_eval.prove.proof import Proof, Witness
from policy_eval.sampler.miniature.cases import cases
from policy_eval.sampler.miniature.engine import run


def write(proof: Proof, folder: str) -> list[str]:
    """Write all witnesses below ``folder``; returns the paths of the configurations.

    ``counterexample-N.json``: let through and not consistent. ``RULE.json``: rejected by that rule only.
    ``RULE-needless.json``: rejected without need. Beside each, ``.jsonl`` and ``.npy``: a rollout for
    ``policy-eval judge FILE.jsonl --logits FILE.npy``. Raises PolicyEvalError where a file cannot be written.
    """
    named = [(f"counterexample-{at + 1}", one) for at, one in enumerate(proof.counterexamples)]
    for rule in proof.rules:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", rule.rule.id)
        named += [(name, one) for one in rule.damage[:1]]
        named += [(f"{name}-needless", rule.needless)] if rule.needless else []
    try:
        os.makedirs(folder, exist_ok=True)
        return [_write(os.path.join(folder, name), witness) for name, witness in named]
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "bad name"
        message = f"cannot write below `{folder}`: {reason}"
        raise PolicyEvalError(Problem(message=message, help="choose a folder that can be written")) from None


def _write(path: str, witness: Witness) -> str:
    _text(f"{path}.json", json.dumps(witness.document, indent=2) + "\n")
    if witness.evidence is not None:
        import numpy

        done = run(witness.evidence.behaviour, cases(1))
        lines: list[dict[str, Any]] = [recorded(request) for request in done.requests]
        _text(f"{path}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        numpy.save(f"{path}.npy", done.logits.reshape(-1, done.logits.shape[-1]).numpy(), allow_pickle=False)
    return f"{path}.json"


def _text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
