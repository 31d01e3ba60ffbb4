"""What all tests share: where the checkout and the recorded data of the real systems lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples each time, so that a change is judged by what it changes; elsewhere new ones each time.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parents[1]


def shared_folder() -> Path | None:
    """The folder of data recorded from the real systems, where there is one."""
    folder = Path(os.environ.get("POLICY_EVAL_SHARED", ROOT.parent / "shared"))
    return folder if folder.is_dir() else None


@pytest.fixture(autouse=True)
def _no_user_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the caches and colours of whoever runs them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def shared() -> Path:
    """The recorded data; the test is skipped without it."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the recorded data of the real systems is not here (POLICY_EVAL_SHARED)")
    return folder
