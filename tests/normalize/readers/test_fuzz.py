"""Whatever an input holds, every reader ends in documents or in a located error, and soon."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy_eval.errors import PolicyEvalError
from policy_eval.model import Document
from policy_eval.normalize.file import normalize_text
from policy_eval.normalize.readers.shapes import SHAPES

CASES = sorted(
    path
    for path in Path(__file__).parent.glob("cases/*/*")
    if path.is_file() and path.name not in ("expected.json", "options.json")
)
SEEDS = [(path.name, path.read_text(encoding="utf-8")) for path in CASES]
NAMES = [shape.name for shape in SHAPES]
SECONDS = 10.0  # it takes a tenth of that; a busy machine that also measures coverage takes more

PIECES = [
    *(
        "vllm serve m",
        "docker run",
        "bash -c '",
        '"',
        "'",
        "$",
        "${X:-",
        "}",
        "$(",
        ")",
        "`",
        "\\",
        "\n",
        "  ",
        "- ",
    ),
    *(
        ": ",
        "{",
        "[",
        "kind: Pod\napiVersion: v1\n",
        "&a ",
        "*a",
        "<<: ",
        "|\n",
        ">-\n",
        "\t",
        "[Service]\nExecStart=",
    ),
    *('if [ -n "$A" ]; then', "fi", "while true; do", "done", "case $X in", "esac", "A+=(", "f() {", "eval "),
    *(
        "source ./x",
        "--config ",
        "--speculative-config '{\"",
        "defaults: ",
        "${a.b}",
        "\u2028",
        "\U0010fffd",
        "é",
    ),
    *("\0", "[[x]]", "=", "#", "- - - ", "!!int ", "1e999", "true", "null", ";;", "&&"),
]


def check(text: str, file: str, reader: str | None) -> None:
    started = time.process_time()
    messages = ["none"]
    try:
        documents = normalize_text(text, file, reader=reader)
    except PolicyEvalError as error:
        messages = [problem.message for problem in error.problems]
    else:
        assert documents
        for document in documents:
            assert isinstance(document, Document)
            json.dumps(document.to_dict())
    assert messages
    assert time.process_time() - started < SECONDS


slow = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


@slow
@given(data=st.data())
def test_mutated_files(data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = (
            text[:start]
            + data.draw(st.sampled_from(PIECES)) * data.draw(st.sampled_from([1, 1, 2, 40]))
            + text[end:]
        )
    check(text, name, None)


@slow
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=25).map("".join),
    st.sampled_from([None, *NAMES]),
    st.sampled_from(["a.yaml", "a.sh", "a.toml", "a.json", "a.service", "a"]),
)
def test_assembled_texts(text: str, reader: str | None, file: str) -> None:
    check(text, file, reader)


@slow
@given(st.sampled_from(SEEDS), st.sampled_from(NAMES))
def test_every_reader_on_every_file(seed: tuple[str, str], reader: str) -> None:
    check(seed[1], seed[0], reader)


HOSTILE = {
    "nested quotes.sh": "vllm serve " + "$(" * 3000,
    "nested braces.sh": "vllm serve " + "${A:-" * 3000,
    "nested loops.sh": "for i in 1 2; do " * 200 + "vllm serve m" + "; done" * 200,
    "doubling.sh": "A=(1 2 3 4)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'vllm serve m "${A[@]}"',
    "growing.sh": "A=xxxxxxxxxx\n" + "A=$A$A$A$A\n" * 60 + "vllm serve m $A",
    "conditions.sh": '[ -n "$A" ] && B=1\n' * 3000 + "vllm serve m",
    "many engines.sh": "vllm serve m --max-logprobs 3\n" * 5000,
    "recursion.sh": "f() { f; f; }\nf\nvllm serve m",
    "eval.sh": 'A=\'eval "$A"\'\neval "$A"\nvllm serve m',
    "long word.sh": "vllm serve " + "x" * 200_000,
    "stars.sh": "case " + "a" * 2000 + " in " + "*a" * 100 + "b) vllm serve m;; esac",
    "parentheses.sh": "(" * 5000 + "vllm serve m",
    "brackets.yaml": "kind: Pod\napiVersion: v1\na: " + "[" * 3000,
    "brackets.toml": "a = " + "[" * 3000,
    "tables.toml": "[orchestrator]\n" + "a.b.c.d.e.f.g.h.i.j = 1\n" * 5,
    "keys.toml": "[" + ".".join("abcdefgh" * 200) + "]\nsampling = 1",
    "engines.yaml": "services:\n"
    + "".join(f"  s{n}: {{image: 'vllm/vllm-openai:v0.32.0'}}\n" for n in range(300)),
    "variables.yaml": "services:\n  v:\n    image: vllm/vllm-openai\n    command: '" + "${A:-" * 2000 + "'",
    "arguments.yaml": "services:\n  v:\n    image: vllm/vllm-openai\n    command: '"
    + "--seed 1 " * 3000
    + "'",
    "continued.service": "[Service]\nExecStart=/usr/bin/vllm serve m " + "\\\n# x\n" * 3000,
    "references.yaml": "policy:\n  generation: {top_p: '${policy.generation.top_p}'}\n"
    + "  model_name: ${policy.model_name}\n",
    "block.yaml": "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: a\n"
    + "    command: [sh, -c]\n    args:\n    - |\n"
    + "      export A=1 # vllm\n" * 1000
    + "      vllm serve m --max-logprobs 5\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_inputs(name: str) -> None:
    check(HOSTILE[name], name, None)
    if name.endswith(".sh"):
        check(HOSTILE[name], name, "shell")
