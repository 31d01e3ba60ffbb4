"""From a file, or the text of standard input, to normalized documents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from policy_eval.errors import NothingFound, PolicyEvalError, Problem
from policy_eval.load import read_text
from policy_eval.model import CONFIG_SCHEMA, Document, Provenance
from policy_eval.normalize.launch import Launch
from policy_eval.normalize.merge import merged, with_facts
from policy_eval.normalize.readers import normalized
from policy_eval.normalize.readers.shape import MAX_ENGINES, Input, Shape
from policy_eval.record import replace


def normalize_file(
    path: str | os.PathLike[str],
    *,
    reader: str | None = None,
    engine_version: str | None = None,
    hf_configs: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> list[Document]:
    """The engines (and trainers) that a file configures, each as a normalized document.

    ``path`` may be ``-`` for standard input. The shape of the file is told from its content; ``reader`` names it
    instead (``policy-eval readers`` lists them). ``engine_version`` is the release, whatever the file says;
    ``hf_configs`` maps model names to the contents of their config.json or to folders that hold it; ``host`` are
    facts of the machine (`platform`, `has_triton`, `logits_processor_plugins`). Files that the file names are read
    only from ``folder`` (the file's own folder when it is None) and below.

    Raises PolicyEvalError when the file cannot be read or is of no shape that is known. A configuration that the
    engine would refuse is a document with ``errors``.
    """
    name = os.fspath(path)
    text = read_text(name)
    if name == "-":
        within = None if folder is None else os.fspath(folder)
        shown = "<stdin>"
    else:
        within = os.path.dirname(os.path.abspath(name)) if folder is None else os.fspath(folder)
        shown = name
    return normalize_text(
        text,
        shown,
        reader=reader,
        engine_version=engine_version,
        hf_configs=hf_configs,
        host=host,
        folder=within,
    )


def normalize_text(
    text: str,
    file: str = "<stdin>",
    *,
    reader: str | None = None,
    engine_version: str | None = None,
    hf_configs: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    folder: str | None = None,
) -> list[Document]:
    """As ``normalize_file``, for a text that is already read; ``folder`` None: no other file is read."""
    source = Input(text=text, file=file, folder=folder)
    shape = shape_named(reader) if reader is not None else recognise(source)
    found = shape.read(source)
    if len(found) > MAX_ENGINES:
        raise PolicyEvalError(
            Problem(message=f"more than {MAX_ENGINES} engines", location=source.whole.place(0, 1))
        )
    documents = []
    for one in found:
        if isinstance(one, Document):
            documents.append(one)
            continue
        variants = []
        for way in one.ways:
            if way.only_facts:
                document = _stated(way.launch, engine_version)
            else:
                document = _resolve(way.launch, engine_version, hf_configs, host)
            variants.append(with_facts(document, way.facts))
        documents.append(merged(variants, one.assumed))
    if not documents:
        raise NothingFound(
            Problem(
                message=f"no inference engine is configured here (read as {shape.name})",
                location=source.whole.place(0, 1),
                help="--from NAME reads it as another shape; `policy-eval readers` lists them",
            )
        )
    return documents


def _stated(launch: Launch, engine_version: str | None) -> Document:
    """The document of an engine that the input says nothing about but its name and release."""
    engine: dict[str, Any] = {"name": launch.engine}
    provenance = {}
    version = launch.version
    if engine_version is not None:
        engine["version"] = engine_version
    elif version is not None and version.text is not None:
        engine["version"] = version.text
        provenance["/engine/version"] = Provenance(how="stated", location=version.location, text=version.text)
    return Document(
        name=launch.name,
        value={"schema": CONFIG_SCHEMA, "engine": engine},
        provenance=provenance,
        warnings=launch.warnings,
    )


def _resolve(
    launch: Launch,
    engine_version: str | None,
    hf_configs: Mapping[str, Any] | None,
    host: Mapping[str, Any] | None,
) -> Document:
    if launch.engine == "sglang":
        from policy_eval.normalize.sglang import resolve as resolve_sglang

        return resolve_sglang(launch, engine_version=engine_version, host=host)
    from policy_eval.normalize.vllm import resolve

    return resolve(launch, engine_version=engine_version, hf_configs=hf_configs, host=host)


def _shapes() -> Sequence[Shape]:
    # A normalized document is told, and judged, before all the other readers are even imported.
    from policy_eval.normalize.readers.shapes import SHAPES

    return SHAPES


def shape_named(name: str) -> Shape:
    """The shape of a name; raises PolicyEvalError for a name that is none."""
    shapes = _shapes()
    for shape in shapes:
        if shape.name == name:
            return shape
    import difflib

    names = [shape.name for shape in shapes]
    close = difflib.get_close_matches(name, names, 1)
    advice = f"did you mean `{close[0]}`? " if close else ""
    raise PolicyEvalError(
        Problem(message=f"unknown reader `{name[:80]}`", help=f"{advice}readers: {', '.join(names)}")
    )


def recognise(source: Input) -> Shape:
    """The shape of an input, by its content; raises PolicyEvalError when it is of none."""
    if not source.text.strip():
        raise PolicyEvalError(Problem(message="an empty input", location=source.whole.place(0, 0)))
    if normalized.matches(source):
        return normalized.SHAPE
    for shape in _shapes():
        if shape.matches(source):
            return shape
    raise NothingFound(*_unrecognised(source))


def _unrecognised(source: Input) -> Sequence[Problem]:
    """Why an input is of no known shape; raises PolicyEvalError for broken syntax of what its name says it is."""
    if source.suffix in (".yaml", ".yml", ".json"):
        try:
            source.items()
        except PolicyEvalError as error:
            if "{{" not in source.text:
                raise
            problems = [replace(problem, help=_TEMPLATE) for problem in error.problems]
            raise PolicyEvalError(*problems) from None
    if source.suffix == ".toml":
        from policy_eval.normalize.toml import load_toml

        load_toml(source.text, source.file)
    names = ", ".join(shape.name for shape in _shapes())
    return [
        Problem(
            message="not a configuration of a shape that is known",
            location=source.whole.place(0, 1),
            help=f"shapes that are read: {names}; --from NAME picks one",
        )
    ]


_TEMPLATE = "this looks like a template: render it first (helm template, kustomize build) and pass the result"
