"""Make the option table of one vLLM release: ``python make_options.py [FACTS.json] [-o RELEASE.json]``.

Where vLLM is installed, run it without an argument: it reads the options of ``vllm serve`` from vLLM's own parser,
in the parser's order, types included, and prints the table of the installed release. Elsewhere give it a list of
``{options, dest, kind, nargs, choices, default}`` named ``vllm-RELEASE.json``; the types, which such a list lacks,
then come from ``TYPES`` below. The table goes beside this file, named by its release, and nothing else changes.

A table has one option a line: ``names``, ``dest``, ``nargs`` (absent: one value; 0: a flag), ``choices``,
``default`` (absent: not expressible as JSON), ``type`` (absent: text; ``int``, ``float``, ``human_int``,
``human_int_or_auto``, ``json``, ``NAME`` of a configuration class that is read from JSON), ``optional`` (an empty
value or ``None`` is none), ``none_choice`` (false: none is refused although it is listed).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from typing import Any


def _all(names: str, kind: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


TYPES: dict[str, str] = {
    **_all(
        """api-server-count block-size cp-kv-cache-interleave-size cpu-distributed-timeout-seconds
        data-parallel-rank data-parallel-rpc-port data-parallel-size-local data-parallel-start-rank
        distributed-timeout-seconds elastic-ep-max-dp-size grpc-port mamba-block-size max-cpu-loras
        max-cudagraph-capture-size cudagraph-capture-sizes max-log-len max-num-active-seqs max-num-queued-reqs
        max-num-queued-tokens max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers
        num-gpu-blocks-override prefix-match-unit spec-tokens numa-bind-nodes""",
        "int",
    ),
    **_all(
        """cpu-offload-gb mm-ipc-gpu-memory-gb mm-processor-cache-gb kv-offloading-size video-pruning-rate
        sse-keep-alive-interval""",
        "float",
    ),
    **_all("max-num-batched-tokens kv-cache-memory-bytes", "human_int"),
    "max-model-len": "human_int_or_auto",
    # Read as text; the engine's configuration checks it later.
    "optimization-level": "str",
    **_all(
        """additional-config default-chat-template-kwargs default-mm-loras hf-overrides ir-op-priority
        limit-mm-per-prompt media-io-kwargs mm-processor-kwargs model-class-overrides model-loader-extra-config
        override-generation-config reasoning-effort-map speculative-config""",
        "json",
    ),
    "attention-config": "AttentionConfig",
    "aux-output-config": "AuxOutputConfig",
    "compilation-config": "CompilationConfig",
    "diffusion-config": "DiffusionConfig",
    "ec-manager-config": "EncoderCacheManagerConfig",
    "ec-transfer-config": "ECTransferConfig",
    "engram-config": "EngramConfig",
    "eplb-config": "EPLBConfig",
    "fault-tolerance-config": "FaultToleranceConfig",
    "kernel-config": "KernelConfig",
    "kv-events-config": "KVEventsConfig",
    "kv-transfer-config": "KVTransferConfig",
    "pooler-config": "PoolerConfig",
    "profiler-config": "ProfilerConfig",
    "reasoning-config": "ReasoningConfig",
    "structured-outputs-config": "StructuredOutputsConfig",
    "watchdog-config": "WatchdogConfig",
    "watermark-config": "WatermarkConfig",
    "weight-transfer-config": "WeightTransferConfig",
}
# Up to 0.30 argparse compared the parsed none with the list of spelled choices.
_NONE_CHOICE_SINCE = (0, 31)
_HELP = {"names": ["-h", "--help"], "dest": "help", "nargs": 0, "action": "help"}


def from_list(facts: Iterable[dict[str, Any]], release: str) -> list[dict[str, Any]]:
    """Table rows from a list of options without types."""
    rows: list[dict[str, Any]] = [_HELP]
    for fact in facts:
        names = fact["options"]
        long = next((name for name in names if name.startswith("--")), "")[2:]
        default, choices, nargs = fact["default"], fact["choices"], fact["nargs"]
        if choices is not None and "None" in choices:
            # vLLM adds none after the others; lists are sorted.
            choices = [*(choice for choice in choices if choice != "None"), "None"]
        known = isinstance(default, (bool, int, float)) and not isinstance(default, bool)
        guessed = ("float" if isinstance(default, float) else "int") if known else "str"
        kind = TYPES.get(long, guessed)
        takes_none = default is None or kind == "json"
        optional = bool(names) and nargs in (None, "+") and takes_none
        rows.append(
            _row(
                names=names,
                dest=fact["dest"],
                nargs=nargs,
                choices=choices,
                default=default,
                type=kind if nargs != 0 else "str",
                optional=optional,
                action=_action(fact["kind"]),
                release=release,
            )
        )
    return rows


def from_parser(parser: argparse.ArgumentParser, release: str) -> list[dict[str, Any]]:
    """Table rows from a live parser."""
    rows = []
    for action in parser._actions:
        kind, optional = _live_type(action.type)
        rows.append(
            _row(
                names=list(action.option_strings),
                dest=action.dest,
                nargs=action.nargs,
                choices=None if action.choices is None else [str(choice) for choice in action.choices],
                default=action.default,
                type=kind,
                optional=optional,
                action=_action(type(action).__name__.lstrip("_")),
                release=release,
            )
        )
    return rows


def _row(*, release: str, **parts: Any) -> dict[str, Any]:
    row = {"names": parts["names"], "dest": parts["dest"]}
    if parts["action"] != "store":
        row["action"] = parts["action"]
    for key in ("nargs", "choices"):
        if parts[key] is not None:
            row[key] = parts[key]
    if parts["type"] != "str":
        row["type"] = parts["type"]
    if parts["optional"]:
        row["optional"] = True
        minor = tuple(int(part) for part in release.split(".")[:2])
        if "None" in (parts["choices"] or ()) and minor < _NONE_CHOICE_SINCE:
            row["none_choice"] = False
    default = parts["default"]
    if _plain(default):
        row["default"] = default
    return row


def _plain(value: object) -> bool:
    """Whether a default is stated as it is; the lists of facts write `<object>` for configuration objects."""
    if value in ("<object>", argparse.SUPPRESS):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _action(kind: str) -> str:
    known = {
        "StoreAction": "store",
        "BooleanOptionalAction": "bool",
        "StoreTrueAction": "true",
        "AppendAction": "append",
        "HelpAction": "help",
    }
    return known.get(kind, "store")


def _live_type(type_: Any) -> tuple[str, bool]:
    """The name of a type function, and whether it reads none; vLLM wraps the first in functions of its own."""
    optional = getattr(type_, "__name__", "") == "_optional_type"
    seen = 0
    while getattr(type_, "__closure__", None) and seen < 5:
        cells = dict(zip(type_.__code__.co_freevars, type_.__closure__, strict=True))
        inner = cells.get("return_type") or cells.get("cls") or cells.get("dataclass_cls")
        if inner is None:
            break
        type_, seen = inner.cell_contents, seen + 1
    name = getattr(type_, "__name__", "str")
    names = {
        "loads": "json",
        "human_readable_int": "human_int",
        "human_readable_int_or_auto": "human_int_or_auto",
        "NoneType": "str",
        "parse_type": "str",
    }
    if type_ is None or name in ("<lambda>", "OptimizationLevel"):
        return "str", optional
    return names.get(name, name), optional


def _installed() -> tuple[list[dict[str, Any]], str]:
    from vllm import __version__
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return from_parser(make_arg_parser(FlexibleArgumentParser()), __version__), __version__


def main(argv: list[str] | None = None) -> int:
    """Print or write one table."""
    parser = argparse.ArgumentParser(description="Make the option table of one vLLM release.")
    parser.add_argument("facts", nargs="?", help="a list of options, vllm-RELEASE.json")
    parser.add_argument("-o", "--output", help="where to write; standard output by default")
    arguments = parser.parse_args(argv)
    if arguments.facts is None:
        rows, release = _installed()
    else:
        found = re.search(r"vllm-([0-9][0-9.a-z]*)\.json$", arguments.facts)
        if found is None:
            parser.error("name the list vllm-RELEASE.json")
        release = found.group(1)
        with open(arguments.facts, encoding="utf-8") as file:
            rows = from_list(json.load(file), release)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = f'{{"release": {json.dumps(release)}, "options": [\n{lines}\n]}}\n'
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
