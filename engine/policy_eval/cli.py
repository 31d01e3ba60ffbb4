"""The command ``policy-eval``: arguments in, a report and an exit code out."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from policy_eval import __version__
from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.model import Report

COMMANDS = ("judge", "normalize", "prove", "readers")

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Nothing that an input holds makes it raise."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None or sys.stderr is None:
        return USAGE_ERROR  # closed by the caller: there is nowhere to say anything
    for stream in (sys.stdout, sys.stderr):
        # What a terminal or a pipe cannot encode is escaped: a report must not fail for a dash or a file name.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
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
        usage="""policy-eval [OPTIONS] FILE...
       policy-eval [OPTIONS] -- vllm serve ...
       policy-eval COMMAND ...""",
        description="Decide whether inference configurations may be used, by the rules in policy files.",
        epilog=f"Commands: {', '.join(COMMANDS)}. "
        "Exit codes: 0 approved or not applicable, 1 rejected, 2 could not decide.",
        allow_abbrev=False,
        # A width of its own keeps argparse from importing shutil, and with it every compressor, to ask for one.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="configurations; a folder is walked; - is standard input")
    add("--command", metavar="'vllm serve ...'", help="judge a command line, as a shell would split it")
    add(
        "--from",
        dest="reader",
        metavar="SHAPE",
        help="what the files are (policy-eval readers lists the shapes)",
    )
    add(
        "--policy", action="append", metavar="PATH", help="policy file or folder, instead of the bundled ones"
    )
    add("--engine-version", metavar="VERSION", help="the engine's release, whatever the input says")
    add(
        "--hf-config",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="folder with the model's config.json",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="/POINTER=VALUE",
        help="state a fact of the normalized document",
    )
    add("--first", action="store_true", help="stop at the first failure, the one the engine would raise")
    add("--explain", action="store_true", help="show which parts of a rule decided, and their values")
    add(
        "--check-masks", action="store_true", help="run what is approved on a reference sampler (needs torch)"
    )
    add("--format", choices=("text", "json"), default="text", help="how to report (default: text)")
    add(
        "--fail-on",
        choices=("error", "warning"),
        default="error",
        help="severity that fails (default: error)",
    )
    add("--quiet", action="store_true", help="print verdicts only")
    add("--no-color", action="store_true", help="no colours (also: NO_COLOR in the environment)")
    add("--no-cache", action="store_true", help="parse and check every policy file anew")
    add(
        "--jobs",
        type=_at_least_one,
        metavar="N",
        help="processes to use for many files (default: one a processor)",
    )
    add("--version", action="version", version=f"policy-eval {__version__}")
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text[:6]) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, found `{text[:20]}`")
    return int(text[:6])


def evaluate(arguments: list[str]) -> int:
    """``policy-eval FILE...``: normalise, evaluate and report each configuration."""
    command: list[str] | None = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    options = _parser().parse_args(arguments)
    try:
        report = _judge(options, command)
    except PolicyEvalError as error:
        report = Report(problems=error.problems)
    return _show(report, options)


def _judge(options: argparse.Namespace, command: list[str] | None) -> Report:
    from policy_eval.batch import Request, judge_command, judge_files
    from policy_eval.overrides import parse_setting

    settings = [parse_setting(text) for text in options.set]
    if options.engine_version is not None:
        settings.append(parse_setting(f'/engine/version="{options.engine_version}"'))
    request = Request(
        policies=options.policy,
        reader=options.reader,
        engine_version=options.engine_version,
        hf_configs=_hf_configs(options.hf_config),
        settings=tuple(settings),
        first=options.first,
        explain=options.explain,
        check_masks=options.check_masks,
        cached=not options.no_cache,
    )
    if command or options.command is not None:
        if options.files or (command and options.command is not None):
            help_text = "give either files, or --command, or a command line after `--`"
            raise PolicyEvalError(Problem(message="more than one input", help=help_text))
        import shlex

        verdict = judge_command(request, options.command if command is None else shlex.join(command))
        return Report(documents=verdict.documents, problems=verdict.problems)
    if not options.files:
        help_text = "name a configuration file: policy-eval config.json"
        raise PolicyEvalError(Problem(message="nothing to evaluate", help=help_text))
    with _Progress() as progress:
        verdicts = judge_files(request, options.files, jobs=options.jobs, progress=progress)
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    documents = [document for verdict in verdicts for document in verdict.documents]
    if not documents and not problems:
        shown = ", ".join(f"`{path}`" for path in options.files)
        skipped = sum(verdict.skipped for verdict in verdicts)
        help_text = (
            f"{skipped} files were read and configure no engine" if skipped else "no file to read was found"
        )
        problems.append(Problem(message=f"nothing to evaluate in {shown}", help=help_text))
    return Report(documents=tuple(documents), problems=tuple(problems))


def _hf_configs(given: Sequence[str]) -> dict[str, str]:
    if not given:
        return {}
    from policy_eval.normalize.hf_config import hf_configs

    return hf_configs(given)


class _Progress:
    """A line on the terminal that says how far a long run is; nothing where no one watches."""

    def __init__(self) -> None:
        self._shown = 0

    def __enter__(self) -> Callable[[int, int], None]:
        return self._update if sys.stderr.isatty() else lambda _done, _total: None

    def _update(self, done: int, total: int) -> None:
        percent = 100 * done // total
        if total >= 50 and percent > self._shown:
            self._shown = percent
            filled = "#" * (percent // 5)
            print(f"\r[{filled:20}] {done} of {total} files", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
