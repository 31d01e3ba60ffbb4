"""How much an expression may ask for."""

from __future__ import annotations

from policy_eval.record import record


@record
class Limits:
    """Bounds on one expression and on one evaluation; exceeding one is an `Error` of kind ``limit``.

    ``length``: characters of the expression. ``nesting``: depth of its tree, brackets, ternaries and member
    chains alike. ``nodes``: its sub-expressions after macros. ``iterations``: comprehension steps of one
    evaluation. ``size``: characters, bytes or elements of a value built by one evaluation's operators, macros
    and functions. ``regex``: characters of a regular expression. ``depth``: nesting of a value.
    """

    length: int = 16_384
    nesting: int = 60
    nodes: int = 10_000
    iterations: int = 100_000
    size: int = 1_000_000
    regex: int = 4_000
    depth: int = 100


DEFAULT = Limits()
