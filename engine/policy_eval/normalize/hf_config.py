"""Model folders named on a command line: ``--hf-config [MODEL=]DIR``."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_eval.errors import PolicyEvalError, Problem

ANY_MODEL = "*"
"""The key of a folder that was given without a model's name."""


def hf_configs(given: Sequence[str]) -> dict[str, str]:
    """Folders by the name of their model, from ``MODEL=DIR`` or ``DIR`` (any model).

    Raises PolicyEvalError where a folder holds no config.json.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals:
            name, folder = ANY_MODEL, text
        if not os.path.isfile(os.path.join(folder, "config.json")):
            raise PolicyEvalError(
                Problem(
                    message=f"no `config.json` in `{folder[:200]}`",
                    help="--hf-config takes [MODEL=]DIR, the folder that the model was downloaded to",
                )
            )
        found[name] = folder
    return found
