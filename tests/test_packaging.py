"""The wheel that is built from the sdist runs anywhere: clean environment, another folder, no checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_policies_and_schemas(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for path in (
        "policy_eval/_data/policies/vllm/sampling-replay.yaml",
        "policy_eval/_data/schemas/policy.schema.json",
        "policy_eval/_data/schemas/report.schema.json",
        "policy_eval/py.typed",
    ):
        assert path in names
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as sdist:
        assert any(name.endswith("/tests/demo/approved.json") for name in sdist.getnames())


def test_it_runs_in_a_clean_environment_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    run(binaries / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("approved", "rejected"):
        (elsewhere / f"{name}.json").write_text((ROOT / "tests" / "demo" / f"{name}.json").read_text())
    assert run(binaries / "policy-eval", "approved.json", cwd=elsewhere).startswith("approved")
    assert run(binaries / "policy-eval", "rejected.json", cwd=elsewhere, code=1).startswith("rejected")
    program = "import policy_eval, sys; print(policy_eval.Evaluator.load().policies[0].name, 'torch' in sys.modules)"
    assert run(binaries / "python", "-c", program, cwd=elsewhere).endswith("False\n")
