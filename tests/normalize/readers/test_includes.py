"""Files that an input names are read only from its own folder, whatever way leads out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_eval.errors import PolicyEvalError
from policy_eval.model import Document
from policy_eval.normalize.file import normalize_file, normalize_text

COMPOSE = "services:\n  v:\n    image: vllm/vllm-openai:v0.32.0\n    command: m/x\n    env_file: {name}\n"
SECRET = "VLLM_USE_V2_MODEL_RUNNER=1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside.env").write_text(SECRET, encoding="utf-8")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "own.env").write_text(SECRET, encoding="utf-8")
    (inside / "link.env").symlink_to(tmp_path / "outside.env")
    (inside / "up").symlink_to(tmp_path)
    return inside


def _read(folder: Path, name: str) -> Document:
    path = folder / "compose.yaml"
    path.write_text(COMPOSE.replace("{name}", name), encoding="utf-8")
    (document,) = normalize_file(path)
    return document


def test_own_file(folder: Path) -> None:
    document = _read(folder, "./own.env")
    assert document.value["env"] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}


@pytest.mark.parametrize("name", ["../outside.env", "link.env", "up/outside.env", "{folder}/../outside.env"])
def test_ways_out(folder: Path, name: str) -> None:
    with pytest.raises(PolicyEvalError, match="lies outside the folder that may be read"):
        _read(folder, name.replace("{folder}", str(folder)))


def test_a_wider_folder_may_be_given(folder: Path) -> None:
    path = folder / "compose.yaml"
    path.write_text(COMPOSE.replace("{name}", "../outside.env"), encoding="utf-8")
    (document,) = normalize_file(path, folder=folder.parent)
    assert document.value["env"] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}


def test_standard_input_has_no_folder(folder: Path) -> None:
    with pytest.raises(PolicyEvalError, match="standard input has no folder"):
        normalize_text(COMPOSE.replace("{name}", str(folder / "own.env")))


def test_a_script_does_not_read_what_lies_outside(folder: Path) -> None:
    path = folder / "serve.sh"
    path.write_text("source ../outside.env\nsource link.env\nvllm serve m/x\n", encoding="utf-8")
    (document,) = normalize_file(path)
    assert "VLLM_USE_V2_MODEL_RUNNER" not in document.value.get("env", {})
    assert sum("cannot be seen" in warning.message for warning in document.warnings) == 2
