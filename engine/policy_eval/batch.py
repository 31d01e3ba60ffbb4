"""Many files: which ones, each one's verdict, in order, over several processes where that pays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from policy_eval.errors import NothingFound, PolicyEvalError, Problem
from policy_eval.evaluate import Evaluator
from policy_eval.model import Document, DocumentReport, Finding
from policy_eval.overrides import Setting, apply_settings
from policy_eval.record import record, replace

# Below this many files, starting processes costs more than it saves.
_WORTH_PROCESSES = 64
_CHUNK = 16

# What a file's name must end with to be looked at when a folder is walked.
SUFFIXES = (".json", ".yaml", ".yml", ".toml", ".sh", ".service", ".container", ".env.sh")


@record
class Request:
    """What to do with each file: the reader, the facts stated by the caller, the policies."""

    policies: Sequence[str] | None = None
    reader: str | None = None
    engine_version: str | None = None
    hf_configs: Mapping[str, Any] = MappingProxyType({})
    settings: tuple[Setting, ...] = ()
    first: bool = False
    explain: bool = False
    check_masks: bool = False
    cached: bool = True


@record
class Verdict:
    """What came of one file. ``skipped``: found in a folder, and it configures no engine."""

    documents: tuple[DocumentReport, ...] = ()
    problems: tuple[Problem, ...] = ()
    skipped: bool = False


def judge_files(
    request: Request, paths: Sequence[str], *, jobs: int | None = None, progress: Callable[[int, int], None]
) -> list[Verdict]:
    """The verdict on each file, folders walked, in the order given.

    ``jobs`` is the number of processes (None: as many as there are processors, where there are enough files to
    pay for them). ``progress`` is told how many of how many files are done. Raises PolicyEvalError when the
    policies cannot be loaded.
    """
    files = list(_expand(paths))
    evaluator = Evaluator.load(request.policies, cached=request.cached)
    jobs = jobs or (os.cpu_count() or 1 if len(files) >= _WORTH_PROCESSES else 1)
    verdicts: list[Verdict] = []
    judge = _one_process(evaluator, request) if jobs == 1 else _processes(request, jobs)
    for verdict in judge(files):
        verdicts.append(verdict)
        progress(len(verdicts), len(files))
    return verdicts


def _expand(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each file to read, and whether it was found by walking a folder."""
    for path in paths:
        if not os.path.isdir(path):
            yield path, False
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = os.path.join(folder, name)
                if name.lower().endswith(SUFFIXES) and not name.startswith(".") and os.path.isfile(file):
                    yield file, True


def _one_process(
    evaluator: Evaluator, request: Request
) -> Callable[[Sequence[tuple[str, bool]]], Iterator[Verdict]]:
    return lambda files: (judge_file(evaluator, request, path, walked) for path, walked in files)


def _processes(request: Request, jobs: int) -> Callable[[Sequence[tuple[str, bool]]], Iterator[Verdict]]:
    def judge(files: Sequence[tuple[str, bool]]) -> Iterator[Verdict]:
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        with ProcessPoolExecutor(jobs, initializer=_start_worker, initargs=(request,)) as pool:
            try:
                yield from pool.map(_in_worker, files, chunksize=_CHUNK)
            except BrokenProcessPool:
                help_text = "run it again with --jobs 1 to see on which file"
                raise PolicyEvalError(
                    Problem(message="a worker process was killed", help=help_text)
                ) from None

    return judge


_worker: tuple[Evaluator, Request]


def _start_worker(request: Request) -> None:
    global _worker
    _worker = (Evaluator.load(request.policies, cached=request.cached), request)


def _in_worker(item: tuple[str, bool]) -> Verdict:
    return judge_file(*_worker, *item)


def judge_command(request: Request, command: str) -> Verdict:
    """The verdict on a command line, as a shell would split it; never run."""
    from policy_eval.normalize.file import normalize_text

    evaluator = Evaluator.load(request.policies, cached=request.cached)
    documents = normalize_text(
        command,
        "<command>",
        reader="command-line",
        engine_version=request.engine_version,
        hf_configs=request.hf_configs,
    )
    return judge_documents(evaluator, request, documents)


def judge_file(evaluator: Evaluator, request: Request, path: str, walked: bool = False) -> Verdict:
    """The verdicts on the configurations in one file."""
    from policy_eval.normalize.file import normalize_file

    try:
        documents = normalize_file(
            path, reader=request.reader, engine_version=request.engine_version, hf_configs=request.hf_configs
        )
        named = [_in_file(document, path) for document in documents]
        return judge_documents(evaluator, request, named)
    except NothingFound as error:
        return Verdict(skipped=True) if walked else Verdict(problems=error.problems)
    except PolicyEvalError as error:
        return Verdict(problems=error.problems)


def _in_file(document: Document, path: str) -> Document:
    """The document with its file in its name, which is what tells the verdicts of several files apart."""
    if path == "-" or document.name.startswith(path):
        return document
    return replace(document, name=f"{path}: {document.name}")


def judge_documents(evaluator: Evaluator, request: Request, documents: Sequence[Document]) -> Verdict:
    """The verdicts on documents, with the facts that the caller states put on top."""
    reports: list[DocumentReport] = []
    for document in documents:
        stated = apply_settings(document, request.settings)
        judged = evaluator.evaluate(stated, first=request.first, explain=request.explain).documents
        if request.check_masks:
            judged = tuple(_with_masks(evaluator, stated, report) for report in judged)
        reports += judged
    return Verdict(documents=tuple(reports))


def _with_masks(evaluator: Evaluator, document: Document, judged: DocumentReport) -> DocumentReport:
    """The report of an approved document after its rollouts were run on the engine in miniature."""
    if judged.outcome != "approved":
        return judged
    from policy_eval.prove.check import check_masks

    releases = evaluator.releases.get(judged.engine or "", ())
    try:
        problems = check_masks(document, evaluator.derivations, releases)
    except PolicyEvalError as error:
        return replace(judged, outcome="error", problems=error.problems)
    if not problems:
        return replace(judged, passed=(*judged.passed, "check-masks"))
    findings = [
        Finding(
            rule="check-masks",
            policy="reference-sampler",
            severity="error",
            outcome="failed",
            message=problem.message,
            location=problem.location,
            reason=problem.help,
        )
        for problem in problems
    ]
    return replace(judged, outcome="rejected", findings=(*judged.findings, *findings))
