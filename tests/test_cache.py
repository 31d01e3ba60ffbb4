"""Checked policy files kept as data: used when nothing changed, ignored when damaged, safe with many writers."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from policy_eval import cache, load
from policy_eval.errors import PolicyEvalError
from policy_eval.pack import load_pack, parse_file, policy_files, shipped
from policy_eval.resources import data_folder

POLICY = """\
apiVersion: policy-eval/v1
kind: Policy
metadata: {name: mine, title: Mine}
spec:
  engine: vllm
  variables:
    - {name: spec, expression: config.speculative_config}
  validations:
    - id: MINE-001
      expression: |
        variables.spec == null ||
          variables.spec.method.matches("^eagle[0-9]*$")
      message: only eagle drafts
      messageExpression: '"not " + variables.spec.method'
      fix: [{text: leave it out, safe: false, set: {/speculative_config: null}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "mine.yaml").write_text(POLICY)
    return tmp_path


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "xdg" / "policy-eval").glob("*"))


def test_what_ships_is_what_the_bundled_files_say() -> None:
    assert Path(cache.SHIPPED).read_text(encoding="utf-8") == shipped(), (
        "run `make compiled` and commit the result"
    )


def test_bundled_files_are_not_parsed(folder: Path) -> None:
    for file in policy_files(data_folder("policies")):
        kept = cache.read(load.read_text(file), "label")
        assert kept is not None, file
        assert kept.location.file == "label"
    assert not entries(folder)


def test_a_file_is_kept_and_read_back_the_same(folder: Path) -> None:
    path = str(folder / "mine.yaml")
    fresh = parse_file(path, cached=False)
    assert not entries(folder)
    assert parse_file(path) == fresh
    assert len(entries(folder)) == 1
    assert parse_file(path) == fresh
    assert load_pack([path]).policies == (fresh,)


def test_a_changed_file_is_parsed_again(folder: Path) -> None:
    path = folder / "mine.yaml"
    parse_file(str(path))
    path.write_text(POLICY.replace("only eagle drafts", "no other drafts"))
    assert parse_file(str(path)).rules[0].message == "no other drafts"  # type: ignore[union-attr]
    path.write_text(POLICY.replace("variables.spec == null", "variables.spek == null"))
    with pytest.raises(PolicyEvalError, match="spek"):
        parse_file(str(path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "\x00" * 100,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("eagle", "EAGLE"),
        lambda text: text + " ",
        lambda text: "0\n{}",
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_entry_is_ignored_and_mended(folder: Path, damage: object) -> None:
    path = str(folder / "mine.yaml")
    fresh = parse_file(path)
    (entry,) = entries(folder)
    good = entry.read_text()
    entry.write_text(damage(good))  # type: ignore[operator]
    assert parse_file(path) == fresh
    assert entry.read_text() == good


@pytest.mark.parametrize("found", [None, [], {}, ["Policy", {}], ["Policy", {"name": 1}], ["Expression"], 3])
def test_an_entry_of_another_form_is_ignored(folder: Path, found: object) -> None:
    path = str(folder / "mine.yaml")
    fresh = parse_file(path)
    (entry,) = entries(folder)
    content = json.loads(entry.read_text().split("\n", 1)[1])
    content["found"] = found
    text = json.dumps(content)
    entry.write_text(f"{cache.crc32(text.encode())}\n{text}")
    assert parse_file(path) == fresh


def test_the_same_checksum_is_not_the_same_text(folder: Path) -> None:
    path = str(folder / "mine.yaml")
    parse_file(path)
    (entry,) = entries(folder)
    content = json.loads(entry.read_text().split("\n", 1)[1])
    content["text"] = content["text"].replace("eagle", "agile")
    text = json.dumps(content)
    entry.write_text(f"{cache.crc32(text.encode())}\n{text}")
    assert cache.read(POLICY, "label") is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    assert parse_file(str(folder / "mine.yaml")).name == "mine"


def _load(path: str) -> str:
    return parse_file(path).name


def test_many_writers_at_once(folder: Path) -> None:
    path = str(folder / "mine.yaml")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(_load, [path] * 16) == ["mine"] * 16
    assert len(entries(folder)) == 1
    assert cache.read(POLICY, "label") is not None


def test_the_command_imports_neither_parser_nor_yaml_nor_torch() -> None:
    root = Path(__file__).resolve().parents[1]
    heavy = [
        "yaml",
        "jsonschema",
        "celpy",
        "lark",
        "re2",
        "torch",
        "numpy",
        "dataclasses",
        "hashlib",
        "concurrent.futures",
    ]
    program = (
        "import sys; from policy_eval.cli import main; code = main(sys.argv[1:]); "
        f"print(code, [name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(root / "tests" / "demo" / "approved.json"), "--quiet"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.stdout.splitlines()[-1] == "0 []"
