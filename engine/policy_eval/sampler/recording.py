"""Reading recorded rollouts: a JSON object a line, and a matrix of raw logits beside it.

Strict and bounded: each problem names file, line and column, and no line can take more than MAX_LINE. Floats
that JSON has no word for (NaN, -Infinity) are read where log-probabilities stand, because what writes them is a
fault of the engine that the judge reports, not of the file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, BinaryIO

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import load_json
from policy_eval.sampler.bounds import DTYPES
from policy_eval.sampler.params import LEAST_TEMPERATURE
from policy_eval.sampler.rollout import Request
from policy_eval.sampler.semantics import SEMANTICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LINE = 64 * 1024 * 1024
MAX_VOCABULARY = 1 << 24

# Keys that neither change a support nor are read, beside the fields of Request.
_NOTES = ("engine", "finish_reason", "request_id")
_HARMLESS = (
    "seed",
    "max_tokens",
    "ignore_eos",
    "logprobs",
    "prompt_logprobs",
    "n",
    "stop",
    "skip_special_tokens",
)
_REQUIRED = ("prompt_token_ids", "sampling_params", "token_ids", "sampling_mask", "vocab_size")
# Name: lowest, highest, lowest allowed itself, words. A request that leaves one of the first four out got it from
# the model's generation_config.json, which the record does not hold.
_NUMBERS: dict[str, tuple[float, float, bool, str]] = {
    "temperature": (0, 1e6, True, "a number of 0 or more"),
    "top_k": (-1, 2**31, True, "a whole number; 0 or -1 is no limit"),
    "top_p": (0, 1, False, "a number above 0 and at most 1"),
    "min_p": (0, 1, True, "a number between 0 and 1"),
    "repetition_penalty": (1e-6, 1e6, True, "a number above 0"),
    "frequency_penalty": (-1e6, 1e6, True, "a finite number"),
    "presence_penalty": (-1e6, 1e6, True, "a finite number"),
    "min_tokens": (0, 2**31, True, "a whole number of 0 or more"),
}
_STATED = ("temperature", "top_k", "top_p", "min_p")
_LISTS = ("allowed_token_ids", "stop_token_ids")


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of each line that is not blank; ``-`` is standard input.

    Raises PolicyEvalError when the file cannot be read, a line is longer than MAX_LINE or is not UTF-8.
    """
    name = shown_name(path)
    if path == "-":
        yield from _lines(sys.stdin.buffer, name)
        return
    try:
        with open(path, "rb") as file:
            yield from _lines(file, name)
    except (OSError, ValueError) as error:
        raise _cannot_read(name, error) from None


def shown_name(path: str) -> str:
    """How messages call an input."""
    return "<stdin>" if path == "-" else path


def _cannot_read(name: str, error: Exception) -> PolicyEvalError:
    reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "bad name"
    message = f"cannot read `{name}`: {reason}"
    return PolicyEvalError(Problem(message=message, help="check the path and its permissions"))


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    number = 0
    while data := file.readline(MAX_LINE + 1):
        number += 1
        where = Location(file=name, line=number, column=1)
        if len(data) > MAX_LINE:
            message = f"a line longer than {MAX_LINE >> 20} MiB"
            raise PolicyEvalError(Problem(message=message, location=where, help="write one request a line"))
        try:
            text = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise PolicyEvalError(Problem(message="not UTF-8 text", location=where)) from None
        if text.strip():
            yield number, text


