"""``policy-eval judge``: exit codes, places, and inputs that are not recordings."""

from __future__ import annotations

import io
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import RECORDINGS, invented

from policy_eval.cli import main
from policy_eval.commands import judge as command
from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.resources import data_folder
from policy_eval.sampler import recording
from policy_eval.sampler.bounds import DTYPES
from policy_eval.sampler.invariants import INVARIANTS
from policy_eval.sampler.recording import parse_request
from policy_eval.sampler.semantics import SEMANTICS


@pytest.fixture
def rollout(tmp_path: Path) -> tuple[Path, Path, list[dict[str, Any]]]:
    records, logits = invented()
    numpy.save(tmp_path / "r.npy", logits)
    return write(tmp_path, records), tmp_path / "r.npy", records


def write(folder: Path, records: list[Any]) -> Path:
    path = folder / "r.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["judge", *map(str, arguments)])
    out = capsys.readouterr()
    assert "internal error" not in out.err
    return code, out.out + out.err


def test_consistent(rollout: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, logits, _ = rollout
    code, text = run(capsys, path, "--logits", logits, "--semantics", "vllm")
    assert (code, text) == (0, f"consistent  {path}  (12 requests, 48 tokens, replayed as vllm)\n")
    code, text = run(capsys, path)
    assert code == 0
    assert "masks not replayed: no --logits" in text


def test_a_finding_names_file_line_request_token_and_invariant(
    rollout: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, logits, records = rollout
    record = next(record for record in records if len(record["sampling_mask"][2]) > 1)
    number = records.index(record)
    token = record["token_ids"][2]
    record["sampling_mask"][2] = [token]
    record["sampling_mask_logprobs"][2] = [0.0]
    write(path.parent, records)
    code, text = run(capsys, path, "--logits", logits, "--semantics", "vllm")
    assert code == 1
    assert f"{path}:{number + 1}: request {number}, token 2: id" in text
    assert "[replay-same-support]" in text
    assert INVARIANTS["replay-same-support"].harm in text
    code, text = run(capsys, path, "--logits", logits, "--semantics", "vllm", "--format", "json")
    report = json.loads(text)
    assert code == 1
    assert report["outcome"] == "inconsistent"
    finding = report["findings"][0]
    assert (finding["line"], finding["request"], finding["token"]) == (number + 1, number, 2)
    assert finding["invariant"] == "replay-same-support"
    assert sum(report["counts"].values()) == len(report["findings"])


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings(name: str, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = shared / "recordings" / name
    arguments = (f"{base}.jsonl", "--logits", f"{base}.logits.npy", "--semantics")
    assert run(capsys, *arguments, RECORDINGS[name])[0] == 0
    assert run(capsys, *arguments, "sglang-torch" if RECORDINGS[name] == "vllm" else "vllm")[0] == 1


def test_standard_input(
    rollout: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rollout[0].read_bytes())))
    code, text = run(capsys, "-")
    assert code == 0
    assert "<stdin>" in text


def test_semantics_is_never_implied(rollout: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, logits, records = rollout
    code, text = run(capsys, path, "--logits", logits)
    assert code == 2
    assert f"{path}:1:1: the record does not say whose sampler it was" in text
    write(path.parent, [record | {"semantics": "vllm", "dtype": "fp32"} for record in records])
    assert run(capsys, path, "--logits", logits)[0] == 0


SPOILED_FORM: list[tuple[dict[str, Any], str]] = [
    ({"token_ids": "5"}, "`token_ids` must be a list of ids"),
    ({"token_ids": [True]}, "`token_ids` must be a list of ids"),
    ({"prompt_token_ids": [40]}, "id 40 is not in the vocabulary of 40"),
    ({"vocab_size": 0}, "`vocab_size` must be a whole number"),
    ({"vocab_size": 10**12}, "`vocab_size` must be a whole number"),
    ({"sampling_mask": 5}, "`sampling_mask` must be a list with a row for each token"),
    ({"sampling_mask": [["a"]]}, "row 0 of `sampling_mask` must be a list of ids"),
    ({"sampling_mask_logprobs": [["a"]]}, "row 0 of `sampling_mask_logprobs` must be a list of numbers"),
    ({"first_logits_row": -1}, "`first_logits_row` must be a whole number"),
    ({"first_logits_row": 10**9}, "the request needs logits rows"),
    ({"first_logits_row": None}, "`first_logits_row` is missing"),
    ({"semantics": "vlm"}, "`semantics` must be one of"),
    ({"sampling_maks": []}, "unknown key `sampling_maks`\n"),
    ({"token_logprobs": [None]}, "`token_logprobs` must be a list of numbers"),
    ({"sampling_params": {}}, "`temperature` is missing in `sampling_params`"),
    ({"vocab_size": 41}, "`vocab_size` is 41, a row has 40 logits"),
]
SPOILED_SAMPLING: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1}, "`temperature` must be a number of 0 or more"),
    ({"temperature": "1"}, "`temperature` must be a number of 0 or more"),
    ({"top_p": 0}, "`top_p` must be a number above 0"),
    ({"top_k": 1.5}, "`top_k` must be a whole number"),
    ({"top_k": None}, "`top_k` is missing in `sampling_params`"),
    ({"typical_p": 0.5}, "unknown key `typical_p`"),
    ({"allowed_token_ids": [99]}, "id 99 is not in the vocabulary of 40"),
    ({"logit_bias": {"x": 1}}, "`x` is not an id"),
    ({"logit_bias": {"1": "a"}}, "`logit_bias` must map ids to numbers"),
    ({"bad_words_token_ids": [[]]}, "a bad word must have at least one id"),
    ({"bad_words_token_ids": [3]}, "must be a list of ids"),
]


