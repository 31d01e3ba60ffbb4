"""``policy-eval prove``: do the policies let through only what is consistent, and is each rule needed?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from policy_eval.errors import PolicyEvalError, Problem

if TYPE_CHECKING:
    from policy_eval.prove.proof import Proof

_MAX_SEEDS = 1000


def main(argv: Sequence[str]) -> int:
    """Prove policies and print the proof; 0 proved, 1 not proved, 2 unreadable, wrong usage or nothing modelled."""
    options = _parser().parse_args(argv)
    if not 1 <= options.seeds <= _MAX_SEEDS:
        message = f"--seeds must be from 1 to {_MAX_SEEDS}, found `{options.seeds}`"
        raise PolicyEvalError(Problem(message=message))
    proof = _prove(options)
    if options.out is not None:
        from policy_eval.prove.files import write

        for path in write(proof, options.out):
            print(f"policy-eval: wrote {_safe(path)}", file=sys.stderr)
    print(_render(proof, options.format))
    return proof.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="policy-eval prove",
        description="Run every configuration that policies let through on an engine in miniature, under hostile "
        "logits, and judge its masks; then run what each rule alone keeps out, and measure the damage.",
        epilog="Exit codes: 0 proved, 1 not proved (something that is let through is not consistent, or a rule is "
        "not needed), 2 unreadable, wrong usage, or rules about nothing that the miniature models.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("policies", nargs="*", metavar="POLICY", help="policy files and folders (default: the bundled ones)")
    add("--format", choices=("text", "json", "html"), default="text", help="how to report (default: text)")
    add("--out", metavar="DIR", help="write configurations and rollouts that show something, to run again")
    add("--seeds", type=int, default=8, metavar="N", help="texts for each kind of request (default: 8)")
    return parser


def _prove(options: argparse.Namespace) -> Proof:
    from policy_eval.pack import load_pack

    pack = load_pack(options.policies or None)
    try:
        import torch

        from policy_eval.prove.proof import prove
    except ImportError:
        advice = "install it with `pip install 'policy-eval[sampler]'`"
        raise PolicyEvalError(
            Problem(message="proving needs torch, which is not installed", help=advice)
        ) from None
    threads = torch.get_num_threads()
    # Rows are small: more threads than one only wait for each other.
    torch.set_num_threads(1)
    try:
        return prove(pack.policies, pack.releases, seeds=options.seeds, progress=_progress())
    finally:
        torch.set_num_threads(threads)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _progress() -> Callable[[int, int], None]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        bar = "#" * (20 * done // max(total, 1))
        print(f"\r[{bar:20}] {done} of {total} runs", end="", file=sys.stderr, flush=True)

    return show


def _render(proof: Proof, form: str) -> str:
    if form == "json":
        from policy_eval.prove.as_json import render as render_json

        return render_json(proof)
    if form == "html":
        from policy_eval.prove.page import render as render_page

        return render_page(proof)
    from policy_eval.prove.text import render

    return _safe(render(proof))


def _safe(text: str) -> str:
    from policy_eval.report.text import safe

    return safe(text)
