"""policy-eval: rules as data for LLM inference configurations.

The public names; everything else may change. They are loaded when first used, so that importing the package
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policy_eval.errors import Location, PolicyEvalError, Problem
    from policy_eval.evaluate import Evaluator
    from policy_eval.model import Document, Finding, Report
    from policy_eval.normalize.command import normalize_command
    from policy_eval.normalize.file import normalize_file

__version__ = "0.1.0"

_HOMES = {
    "Document": "model",
    "Evaluator": "evaluate",
    "Finding": "model",
    "Location": "errors",
    "PolicyEvalError": "errors",
    "Problem": "errors",
    "Report": "model",
    "normalize_command": "normalize.command",
    "normalize_file": "normalize.file",
}

__all__ = [
    "Document",
    "Evaluator",
    "Finding",
    "Location",
    "PolicyEvalError",
    "Problem",
    "Report",
    "normalize_command",
    "normalize_file",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "cel":
        return import_module("policy_eval.cel")
    if name not in _HOMES:
        raise AttributeError(f"module 'policy_eval' has no attribute {name!r}")
    return getattr(import_module(f"policy_eval.{_HOMES[name]}"), name)
