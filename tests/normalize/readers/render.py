"""What the case files say of an input: its launches word by word, its facts, each with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from policy_eval.errors import Location, PolicyEvalError
from policy_eval.model import Document
from policy_eval.normalize.file import normalize_file, recognise, shape_named
from policy_eval.normalize.launch import Word
from policy_eval.normalize.readers.shape import Found, Input

# Facts that readers decide about; the others of a document are the resolvers' own and tested there.
WATCHED = (
    "/engine/",
    "/env/",
    "/model_config/model",
    "/model_config/return_sampling_mask",
    "/model_config/logprobs_mode",
    "/model_config/max_logprobs",
    "/model_config/logits_processors",
    "/speculative_config/",
    "/parallel_config/tensor_parallel_size",
    "/parallel_config/pipeline_parallel_size",
    "/kv_transfer_config/kv_connector",
    "/server_args/",
    "/sampling_params/",
    "/trainer/",
)


def rendered(path: Path, reader: str | None = None) -> dict[str, Any]:
    """The launches and documents of a file as JSON data, or its problems."""
    folder = str(path.parent)
    try:
        source = Input(text=path.read_text(encoding="utf-8"), file=str(path), folder=folder)
        shape = shape_named(reader) if reader else recognise(source)
        found = shape.read(source)
        documents = normalize_file(path, reader=reader)
    except PolicyEvalError as error:
        return {"problems": [_relative(str(problem), path) for problem in error.problems]}
    return {
        "reader": shape.name,
        "launches": [launch for one in found if isinstance(one, Found) for launch in _launches(one, path)],
        "documents": [_document(document, path) for document in documents],
    }


def _launches(found: Found, path: Path) -> list[dict[str, Any]]:
    rows = []
    for way in found.ways[:2]:
        launch = way.launch
        row: dict[str, Any] = {"name": launch.name, "engine": launch.engine}
        if len(found.ways) > 1:
            row["ways"] = len(found.ways)
        if launch.version is not None:
            row["version"] = _word(launch.version, path)
        row["argv"] = [_word(word, path) for word in launch.argv]
        if launch.env:
            row["env"] = {name: _word(word, path) for name, word in sorted(launch.env.items())}
        rows.append(row)
    return rows


def _word(word: Word, path: Path) -> str:
    shown = word.text if word.text is not None else f"({word.unknown})"
    return f"{place(word.location, path)} {shown}"


def _document(document: Document, path: Path) -> dict[str, Any]:
    facts = {}
    for pointer, fact in document.provenance.items():
        if not pointer.startswith(WATCHED) or fact.how == "default" or fact.location is None:
            continue
        value: Any = document.value
        for part in pointer.split("/")[1:]:
            value = value.get(part.replace("~1", "/"), "?") if isinstance(value, dict) else "?"
        if pointer not in document.value.get("unknown", []):
            facts[pointer] = [value, place(fact.location, path)]
    row: dict[str, Any] = {"name": _relative(document.name, path), "facts": facts}
    unknown = [
        pointer
        for pointer in document.value.get("unknown", [])
        if pointer.startswith(WATCHED) and getattr(document.provenance.get(pointer), "location", None)
    ]
    if unknown:
        row["unknown"] = unknown
    if document.errors:
        row["errors"] = [_relative(str(problem), path) for problem in document.errors]
    warnings = [_relative(str(warning), path) for warning in document.warnings if warning.location]
    if warnings:
        row["warnings"] = warnings
    return row


def place(location: Location | None, path: Path) -> str:
    """``line:column``, with the file in front where it is not the input itself."""
    if location is None:
        return "-"
    shown = f"{location.line}:{location.column}"
    if os.path.normpath(location.file) == os.path.normpath(path):
        return shown
    return f"{os.path.relpath(location.file, path.parent)}:{shown}"


def _relative(text: str, path: Path) -> str:
    return text.replace(str(path.parent) + os.sep, "")