def parse_request(text: str, file: str, line: int) -> Request:
    """The request in one line of a recording; raises PolicyEvalError with every problem of its form."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        _locate_fault(text, file, line)
    check = _Check(text, file, line)
    check.request(value)
    if check.problems:
        raise PolicyEvalError(*check.problems)
    extra = {key: value[key] for key in _NOTES if key in value}
    return Request(**{key: item for key, item in value.items() if key not in _NOTES}, extra=extra)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _locate_fault(text: str, file: str, line: int) -> None:
    """Raise for a text that the standard decoder refuses: the strict parser knows the place."""
    try:
        load_json(text, file)
    except PolicyEvalError as error:
        raise PolicyEvalError(*(_on_line(problem, line) for problem in error.problems)) from None
    raise PolicyEvalError(
        Problem(message="not a JSON object", location=Location(file=file, line=line, column=1))
    )


def _on_line(problem: Problem, line: int) -> Problem:
    place = _at_line(problem.location, line) if problem.location else None
    return Problem(message=problem.message, location=place, help=problem.help)


def _at_line(place: Location, line: int) -> Location:
    """A place in the text of one line, as a place in the file."""
    return Location(
        file=place.file,
        line=line,
        column=place.column,
        end_line=line if place.end_line else None,
        end_column=place.end_column,
        pointer=place.pointer,
        source_line=place.source_line,
    )


class _Check:
    """Collects what is wrong with the form of one request."""

    def __init__(self, text: str, file: str, line: int) -> None:
        self.text, self.file, self.line = text, file, line
        self.problems: list[Problem] = []

    def add(self, message: str, pointer: str, advice: str | None = None, *, key: bool = False) -> None:
        if len(self.problems) < 20:
            try:
                place = load_json(self.text, self.file).location(pointer, key=key)
            except PolicyEvalError:
                place = Location(file=self.file, column=1, pointer=pointer)
            place = _at_line(place, self.line)
            self.problems.append(Problem(message=message, location=place, help=advice))

    def request(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.add("a request must be a JSON object", "")
            return
        known = [field.name for field in fields(Request) if field.name != "extra"] + list(_NOTES)
        self.keys(value, known, "")
        for name in _REQUIRED:
            if name not in value:
                self.add(
                    f"`{name}` is missing",
                    "",
                    "a recording has " + ", ".join(f"`{key}`" for key in _REQUIRED),
                )
        if self.problems:
            return
        if not _whole(value["vocab_size"], 1, MAX_VOCABULARY):
            self.add(f"`vocab_size` must be a whole number from 1 to {MAX_VOCABULARY}", "/vocab_size")
            return
        vocab = value["vocab_size"]
        self.ids(value["prompt_token_ids"], "/prompt_token_ids", vocab)
        self.ids(value["token_ids"], "/token_ids", None)
        self.sampling(value["sampling_params"], vocab)
        self.rows(value["sampling_mask"], "/sampling_mask", "ids", lambda item: _whole(item))
        number = "numbers or null"
        self.rows(
            value.get("sampling_mask_logprobs"),
            "/sampling_mask_logprobs",
            number,
            lambda item: item is None or _real(item),
        )
        for name, words, good in (
            ("sampling_mask_counts", "whole numbers", _whole),
            ("token_logprobs", "numbers", _real),
        ):
            items = value.get(name)
            if items is not None and not (isinstance(items, list) and all(map(good, items))):
                self.add(f"`{name}` must be a list of {words}, or null", f"/{name}")
        first = value.get("first_logits_row")
        if first is not None and not _whole(first, 0):
            self.add("`first_logits_row` must be a whole number of 0 or more", "/first_logits_row")
        for name, choices in (("semantics", SEMANTICS), ("dtype", DTYPES)):
            if value.get(name) is not None and value[name] not in list(choices):
                self.add(f"`{name}` must be one of {', '.join(choices)}", f"/{name}")

    def keys(self, value: dict[str, Any], known: list[str], pointer: str) -> None:
        for name in value:
            if name not in known:
                close = get_close_matches(name, known, 1)
                escaped = name.replace("~", "~0").replace("/", "~1")
                advice = (
                    f"did you mean `{close[0]}`?"
                    if close
                    else "remove it: what it does to a support is not known"
                )
                self.add(f"unknown key `{name[:80]}`", f"{pointer}/{escaped}", advice, key=True)

    def ids(self, value: Any, pointer: str, vocab: int | None) -> None:
        name = pointer.rpartition("/")[2]
        if not isinstance(value, list) or not all(map(_whole, value)):
            self.add(f"`{name}` must be a list of ids", pointer)
        elif vocab is not None:
            for index, token in enumerate(value):
                if not 0 <= token < vocab:
                    self.add(
                        f"id {str(token)[:20]} is not in the vocabulary of {vocab}", f"{pointer}/{index}"
                    )
                    return

    def rows(self, value: Any, pointer: str, words: str, good: Any) -> None:
        if value is None:
            return
        name = pointer[1:]
        if not isinstance(value, list):
            self.add(f"`{name}` must be a list with a row for each token, or null", pointer)
            return
        for index, row in enumerate(value):
            if row is not None and not (isinstance(row, list) and all(map(good, row))):
                self.add(f"row {index} of `{name}` must be a list of {words}, or null", f"{pointer}/{index}")
                return

    def sampling(self, value: Any, vocab: int) -> None:
        at = "/sampling_params"
        if not isinstance(value, dict):
            self.add("`sampling_params` must be an object", at)
            return
        self.keys(value, [*_NUMBERS, *_LISTS, "logit_bias", "bad_words_token_ids", *_HARMLESS], at)
        for name in _STATED:
            if value.get(name) is None:
                advice = (
                    "record what the engine used: left out, it comes from the model's generation_config.json"
                )
                self.add(f"`{name}` is missing in `sampling_params`", at, advice)
        for name, (low, high, closed, words) in _NUMBERS.items():
            item = value.get(name)
            whole = name in ("top_k", "min_tokens")
            if item is None:
                continue
            good = _whole(item, int(low), int(high)) if whole else _real(item) and low <= item <= high
            if not good or (item == low and not closed):
                self.add(f"`{name}` must be {words}", f"{at}/{name}")
        temperature = value.get("temperature")
        if temperature is not None and _real(temperature) and 0 < temperature < LEAST_TEMPERATURE:
            advice = "record what the engine used instead: 0 where it took it for greedy"
            self.add(f"`temperature` must be 0 or at least {LEAST_TEMPERATURE}", f"{at}/temperature", advice)
        for name in _LISTS:
            if value.get(name) is not None:
                self.ids(value[name], f"{at}/{name}", vocab)
        bias = value.get("logit_bias")
        if bias is not None:
            if not isinstance(bias, dict) or not all(map(_real, bias.values())):
                self.add("`logit_bias` must map ids to numbers", f"{at}/logit_bias")
            else:
                for name, item in bias.items():
                    if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) < vocab):
                        self.add(
                            f"`{name[:20]}` is not an id of the vocabulary of {vocab}", f"{at}/logit_bias"
                        )
                    elif not abs(item) <= 1e6:
                        self.add("a bias must be a finite number", f"{at}/logit_bias/{name}")
        words_ = value.get("bad_words_token_ids")
        if words_ is not None:
            if not isinstance(words_, list):
                self.add("`bad_words_token_ids` must be a list of lists of ids", f"{at}/bad_words_token_ids")
                return
            for index, word in enumerate(words_):
                place = f"{at}/bad_words_token_ids/{index}"
                if word == []:
                    self.add("a bad word must have at least one id", place)
                self.ids(word, place, vocab)


def _whole(value: Any, low: int = -(2**63), high: int = 2**63 - 1) -> bool:
    return type(value) is int and low <= value <= high


def _real(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**53)


def load_logits(path: str) -> NDArray[Any]:
    """The matrix in a NumPy file: float16, float32 or float64 [rows, vocabulary], mapped and not read.

    Raises PolicyEvalError for anything else; objects in the file are never unpickled.
    """
    import numpy

    try:
        with open(path, "rb") as file:
            magic = file.read(6)
        if magic != b"\x93NUMPY":
            raise _bad_logits(path, "is not a NumPy file", "save the raw logits with numpy.save")
        matrix = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise _cannot_read(path, error) from None
    except PolicyEvalError:
        raise
    except Exception:
        # NumPy evaluates the header with the tokenizer and the parser of Python, which raise as they please.
        raise _bad_logits(path, "is damaged, or holds something else than numbers", None) from None
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or matrix.dtype.itemsize > 8:
        shape = " x ".join(map(str, matrix.shape)) or "a single value"
        message = f"holds {matrix.dtype.name} of shape {shape}"
        raise _bad_logits(
            path, message, "needed: float16, float32 or float64, a row for each generated token"
        )
    return matrix  # type: ignore[no-any-return]


def _bad_logits(path: str, message: str, advice: str | None) -> PolicyEvalError:
    return PolicyEvalError(Problem(message=f"`{path}` {message}", location=Location(file=path), help=advice))


def logits_of(matrix: NDArray[Any], request: Request, file: str, line: int) -> NDArray[Any]:
    """A request's rows of the matrix as float64 [T, V']; raises PolicyEvalError where it has none for it."""
    import numpy

    where = Location(file=file, line=line, column=1, pointer="/first_logits_row")
    first, total = request.first_logits_row, len(request.token_ids)
    if first is None:
        advice = "record the row of the request's first token, or judge without logits"
        raise PolicyEvalError(Problem(message="`first_logits_row` is missing", location=where, help=advice))
    if first + total > len(matrix):
        message = f"the request needs logits rows {first} to {first + total - 1}, there are {len(matrix)}"
        raise PolicyEvalError(
            Problem(message=message, location=where, help="check that the files belong together")
        )
    if matrix.shape[1] < request.vocab_size:
        message = f"`vocab_size` is {request.vocab_size}, a row has {matrix.shape[1]} logits"
        raise PolicyEvalError(
            Problem(message=message, location=where, help="check that the files belong together")
        )
    return numpy.array(matrix[first : first + total], dtype=numpy.float64)
