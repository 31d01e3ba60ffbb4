"""The report as JSON, as ``schemas/report.schema.json`` describes it."""

from __future__ import annotations

import json

from policy_eval.model import Report


def render(report: Report) -> str:
    """The report as indented JSON text, without a newline at the end."""
    return json.dumps(report.to_dict(), indent=2, ensure_ascii=False)
