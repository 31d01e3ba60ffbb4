"""A policy that is weakened or tightened anywhere must not be proved any more: every rule, mutated in every way."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch", reason="the sampler needs torch")

from policy_eval.cel import tree
from policy_eval.errors import PolicyEvalError
from policy_eval.load import load_yaml
from policy_eval.policy import Expression, Policy, parse_policy
from policy_eval.prove.proof import prove

FILE = Path(__file__).resolve().parents[2] / "policies" / "vllm" / "sampling-replay.yaml"
DATA: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
# Those on either side of every boundary in the policy.
RELEASES = {"vllm": ("0.28.0", "0.31.0", "0.32.0", "0.33.0")}
# Releases for which a rule is switched off, or on.
NARROWED = {
    "": ("<0.33", ">=0.29", "<0.28"),
    "<0.32": ("<0.31", "<0.28", "<0.33", ""),
    # Not >=0.31 or all: with the rule before it the verdicts stay the same.
    ">=0.32": (">=0.33", ">=0.34"),
}


def parsed(data: dict[str, Any]) -> Policy:
    return parse_policy(load_yaml(yaml.safe_dump(data), "policy.yaml"))


POLICY = parsed(DATA)


def weaker(expression: Expression) -> Iterator[str]:
    """The text with one thing changed: constants, negations, operators, and parts left out."""
    text = expression.text
    yield from ("true", "false", f"!({text.strip()})")
    stack = [expression.node]
    while stack:
        node = stack.pop()
        stack += tree.children(node)
        parts = tree.children(node)
        if isinstance(node, tree.Logic):
            for part in parts:
                yield text[: node.start] + text[part.start : part.end] + text[node.end :]
        for here, other in (("&&", "||"), ("||", "&&"), ("==", "!="), ("!=", "==")):
            for left, right in pairwise(parts):
                gap = text[left.end : right.start]
                if here in gap:
                    yield text[: left.end] + gap.replace(here, other) + text[right.start :]
        if isinstance(node, tree.Unary):
            yield text[: node.start] + text[parts[0].start : parts[0].end] + text[node.end :]


def mutants() -> Iterator[Any]:
    for at, rule in enumerate(POLICY.rules):
        changed = copy.deepcopy(DATA)
        del changed["spec"]["validations"][at]
        yield pytest.param(changed, id=f"{rule.id} deleted")
        for text in dict.fromkeys(weaker(rule.expression)):
            changed = copy.deepcopy(DATA)
            changed["spec"]["validations"][at]["expression"] = text
            yield pytest.param(changed, id=f"{rule.id} {text.strip()}")
        for versions in NARROWED[rule.versions]:
            changed = copy.deepcopy(DATA)
            changed["spec"]["validations"][at]["versions"] = versions
            if not versions:
                del changed["spec"]["validations"][at]["versions"]
            yield pytest.param(changed, id=f"{rule.id} {rule.versions or 'all'} -> {versions or 'all'}")
        changed = copy.deepcopy(DATA)
        changed["spec"]["validations"][at]["severity"] = "warning"
        yield pytest.param(changed, id=f"{rule.id} a warning")
    for at, condition in enumerate(POLICY.conditions):
        changed = copy.deepcopy(DATA)
        del changed["spec"]["matchConditions"]
        yield pytest.param(changed, id=f"{condition.name} deleted")
        for text in dict.fromkeys(weaker(condition.expression)):
            changed = copy.deepcopy(DATA)
            changed["spec"]["matchConditions"][at]["expression"] = text
            yield pytest.param(changed, id=f"{condition.name} {text.strip()}")


def test_the_policy_itself_is_proved() -> None:
    proof = prove([POLICY], RELEASES, seeds=1)
    assert (proof.outcome, proof.exit_code) == ("proved", 0)
    assert {rule.status for rule in proof.rules} == {"proved"}
    assert all(rule.damage for rule in proof.rules)


@pytest.mark.parametrize("data", list(mutants()))
def test_a_mutant_is_not_proved(data: dict[str, Any]) -> None:
    try:
        policy = parsed(data)
    except PolicyEvalError:
        # The checker already refuses it.
        return
    proof = prove([policy], RELEASES, seeds=1)
    assert (proof.outcome, proof.exit_code) == ("not proved", 1)
    assert proof.counterexamples or proof.troubles or any(rule.status != "proved" for rule in proof.rules)
