"""Deployment files of every shape, each with the words, facts and places it must come to.

``POLICY_EVAL_UPDATE_CASES=1`` writes the expected files anew; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from policy_eval.normalize.readers.shapes import SHAPES

from .render import rendered

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/expected.json"))
NOT_INPUTS = {"expected.json", "options.json"}


def _input(case: Path) -> tuple[Path, str | None]:
    options = case / "options.json"
    if options.exists():
        told = json.loads(options.read_text(encoding="utf-8"))
        return case / told["input"], told.get("reader")
    files = [path for path in case.iterdir() if path.name not in NOT_INPUTS and path.is_file()]
    assert len(files) == 1, f"{case.name}: say in options.json which file is the input"
    return files[0], None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    found = rendered(*_input(case))
    expected = case / "expected.json"
    if os.environ.get("POLICY_EVAL_UPDATE_CASES"):
        expected.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(expected.read_text(encoding="utf-8"))


def test_every_reader_has_a_case() -> None:
    seen = {json.loads((case / "expected.json").read_text(encoding="utf-8")).get("reader") for case in CASES}
    assert {shape.name for shape in SHAPES} <= seen
    assert len(CASES) >= 40
