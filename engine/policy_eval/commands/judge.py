"""``policy-eval judge``: are the masks and log-probabilities of a recorded rollout consistent?"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policy_eval.errors import Location, PolicyEvalError, Problem

if TYPE_CHECKING:
    from policy_eval.sampler.rollout import RequestFinding

SHOWN = 20
KEPT = 1000

_SEMANTICS = ("vllm", "sglang-torch", "sglang-flashinfer", "hf")
_DTYPES = ("fp32", "bf16", "fp16")


def main(argv: Sequence[str]) -> int:
    """Judge a recording and print what is wrong with it; 0 consistent, 1 not, 2 unreadable or wrong usage."""
    options = _parser().parse_args(argv)
    judged = _judge(options)
    print(_json(judged) if options.format == "json" else _text(judged))
    return judged.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="policy-eval judge",
        description="Say of each generated token of a recorded rollout whether its mask and log-probabilities are "
        "what the sampler's distribution was. The form of a recording is in schemas/rollout.schema.json.",
        epilog="Exit codes: 0 consistent, 1 not consistent, 2 unreadable or wrong usage.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE.jsonl", help="the recording, one request a line; - is standard input")
    add(
        "--logits",
        metavar="FILE.npy",
        help="raw logits, a row for each token; without them masks are not replayed",
    )
    add("--semantics", choices=_SEMANTICS, help="whose sampler it was; needed with --logits unless recorded")
    add(
        "--dtype",
        choices=_DTYPES,
        help="precision that the sampler computed in (default: as recorded, else fp32)",
    )
    add("--format", choices=("text", "json"), default="text", help="how to report (default: text)")
    return parser


@dataclass(slots=True, kw_only=True)
class _Judged:
    """What came of a recording. ``findings``: (line, request number, finding), the first KEPT of them."""

    file: str
    with_logits: bool
    requests: int = 0
    tokens: int = 0
    semantics: set[str] = field(default_factory=set)
    findings: list[tuple[int, int, RequestFinding]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return 2 if self.problems else 1 if self.counts else 0

    @property
    def outcome(self) -> str:
        return ("consistent", "inconsistent", "error")[self.exit_code]


def _judge(options: argparse.Namespace) -> _Judged:
    try:
        import torch

        from policy_eval.sampler.recording import load_logits, read_lines, shown_name
    except ImportError:
        advice = "install it with `pip install 'policy-eval[sampler]'`"
        raise PolicyEvalError(
            Problem(message="judging needs torch, which is not installed", help=advice)
        ) from None
    judged = _Judged(file=shown_name(options.file), with_logits=options.logits is not None)
    threads = torch.get_num_threads()
    # Rows are small: more threads than one only wait for each other.
    torch.set_num_threads(1)
    try:
        matrix = load_logits(options.logits) if options.logits else None
        for line, text in read_lines(options.file):
            try:
                _judge_line(judged, line, text, matrix, options)
            except PolicyEvalError as error:
                judged.problems += error.problems
                if len(judged.problems) >= SHOWN:
                    break
    except PolicyEvalError as error:
        judged.problems += error.problems
    finally:
        torch.set_num_threads(threads)
    if not judged.requests and not judged.problems:
        advice = "a recording has one JSON object a line"
        judged.problems.append(
            Problem(message="nothing to judge", location=Location(file=judged.file), help=advice)
        )
    return judged


def _judge_line(judged: _Judged, line: int, text: str, matrix: Any, options: argparse.Namespace) -> None:
    import torch

    from policy_eval.sampler.recording import logits_of, parse_request
    from policy_eval.sampler.rollout import judge_request

    request = parse_request(text, judged.file, line)
    logits = None
    # Without logits the filters are not run, so any engine's name will do.
    semantics = options.semantics or request.semantics or (None if matrix is not None else "vllm")
    where = Location(file=judged.file, line=line, column=1)
    if semantics is None:
        advice = f"add --semantics with one of {', '.join(_SEMANTICS)}"
        raise PolicyEvalError(
            Problem(message="the record does not say whose sampler it was", location=where, help=advice)
        )
    if matrix is not None:
        logits = torch.from_numpy(logits_of(matrix, request, judged.file, line))
        judged.semantics.add(semantics)
    try:
        found = judge_request(request, logits, semantics, options.dtype or request.dtype or "fp32")
    except ValueError as error:
        raise PolicyEvalError(Problem(message=str(error), location=where)) from None
    for finding in found:
        judged.counts[finding.invariant] += 1
        if len(judged.findings) < KEPT:
            judged.findings.append((line, judged.requests, finding))
    judged.requests += 1
    judged.tokens += len(request.token_ids)


def _text(judged: _Judged) -> str:
    from policy_eval.report.text import safe

    return safe("\n".join(_text_lines(judged)))


def _text_lines(judged: _Judged) -> Iterator[str]:
    yield from map(str, judged.problems)
    for line, request, finding in judged.findings[:SHOWN]:
        token = "" if finding.position is None else f", token {finding.position}"
        yield f"{judged.file}:{line}: request {request}{token}: {finding.message}  [{finding.invariant}]"
    more = sum(judged.counts.values()) - len(judged.findings[:SHOWN])
    if more > 0:
        yield f"... and {more} more findings (--format json lists up to {KEPT})"
    if judged.counts:
        yield ""
        yield from _why(judged.counts)
        yield ""
    how = (
        f"replayed as {', '.join(sorted(judged.semantics))}"
        if judged.semantics
        else "masks not replayed: no --logits"
    )
    size = f"{judged.requests} requests, {judged.tokens} tokens"
    yield f"{judged.outcome}  {judged.file}  ({size}, {how})"


def _why(counts: Counter[str]) -> Iterator[str]:
    from policy_eval.sampler.invariants import INVARIANTS

    for name, invariant in INVARIANTS.items():
        if counts[name]:
            yield f"{name}: {counts[name]} times broken"
            yield f"  must hold: {invariant.sentence}"
            yield f"  in training: {invariant.harm}"


def _json(judged: _Judged) -> str:
    from policy_eval.model import problem_dict

    return json.dumps(
        {
            "outcome": judged.outcome,
            "file": judged.file,
            "requests": judged.requests,
            "tokens": judged.tokens,
            "replayed": sorted(judged.semantics),
            "counts": dict(judged.counts),
            "findings": [
                {
                    "invariant": finding.invariant,
                    "line": line,
                    "request": request,
                    "token": finding.position,
                    "ids": list(finding.ids),
                    "message": finding.message,
                }
                for line, request, finding in judged.findings
            ],
            "problems": [problem_dict(problem) for problem in judged.problems],
        },
        indent=2,
    )
