"""Case folders: a command line, its input files, and exactly what it prints.

Each folder below ``tests/cases`` with a file ``cmd`` is a case: ``cmd`` holds the arguments of ``policy-eval`` as
a shell splits them, run inside the folder; ``stdin``, if there, is its standard input; ``expected.txt`` is
the exit code and the exact output. ``UPDATE_CASES=1 pytest tests/test_cases.py`` writes what is printed now:
read the difference before you commit it.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import pytest

from policy_eval.cli import main

CASES = Path(__file__).parent / "cases"
FOLDERS = sorted(path.parent for path in CASES.rglob("cmd"))


@pytest.mark.parametrize("folder", FOLDERS, ids=[str(folder.relative_to(CASES)) for folder in FOLDERS])
def test_case(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    if (folder / "stdin").exists():
        data = (folder / "stdin").read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    try:
        code = main(shlex.split((folder / "cmd").read_text()))
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    printed = capsys.readouterr()
    got = f"exit {code}\n{printed.out}" + (f"--- standard error\n{printed.err}" if printed.err else "")
    expected = folder / "expected.txt"
    if os.environ.get("UPDATE_CASES"):
        expected.write_text(got)
    assert got == expected.read_text()


def test_there_are_enough_bad_inputs() -> None:
    bad = [folder for folder in FOLDERS if folder.parent.name.startswith("bad-")]
    assert len(bad) >= 40
