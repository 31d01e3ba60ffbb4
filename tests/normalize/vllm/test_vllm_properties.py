"""Whatever the command line: a valid document or located errors, in bounded time; and the tables themselves."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_eval.derive import derive
from policy_eval.normalize.command import normalize_command
from policy_eval.normalize.vllm.options import make_options
from policy_eval.normalize.vllm.table import load_table, releases
from policy_eval.pack import load_pack
from policy_eval.schema import schema_problems

NAMES = sorted(load_table("0.32.0").names)
MODEL = {"*": {"architectures": ["LlamaForCausalLM"]}}
PIECES = [
    "",
    "None",
    "null",
    "1",
    "-1",
    "1k",
    "true",
    "{}",
    "[]",
    '{"a": 1}',
    "a:b",
    "--",
    "-",
    "-O",
    "-O3",
    "x y",
    "=",
]
words = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(NAMES).flatmap(lambda name: st.integers(2, len(name)).map(lambda end: name[:end])),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(PIECES)),
    st.builds("{}.{}".format, st.sampled_from(NAMES), st.text(max_size=8)),
    st.sampled_from(PIECES),
    st.text(max_size=12),
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(
    ["method", "model", "num_speculative_tokens", "enable_adaptive_verification", "canvas_length", "mode"]
)
structures = st.dictionaries(st.one_of(keys, st.text(max_size=6)), values, max_size=4).map(json.dumps)
structured = st.sampled_from(["-sc", "--hf-overrides", "-cc", "-ac", "--kv-transfer-config"])


def check(argv: list[str], **more: Any) -> None:
    document = normalize_command(argv, hf_configs=MODEL, **more)
    for problem in document.errors:
        assert problem.message
    if not document.errors:
        document = derive(document, load_pack_once().derivations)
        assert not schema_problems(document.value, "config", None, "document")
        json.dumps(document.to_dict(), allow_nan=False).encode()


def load_pack_once(kept: list[Any] = []) -> Any:  # noqa: B006
    if not kept:
        kept.append(load_pack())
    return kept[0]


@settings(max_examples=300, deadline=None)
@given(st.lists(words, max_size=8), st.sampled_from(releases()))
def test_any_words_give_a_document_or_errors(argv: list[str], release: str) -> None:
    check(["serve", "M", *argv], engine_version=release)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(structured, structures), max_size=2))
def test_any_json_gives_a_document_or_errors(pairs: list[tuple[str, str]]) -> None:
    check(["serve", "M", *(word for pair in pairs for word in pair)], engine_version="0.32.0")


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60), st.dictionaries(st.sampled_from([n[2:] for n in NAMES]), values).map(json.dumps)
    )
)
def test_any_config_file_gives_a_document_or_errors(text: str) -> None:
    check(["serve", "M", "--config", "c.yaml"], engine_version="0.32.0", files={"c.yaml": text})


@settings(max_examples=100, deadline=None)
@given(values)
def test_any_model_config_gives_a_document_or_an_error(value: Any) -> None:
    config = {"M": {"canvas_length": value, "architectures": value, "num_experts": value}}
    document = normalize_command(["serve", "M"], engine_version="0.28.0", hf_configs=config)
    if not document.errors:
        assert not schema_problems(document.value, "config", None, "document")
    json.dumps(document.to_dict(), allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(words, max_size=5), st.lists(words, max_size=5))
def test_a_flag_given_last_wins(before: list[str], after: list[str]) -> None:
    document = normalize_command(
        ["serve", "M", *before, "--no-return-sampling-mask", "--return-sampling-mask"],
        engine_version="0.32.0",
        hf_configs=MODEL,
    )
    assert document.errors or document.value["model_config"]["return_sampling_mask"] is True


@pytest.mark.parametrize(
    "argv",
    [
        ["--x"] * 990,
        ["--return"] * 990,
        ["--hf-overrides", "[" * 1_000_000],
        ["--hf-overrides", '{"a": ' * 5000 + "1" + "}" * 5000],
        ["-sc", json.dumps({"bogus": "x" * 1_000_000})],
        ["--max-logprobs", "9" * 1_000_000],
        ["--speculative-config" + ".a" * 100_000, "1"],
        ["a"] * 100_000,
    ],
    ids=["unknown", "ambiguous", "brackets", "nested", "long", "digits", "dots", "words"],
)
def test_hostile_words_are_refused_in_time(argv: list[str]) -> None:
    started = time.process_time()
    document = normalize_command(["serve", "M", *argv], engine_version="0.32.0", hf_configs=MODEL)
    assert document.errors
    assert len(document.errors) <= 20
    assert time.process_time() - started < 20  # a second or two, and more where coverage is measured


def test_tables_are_what_the_lists_of_options_give(shared: Path) -> None:
    for release in releases():
        facts = json.loads((shared / "facts" / "vllm-options" / f"vllm-{release}.json").read_text())
        rows = make_options.from_list(facts, release)
        table = load_table(release)
        assert [tuple(row["names"]) for row in rows] == [option.names for option in table.options]
        assert [row.get("default") for row in rows] == [option.default for option in table.options]


def test_a_table_can_be_made_from_a_parser(capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mask", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--names", nargs="+", type=str, choices=["a", "b"])
    assert make_options.from_parser(parser, "9.9.9") == [
        {"names": ["-h", "--help"], "dest": "help", "action": "help", "nargs": 0},
        {"names": [], "dest": "model_tag", "nargs": "?", "default": None},
        {"names": ["--seed"], "dest": "seed", "type": "int", "default": 0},
        {"names": ["--mask", "--no-mask"], "dest": "mask", "action": "bool", "nargs": 0, "default": False},
        {"names": ["--names"], "dest": "names", "nargs": "+", "choices": ["a", "b"], "default": None},
    ]
