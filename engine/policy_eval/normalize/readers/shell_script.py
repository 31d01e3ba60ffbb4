"""Shell scripts and command lines, `docker run` in them included."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from policy_eval.errors import NothingFound, Problem
from policy_eval.model import Document
from policy_eval.normalize.readers import launch_scripts
from policy_eval.normalize.readers.pins import pinned_release
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, found_in
from policy_eval.normalize.shell.script import Reading, read_script

_SHEBANG = re.compile(r"#!\s*\S*(?:/|\s)(?:ba|da|z|k|a)?sh\b")
_LINE = re.compile(
    r"^\s*(?:\S+=\S*\s+)*(?:exec\s+)?(?:\S*/)?(?:vllm\s+serve|sglang\s+serve|python[0-9.]*\s+-m\s+(?:vllm|sglang)|"
    r"docker\s+run|podman\s+run|uv\s+run|nohup\s+vllm)\b",
    re.MULTILINE,
)


def is_script(source: Input) -> bool:
    """Whether this is a shell script by its first line, its name, or a command that starts an engine."""
    return (
        source.suffix in (".sh", ".bash", ".zsh")
        or _SHEBANG.match(source.text) is not None
        or (
            source.suffix not in (".yaml", ".yml", ".json", ".toml") and _LINE.search(source.text) is not None
        )
    )


def is_command_line(source: Input) -> bool:
    """Whether this is one command and nothing else."""
    text = source.text.strip().replace("\\\n", " ")
    return bool(text) and "\n" not in text and not text.startswith("#") and _LINE.match(text) is not None


def read(source: Input) -> Sequence[Found | Document]:
    """The engines that the commands of a script start; raises PolicyEvalError where there is none."""
    readings = read_script(source.whole, include=source.include)
    trainers = launch_scripts.trainers_in(readings, source)
    found = [*found_in(readings, _origin(source)), *trainers]
    if not found:
        raise NothingFound(_nothing(source, readings))
    return found


def _origin(source: Input) -> Origin:
    name = os.path.basename(source.file)
    return Origin(name=name, input=source, fallback=pinned_release(source, "vllm"))


def _nothing(source: Input, readings: list[Reading]) -> Problem:
    commands = [command for reading in readings for command in reading.commands]
    remarks = [remark for command in commands for remark in command.warnings]
    where = remarks[0].location if remarks else source.whole.place(0, 1)
    return Problem(
        message="no inference engine is started here",
        location=where,
        help="a command such as `vllm serve …`, `python -m sglang.launch_server …` or `docker run …` is expected",
    )


SHAPE = Shape(
    name="shell",
    description="shell scripts: arrays, conditions, functions, eval, docker run; followed, never executed",
    matches=is_script,
    read=read,
)

COMMAND_LINE = Shape(
    name="command-line",
    description="one bare command line: vllm serve …, python -m sglang.launch_server …, docker run …",
    matches=is_command_line,
    read=read,
)
