"""The encoders extension: base64."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from policy_eval.cel.errors import EvaluationError
from policy_eval.cel.functions.overloads import bounded, function
from policy_eval.cel.types import BYTES, STRING, Overload


def encode(data: bytes) -> str:
    """Base64 with padding."""
    bounded(len(data) * 4 // 3 + 4)
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    """The bytes that base64 stands for, with padding or without. Raises `EvaluationError` for anything else."""
    try:
        padded = text if "=" in text else text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError("the string is not base64") from error


LIBRARY: Final[tuple[Overload, ...]] = (
    function("base64.encode", (BYTES,), STRING, encode),
    function("base64.decode", (STRING,), BYTES, decode),
)
