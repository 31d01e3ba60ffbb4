"""Where the policies and schemas that ship with the package lie."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_folder(name: str) -> str:
    """The folder ``policies`` or ``schemas``: in the installed package, else at the top of the checkout."""
    installed = os.path.join(_PACKAGE, "_data", name)
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), name)
