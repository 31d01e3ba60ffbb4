"""The CEL engine against hand-written Python and against other CEL engines, in one run.

    python tests/bench/bench_cel.py

Engines that are not installed (extra ``bench``) are left out and named. Ratios only: absolute times depend on the
machine.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

from bench_spine import DOCUMENT, hand_written
from timing import Table, ratio, seconds

from policy_eval import Evaluator, cel
from policy_eval.cel import types
from policy_eval.schema import config_type

RULES = [
    "config.use_v2_model_runner",
    "config.speculative_config == null || !config.speculative_config.enable_adaptive_verification",
    "!config.model_config.is_diffusion",
    "config.model_config.logits_processors == null || size(config.model_config.logits_processors) == 0",
    'config.model_config.logprobs_mode == "processed_logprobs"',
]
CONDITION = "config.model_config != null && config.model_config.return_sampling_mask"


def rule_set(rules: list[str], conditions: list[str], roots: dict[str, types.Type]) -> cel.RuleSet:
    """Compile rules over a document."""

    def node(text: str) -> cel.Node:
        checked = cel.check_expression(text, roots, expect=types.BOOL)
        assert checked.node is not None, checked.errors
        assert not checked.errors, checked.errors
        return checked.node

    return cel.RuleSet(roots=roots, conditions=list(map(node, conditions)), rules=list(map(node, rules)))


def peers() -> dict[str, Callable[[], object]]:
    """The five rules through other CEL engines: compiled once, the document converted at each call."""
    found: dict[str, Callable[[], object]] = {}
    texts = [CONDITION, *RULES]
    try:
        from cel_expr_python import cel as cpp

        environment = cpp.NewEnv(variables={"config": cpp.Type.DYN})
        programs = [environment.compile(text) for text in texts]
        found["Google's C++ CEL"] = lambda: [
            program.eval(data={"config": DOCUMENT}).value() for program in programs
        ]
    except ImportError:
        print("not installed: cel-expr-python")
    try:
        import cel as rust

        compiled = [rust.compile(text) for text in texts]
        found["Rust CEL"] = lambda: [program.execute({"config": DOCUMENT}) for program in compiled]
    except ImportError:
        print("not installed: common-expression-language")
    return found


def many_rules(count: int) -> tuple[list[str], dict[str, Any], Callable[[dict[str, Any]], int]]:
    """``count`` rules over one document, and the same in hand-written Python."""
    modes = ("raw_logprobs", "raw_logits", "processed_logits")
    rules, lines = [], ["def by_hand(config):", " model = config['model_config']"]
    for at in range(count):
        mode, most = modes[at % 3], at + 100
        rules.append(
            f'config.model_config.logprobs_mode != "{mode}" && config.model_config.max_logprobs < {most}'
        )
        lines.append(
            f" if not (model['logprobs_mode'] != {mode!r} and model['max_logprobs'] < {most}): return {at}"
        )
    space: dict[str, Any] = {}
    exec("\n".join([*lines, " return -1"]), space)
    document = copy.deepcopy(DOCUMENT)
    document["model_config"]["max_logprobs"] = 20
    return rules, document, space["by_hand"]


def wide(leaves: int) -> dict[str, Any]:
    """The document with so many more environment variables."""
    return {**DOCUMENT, "env": {f"NAME_{at}": "value" for at in range(leaves)}}


def main() -> int:
    """Print the table; exit 1 when a budget is missed."""
    table = Table()
    roots: dict[str, types.Type] = {"config": config_type()}
    five = rule_set(RULES, [CONDITION], roots)

    def passing() -> object:
        return five.first(DOCUMENT)

    assert passing() == -1
    print("the five-rule replay policy, against hand-written Python")
    table.row("policy-eval, generated code", ratio(passing, lambda: hand_written(DOCUMENT)), 1.6)
    for name, run in peers().items():
        table.row(name, ratio(run, lambda: hand_written(DOCUMENT)))
        table.row(f"  {name} against policy-eval", ratio(run, passing))

    print("what costs more than the passing path, against it")
    for name in ("speculative_config", "return_sampling_mask", "logprobs_mode"):
        less = copy.deepcopy(DOCUMENT)
        less["model_config"].pop(name, None)
        less.pop(name, None)
        expected = {"speculative_config": -1, "return_sampling_mask": -2, "logprobs_mode": 4}[name]
        assert five.first(less) == expected
        table.row(f"`{name}` left out, its default taken", ratio(lambda d=less: five.first(d), passing), 3)  # type: ignore[misc]
    open_roots: dict[str, types.Type] = {"config": types.DYN}
    absorbing = rule_set(["config.a.b == 1 || config.c == 2", "config.c == 2"], [], open_roots)
    there, missing = {"a": {"b": 1}, "c": 2}, {"a": {}, "c": 2}
    assert absorbing.first(there) == absorbing.first(missing) == -1
    table.row(
        "an error that `||` absorbs",
        ratio(lambda: absorbing.first(missing), lambda: absorbing.first(there)),
        3,
    )

    print("a macro over a list of 1,000, against the same loop in Python")
    listed: dict[str, types.Type] = {"x": types.ListType(types.INT), "s": types.ListType(types.STRING)}
    numbers, names = list(range(1000)), [f"name-{at}" for at in range(1000)]

    def mapped() -> object:
        found = []
        for i in numbers:
            found.append(i + 1)
        return len(found) == 1000

    def filtered() -> object:
        found = []
        for i in numbers:
            if i > 500:
                found.append(i)
        return len(found) == 499

    macros: list[tuple[str, Callable[[], object]]] = [
        ("x.all(i, i >= 0)", lambda: all(i >= 0 for i in numbers)),
        ("x.exists(i, i == 999)", lambda: any(i == 999 for i in numbers)),
        ("s.all(n, n.startsWith('name'))", lambda: all(n.startswith("name") for n in names)),
        ("x.map(i, i + 1).size() == 1000", mapped),
        ("x.filter(i, i > 500).size() == 499", filtered),
    ]
    for text, by_hand in macros:
        one = rule_set([text], [], listed)
        assert one.first(numbers, names) == -1
        table.row(text, ratio(lambda r=one: r.first(numbers, names), by_hand), 2)  # type: ignore[misc]

    print("a policy of 200 rules, against hand-written Python")
    rules, document, by_hand_many = many_rules(200)
    compiled = rule_set(rules, [], roots)
    assert compiled.first(document) == by_hand_many(document) == -1
    table.row(
        "evaluated, against hand-written Python",
        ratio(lambda: compiled.first(document), lambda: by_hand_many(document)),
        1.6,
    )

    def whole() -> object:
        return rule_set(rules, [], roots).first

    print(
        f"  parsed, checked and compiled in {min(seconds(whole) for _ in range(3)) * 1e3:.0f} ms (budget 60 ms)"
    )

    print("the size of the document")
    few, lots = wide(5), wide(5000)
    table.row("5,000 leaves against 5", ratio(lambda: five.first(lots), lambda: five.first(few)), 1.2)
    evaluator = Evaluator.load()
    table.row(
        "  Evaluator.first_failure, the same",
        ratio(lambda: evaluator.first_failure(lots), lambda: evaluator.first_failure(few)),
        1.2,
    )
    return int(table.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
