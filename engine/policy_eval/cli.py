"""The command ``policy-eval``: arguments in, a report and an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from policy_eval import __version__
from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.model import Document, DocumentReport, Report

COMMANDS = ("judge", "normalize", "readers")

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Nothing that an input holds makes it raise."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except PolicyEvalError as error:
        for problem in error.problems:
            print(f"policy-eval: {_safe(str(problem))}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE_ERROR
    except KeyboardInterrupt:
        return 130
    except (Exception, RecursionError, MemoryError) as error:
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        print(f"policy-eval: internal error at {where}: {_safe(repr(error)[:300])}", file=sys.stderr)
        print("policy-eval: nothing was decided; please report this with the input", file=sys.stderr)
        return USAGE_ERROR
    return code


def _dispatch(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        from importlib import import_module

        code: int = import_module(f"policy_eval.commands.{arguments[0]}").main(arguments[1:])
        return code
    return evaluate(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="policy-eval",
        usage="policy-eval [OPTIONS] FILE...\n       policy-eval COMMAND ...",
        description="Decide whether inference configurations may be used, by the rules in policy files.",
        epilog=f"Commands: {', '.join(COMMANDS)}. "
        "Exit codes: 0 approved or not applicable, 1 rejected, 2 could not decide.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="configurations; a folder is walked; - is standard input"
    )
    parser.add_argument(
        "--policy", action="append", metavar="PATH", help="policy file or folder, instead of the bundled ones"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to report (default: text)"
    )
    parser.add_argument(
        "--first", action="store_true", help="stop at the first failure, the one the engine would raise"
    )
    parser.add_argument(
        "--engine-version", metavar="VERSION", help="the engine's release, whatever the input says"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="/POINTER=VALUE",
        help="state a fact of the normalized document",
    )
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning"),
        default="error",
        help="severity that fails (default: error)",
    )
    parser.add_argument("--quiet", action="store_true", help="print verdicts only")
    parser.add_argument(
        "--no-color", action="store_true", help="no colours (also: NO_COLOR in the environment)"
    )
    parser.add_argument("--version", action="version", version=f"policy-eval {__version__}")
    return parser


def evaluate(arguments: list[str]) -> int:
    """``policy-eval FILE...``: normalise, evaluate and report each configuration."""
    options = _parser().parse_args(arguments)
    problems: list[Problem] = []
    reports: list[DocumentReport] = []
    try:
        from policy_eval.overrides import parse_setting

        settings = [parse_setting(text) for text in options.set]
        if options.engine_version is not None:
            import json

            settings.append(parse_setting(f"/engine/version={json.dumps(options.engine_version)}"))
        if not options.files:
            raise PolicyEvalError(
                Problem(
                    message="nothing to evaluate", help="name a configuration file: policy-eval config.json"
                )
            )
        from policy_eval.evaluate import Evaluator

        evaluator = Evaluator.load(options.policy)
    except PolicyEvalError as error:
        return _show(Report(problems=error.problems), options)

    from policy_eval.overrides import apply_settings

    for path in options.files:
        try:
            for document in _documents(path, options):
                judged = evaluator.evaluate(apply_settings(document, settings), first=options.first)
                reports += judged.documents
        except PolicyEvalError as error:
            problems += error.problems
    return _show(Report(documents=tuple(reports), problems=tuple(problems)), options)


def _documents(path: str, options: argparse.Namespace) -> list[Document]:
    raise NotImplementedError


def _show(report: Report, options: argparse.Namespace) -> int:
    if options.format == "json":
        from policy_eval.report.json import render

        print(render(report))
    else:
        from policy_eval.report.text import render as render_text

        color = not options.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()
        print(render_text(report, color=color, quiet=options.quiet))
    return report.exit_code(options.fail_on)


def _safe(text: str) -> str:
    from policy_eval.report.text import safe

    return safe(text)
