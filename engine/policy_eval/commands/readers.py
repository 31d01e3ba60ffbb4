"""``policy-eval readers``: the shapes of input that are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Print each shape's name, which ``--from`` takes, and what it is, a line each."""
    parser = argparse.ArgumentParser(
        prog="policy-eval readers",
        description="List the shapes of input that are read, in the order in which they are tried.",
        allow_abbrev=False,
    )
    parser.parse_args(argv)

    from policy_eval.normalize.readers.shapes import SHAPES

    width = max(len(shape.name) for shape in SHAPES)
    for shape in SHAPES:
        print(f"{shape.name:<{width}}  {shape.description}")
    return 0
