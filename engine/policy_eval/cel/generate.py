"""Generated Python for a set of rules, over the plain document.

Two variants of each function are generated. The first assumes that nothing fails: it is what one would write by
hand. When anything does fail, the second one starts over; there `&&`, `||`, `all` and `exists` absorb failures.
When that fails too, or a case is not a plain one, the walker decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from policy_eval.cel import runtime
from policy_eval.cel.forms import FORMS
from policy_eval.cel.limits import Limits
from policy_eval.cel.tree import Logic, Node
from policy_eval.cel.types import Type
from policy_eval.cel.writer import Writer


class Generated:
    """The functions of a rule set: ``first`` and ``failures``.

    The functions take the roots as plain data. They raise `errors.Undecided` when the walker must decide.
    """

    def __init__(
        self,
        roots: Mapping[str, Type],
        variables: Mapping[str, Node],
        conditions: Sequence[Node],
        rules: Sequence[Node],
        limits: Limits,
    ) -> None:
        self.parts = (roots, variables, limits)
        self.conditions = tuple(conditions)
        self.rules = tuple(rules)

    def source(self, name: str, *, absorb: bool) -> tuple[str, dict[str, Any]]:
        """The source of ``first`` or ``failures`` and its globals, in one of the two variants."""
        roots, variables, limits = self.parts
        writer = Writer(roots, variables, limits, FORMS, absorb=absorb)
        with writer.block("try:", counted=True):
            if self._conditions(writer, "return -2" if name == "first" else "return None"):
                self._rules(writer, name)
        writer.line("except Stop: raise UNDECIDED from None")
        if absorb:
            writer.line("except FAILS: raise UNDECIDED from None")
        else:
            writer.line("except FAILS: pass")
            writer.line(f"return again({', '.join(writer.parameters.values())})")
        return writer.source(name), {**runtime.NAMES, **_BUILTINS, **writer.constants}

    def _conditions(self, writer: Writer, fail: str) -> bool:
        """Any false condition means not applicable, whatever the others are. False: only the walker knows them."""
        if not self.conditions:
            return True
        node = self.conditions[0]
        if len(self.conditions) > 1:
            node = Logic(start=0, end=0, op="&&", args=self.conditions)
        return writer.rule(lambda: writer.require(node, fail))

    def _rules(self, writer: Writer, name: str) -> None:
        if name == "first":
            for at, rule in enumerate(self.rules):
                writer.rule(partial(writer.require, rule, f"return {at}"))
            writer.line("return -1")
            return
        writer.line("found = []")
        for at, rule in enumerate(self.rules):
            writer.rule(partial(_collect, writer, rule, at))
        writer.line("return tuple(found)")

    def function(self, name: str) -> Callable[..., Any]:
        """The function ``first`` or ``failures``; its second variant is compiled when it is first needed."""
        text, names = self.source(name, absorb=False)
        names["again"] = self._again(name, names)
        return _compile(text, name, names)

    def _again(self, name: str, names: dict[str, Any]) -> Callable[..., Any]:
        def again(*roots: Any) -> Any:
            text, globals_ = self.source(name, absorb=True)
            # Two threads may both come here; both make the same function.
            names["again"] = found = _compile(text, name, globals_)
            return found(*roots)

        return again


_BUILTINS: dict[str, Any] = {
    "KeyError": KeyError,
    "__builtins__": {
        "type": type,
        "len": len,
        "dict": dict,
        "list": list,
        "str": str,
        "int": int,
        "float": float,
        "tuple": tuple,
    },
}


def _compile(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(compile(text, "<generated from CEL>", "exec"), names)
    return names[name]  # type: ignore[no-any-return]


def _collect(writer: Writer, rule: Node, at: int) -> None:
    writer.line(f"if not ({writer.test(rule)}): found.append({at})")