@pytest.mark.parametrize(
    ("change", "words"),
    SPOILED_FORM + [({"sampling_params": change}, words) for change, words in SPOILED_SAMPLING],
)
def test_bad_records_are_located(
    change: dict[str, Any], words: str, rollout: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, logits, records = rollout
    if change.get("sampling_params"):
        change = {"sampling_params": records[1]["sampling_params"] | change["sampling_params"]}
    records[1] |= change
    write(path.parent, records)
    code, text = run(capsys, path, "--logits", logits, "--semantics", "vllm")
    assert code == 2
    assert words in text
    assert f"{path}:2:" in text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "nothing to judge"),
        (b"\n \n", "nothing to judge"),
        (b"[1]\n", "a request must be a JSON object"),
        (b"{\n", ":1:"),
        (b'{"a": 1, "a": 2}\n', ":1:"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b"[" * 200_000 + b"\n", ":1:"),
        (b"NaN\n", ":1:"),
        (b'{"\x1b[31m": 1}\n', ":1:"),
    ],
)
def test_files_that_are_no_recordings(
    data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    code, text = run(capsys, path)
    assert code == 2
    assert words in text
    assert "\x1b" not in text
    assert json.loads(run(capsys, path, "--format", "json")[1])["outcome"] == "error"


def test_missing_file_and_long_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = run(capsys, tmp_path / "no.jsonl")
    assert code == 2
    assert "no such file" in text
    monkeypatch.setattr(recording, "MAX_LINE", 100)
    (tmp_path / "x.jsonl").write_text("1" * 200)
    code, text = run(capsys, tmp_path / "x.jsonl")
    assert code == 2
    assert "a line longer than" in text


class _Trap:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


def test_files_that_are_no_logits(rollout: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, _, _ = rollout
    bad = tmp_path / "bad.npy"

    def attempt() -> str:
        code, text = run(capsys, path, "--logits", bad, "--semantics", "vllm")
        assert code == 2
        return text

    assert "no such file" in attempt()
    bad.write_bytes(pickle.dumps(_Trap()))
    assert "is not a NumPy file" in attempt()
    numpy.save(bad, numpy.array([_Trap()], dtype=object), allow_pickle=True)
    assert "is damaged" in attempt()
    numpy.save(bad, numpy.zeros(5, dtype=numpy.float32))
    assert "holds float32 of shape 5" in attempt()
    numpy.save(bad, numpy.zeros((5, 5), dtype=numpy.int64))
    assert "holds int64 of shape 5 x 5" in attempt()
    whole = rollout[1].read_bytes()
    for cut in (6, 20, 100, 200):
        bad.write_bytes(whole[:cut])
        attempt()
    bad.write_bytes(whole.replace(b"(48, 40)", b"(48, 4" + b"0" * 1))
    attempt()


def test_schema_and_reader_agree() -> None:
    schema = json.loads((Path(data_folder("schemas")) / "rollout.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    records, _ = invented()
    for record in records:
        validator.validate(record)
    for change, _ in SPOILED_FORM:
        record = records[0] | change
        # What depends on other values or on the matrix is beyond a schema.
        beyond = "prompt_token_ids" in change or change in ({"first_logits_row": 10**9}, {"vocab_size": 41})
        beyond = beyond or change == {"first_logits_row": None}
        assert validator.is_valid(record) == beyond, change
    for change, _ in SPOILED_SAMPLING:
        record = records[0] | {"sampling_params": records[0]["sampling_params"] | change}
        assert validator.is_valid(record) == ("allowed_token_ids" in change), change
    assert list(command._SEMANTICS) == list(SEMANTICS)
    assert list(command._DTYPES) == list(DTYPES)


def test_recordings_follow_the_schema(shared: Path) -> None:
    schema = json.loads((Path(data_folder("schemas")) / "rollout.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for name in RECORDINGS:
        with open(shared / "recordings" / f"{name}.jsonl", encoding="utf-8") as file:
            for line in file:
                validator.validate(json.loads(line))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
RECORD = invented(requests=1)[0][0]


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from([*RECORD, "token_logprobs", "sampling_mask_counts", "dtype", "x"]), value=json_values
)
def test_any_value_anywhere_is_read_or_refused(key: str, value: Any) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        parse_request(json.dumps(RECORD | {key: value}), "f", 7)
    except PolicyEvalError as error:
        problems = error.problems
    assert all(problem.location and problem.location.line == 7 for problem in problems)


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from([*recording._NUMBERS, "logit_bias", "bad_words_token_ids", "stop_token_ids"]),
    value=json_values,
)
def test_any_sampling_parameter_is_judged_or_refused(key: str, value: Any) -> None:
    from policy_eval.sampler.rollout import judge_request

    text = json.dumps(RECORD | {"sampling_params": RECORD["sampling_params"] | {key: value}})
    try:
        request = parse_request(text, "f", 7)
    except PolicyEvalError:
        return
    judge_request(request, None, "vllm")
