"""Derivation files: what is wrong with one, and what follows when facts are unknown."""

from __future__ import annotations

from typing import Any

import pytest

from policy_eval.derive import Derivation, derive, parse_derivation
from policy_eval.errors import PolicyEvalError
from policy_eval.load import load_yaml
from policy_eval.model import Document

HEAD = """\
apiVersion: policy-eval/v1
kind: Derivation
metadata: {name: test, title: a test}
spec:
  engine: vllm
"""


def read(text: str) -> Derivation:
    return parse_derivation(load_yaml(HEAD + text, "d.yaml"))


def document(version: str | None = "0.32.0", **facts: Any) -> Document:
    engine = {"name": "vllm"} if version is None else {"name": "vllm", "version": version}
    return Document(name="d", value={"schema": "policy-eval/config/v1", "engine": engine, **facts})


BAD = {
    "unknown-fact": (
        "  derives: /use_v3\n  rules: [{id: a, value: 'true', because: b}]\n",
        "d.yaml:6:12: no fact `use_v3` in `config`",
    ),
    "neither": (
        "  derives: /use_v2_model_runner\n  rules: [{id: a, because: b}]\n",
        "d.yaml:7:11: a rule has either `value` or `refuses`",
    ),
    "wrong-type": (
        "  derives: /use_v2_model_runner\n  rules: [{id: a, value: '1', because: b}]\n",
        "d.yaml:7:27: the expression is an int, where true or false is needed",
    ),
    "typo": (
        "  derives: /use_v2_model_runner\n"
        "  rules: [{id: a, when: config.hots.x, value: 'true', because: b}]\n",
        "d.yaml:7:32: `config` has no field `hots`",
    ),
    "twice": (
        "  derives: /use_v2_model_runner\n"
        "  rules: [{id: a, value: 'true', because: b}, {id: a, value: 'true', because: b}]\n",
        "d.yaml:7:52: rule `a` is there already, at line 7",
    ),
    "versions": (
        "  derives: /use_v2_model_runner\n  rules: [{id: a, versions: new, value: 'true', because: b}]\n",
        "d.yaml:7:29: not a version specifier: `new`",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_file_is_refused_at_its_place(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(PolicyEvalError) as caught:
        read(text)
    assert str(caught.value.problems[0]).splitlines()[0].startswith(message)


RUNNER = read("""\
  derives: /use_v2_model_runner
  rules:
    - {id: old, versions: "<0.30", when: config.parallel_config.enable_dbo, value: "false", because: old}
    - {id: triton, when: "!config.host.has_triton", value: "false", because: no Triton}
    - {id: dbo, when: config.parallel_config.enable_dbo, value: "false", because: overlap}
    - {id: rest, value: "true", because: nothing else}
""")


def outcome(found: Document) -> Any:
    return found.value.get("use_v2_model_runner", found.value.get("unknown"))


def test_the_first_rule_that_matches_decides_and_says_why() -> None:
    found = derive(document(host={"has_triton": False}, parallel_config={"enable_dbo": True}), [RUNNER])
    assert outcome(found) is False
    assert found.provenance["/use_v2_model_runner"].why == "no Triton"


def test_what_is_stated_is_kept() -> None:
    found = derive(document(use_v2_model_runner=True, host={"has_triton": False}), [RUNNER])
    assert outcome(found) is True
    marked = derive(document(unknown=["/use_v2_model_runner"], host={"has_triton": True}), [RUNNER])
    assert outcome(marked) == ["/use_v2_model_runner"]


def test_a_fact_that_is_missing_is_named() -> None:
    found = derive(document(), [RUNNER])
    assert outcome(found) == ["/use_v2_model_runner"]
    assert found.provenance["/use_v2_model_runner"].why == "unknown: it follows from /host/has_triton"


def test_a_missing_fact_does_not_matter_where_every_way_agrees() -> None:
    assert outcome(derive(document(parallel_config={"enable_dbo": True}), [RUNNER])) is False


def test_without_a_release_rules_of_some_releases_are_open() -> None:
    facts: dict[str, Any] = {"host": {"has_triton": True}}
    only_old = read("""\
  derives: /use_v2_model_runner
  rules:
    - {id: old, versions: "<0.30", value: "false", because: old}
    - {id: rest, value: "true", because: nothing else}
""")
    found = derive(document(None, **facts), [only_old])
    assert found.provenance["/use_v2_model_runner"].why == "unknown: it follows from /engine/version"
    assert outcome(derive(document(None, **facts), [only_old], "0.29.1")) is False
    assert outcome(derive(document(None, **facts), [only_old], "0.32.0")) is True


def test_facts_may_follow_from_derived_facts_in_any_order_of_files() -> None:
    first = read("""\
  derives: /host/has_triton
  rules: [{id: a, when: config.host.platform == "cuda", value: "true", because: it comes along}]
""")
    for order in ([first, RUNNER], [RUNNER, first]):
        assert outcome(derive(document(host={"platform": "cuda"}), order)) is True
        found = derive(document(host={"platform": "cpu"}), order)
        assert sorted(outcome(found)) == ["/host/has_triton", "/use_v2_model_runner"]


def test_facts_that_wait_for_each_other_are_unknown() -> None:
    one = read("""\
  derives: /model_config/is_moe
  rules: [{id: a, value: config.model_config.is_hybrid, because: b}]
""")
    other = read("""\
  derives: /model_config/is_hybrid
  rules: [{id: a, value: config.model_config.is_moe, because: b}]
""")
    found = derive(document(model_config={}), [one, other])
    assert sorted(found.value["unknown"]) == ["/model_config/is_hybrid", "/model_config/is_moe"]


def test_a_refusal_is_an_error_in_the_engines_words() -> None:
    refusing = read("""\
  derives: /use_v2_model_runner
  rules:
    - {id: a, when: config.parallel_config.enable_dbo, refuses: '"no " + config.env["X"]', because: b, path: /env/X}
    - {id: b, value: "true", because: c}
""")
    found = derive(document(env={"X": "way"}, parallel_config={"enable_dbo": True}), [refusing])
    assert [(problem.message, problem.help) for problem in found.errors] == [("no way", "b")]
    open_ended = derive(document(unknown=["/parallel_config/enable_dbo"], env={"X": "way"}), [refusing])
    assert outcome(open_ended) == ["/parallel_config/enable_dbo", "/use_v2_model_runner"]


def test_a_rule_that_fails_makes_the_fact_unknown() -> None:
    failing = read("""\
  derives: /use_v2_model_runner
  rules: [{id: a, when: 'config.env["MISSING"] == "1"', value: "true", because: b}]
""")
    found = derive(document(), [failing])
    assert outcome(found) == ["/use_v2_model_runner"]
    assert "cannot be evaluated" in (found.provenance["/use_v2_model_runner"].why or "")


def test_parts_of_what_is_null_are_not_derived() -> None:
    moe = read("  derives: /model_config/is_moe\n  rules: [{id: a, value: 'true', because: b}]\n")
    assert derive(document(model_config=None), [moe]).value["model_config"] is None
    assert "model_config" not in derive(document(), [moe]).value
    assert derive(document(model_config={}), [moe]).value["model_config"] == {"is_moe": True}
