"""A command line as a list of words -> the normalized document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load.source import line_starts, span_location
from policy_eval.model import Document
from policy_eval.normalize.launch import Launch, Word
from policy_eval.normalize.text import Text, standing, written

_NAME = "<command>"
_MAX_WORDS = 5000


def normalize_command(
    argv: Sequence[str],
    *,
    engine: str = "vllm",
    engine_version: str | None = None,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str | os.PathLike[str]] | None = None,
    hf_configs: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
) -> Document:
    """The document of one command line, given as the words after the program's name (``serve MODEL …``).

    For SGLang they are the options of its server.

    ``env`` holds the variables of the engine's process. ``files`` maps names used in ``argv`` (``--config``) to
    their text, or to a path (an ``os.PathLike``) to read; ``hf_configs`` maps model names used in ``argv`` to
    their config.json: data, text, path or folder. ``host`` gives ``platform``, ``has_triton`` and
    ``logits_processor_plugins`` where known.

    Places in the document count columns of the words joined by spaces. Raises PolicyEvalError for an unknown
    engine and for ``files`` that cannot be read; what the engine would refuse, and a config.json that cannot be
    read, is in ``Document.errors``.
    """
    if engine not in ("vllm", "sglang"):
        raise PolicyEvalError(
            Problem(message=f"unknown engine `{engine[:80]}`", help="known here: `vllm`, `sglang`")
        )
    launch = Launch(
        name="command",
        engine="sglang" if engine == "sglang" else "vllm",
        argv=command_words(argv),
        env={name: _word(standing(value, Location(file=f"${name}"))) for name, value in (env or {}).items()},
        files={name: _file(name, content) for name, content in (files or {}).items()},
    )
    if engine == "sglang":
        from policy_eval.normalize.sglang import resolve as resolve_sglang

        return resolve_sglang(launch, engine_version=engine_version, host=host)
    from policy_eval.normalize.vllm import resolve

    return resolve(launch, engine_version=engine_version, hf_configs=hf_configs, host=host)


def command_words(argv: Sequence[str]) -> tuple[Word, ...]:
    """Words with places in the line that they make when joined by spaces."""
    # An engine's resolver refuses far fewer words than these, so the rest need no places.
    argv = argv[:_MAX_WORDS]
    # Words that the shell passed as bytes that are no text hold lone surrogates; nothing could print them.
    argv = [text.encode("utf-8", "replace").decode() for text in argv]
    line = " ".join(argv).replace("\n", " ")
    starts = line_starts(line)
    words = []
    at = 0
    for text in argv:
        start = at
        placed = written(text, lambda first, last: span_location(_NAME, line, starts, first, last), start)
        words.append(_word(placed))
        at += len(text) + 1
    return tuple(words)


def _word(text: Text) -> Word:
    return Word(text=text.text, location=text.place(), placer=text.place)


def _file(name: str, content: str | os.PathLike[str]) -> Word:
    from policy_eval.load import read_text
    from policy_eval.normalize.text import file_text

    if isinstance(content, str):
        return _word(file_text(content, name))
    path = os.fspath(content)
    return _word(file_text(read_text(path), path))
