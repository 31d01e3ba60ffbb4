"""``policy-eval normalize``: print the normalized documents of an input."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from policy_eval.model import Document


def main(argv: Sequence[str]) -> int:
    """Print the documents as JSON or YAML; 0 when all are usable, 2 when the engine would refuse one.

    Raises PolicyEvalError when the input cannot be read.
    """
    options = _parser().parse_args(argv)

    from policy_eval.derive import derive
    from policy_eval.normalize.file import normalize_file
    from policy_eval.normalize.hf_config import hf_configs
    from policy_eval.overrides import apply_settings, parse_setting
    from policy_eval.pack import load_pack

    settings = [parse_setting(text) for text in options.set]
    documents = normalize_file(
        options.file,
        reader=options.reader,
        engine_version=options.engine_version,
        hf_configs=hf_configs(options.hf_config),
    )
    derivations = load_pack().derivations
    documents = [derive(apply_settings(document, settings), derivations) for document in documents]
    print(_shown(documents, options.format))
    for document in documents:
        for kind, problems in (("error", document.errors), ("warning", document.warnings)):
            for problem in problems:
                print(f"{kind}: {_printable(str(problem))}", file=sys.stderr)
    return 2 if any(document.errors for document in documents) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="policy-eval normalize",
        description="Print what an input comes to: one normalized document for each engine that it configures.",
        epilog="Exit codes: 0 all documents are usable, 2 the input cannot be read or the engine would refuse it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the configuration; - is standard input")
    add("--format", choices=("json", "yaml"), default="json", help="how to print (default: json)")
    add(
        "--from",
        dest="reader",
        metavar="SHAPE",
        help="what the file is (policy-eval readers lists the shapes)",
    )
    add("--engine-version", metavar="VERSION", help="the engine's release, whatever the input says")
    add(
        "--hf-config",
        action="append",
        default=[],
        metavar="[MODEL=]DIR",
        help="folder that holds the config.json of the model",
    )
    add("--set", action="append", default=[], metavar="/POINTER=VALUE", help="state a fact of the document")
    return parser


def _shown(documents: Sequence[Document], form: str) -> str:
    """One document as it is, several as a JSON list or a stream of YAML documents."""
    values: list[Any] = [document.to_dict() for document in documents]
    if form == "json":
        return json.dumps(values[0] if len(values) == 1 else values, indent=2, ensure_ascii=False)
    import yaml

    return str(yaml.safe_dump_all(values, sort_keys=False, allow_unicode=True)).rstrip("\n")


def _printable(text: str) -> str:
    from policy_eval.report.text import safe

    return safe(text)
