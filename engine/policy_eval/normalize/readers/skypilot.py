"""SkyPilot tasks: `setup` and `run` scripts, `envs`, an image in `resources`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_eval.errors import NothingFound, Problem
from policy_eval.model import Document
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, found_in
from policy_eval.normalize.shell.script import read_script
from policy_eval.normalize.text import Text, join, missing

_KEYS = frozenset({"resources", "setup", "envs", "num_nodes", "workdir", "file_mounts", "service", "secrets"})


def matches(source: Input) -> bool:
    """Whether this is a task: a `run` script and some other key of a task."""
    return any(
        item.string("run") is not None and item.get("kind") is None and _KEYS & set(item.value)
        for item in source.mappings()
    )


def read(source: Input) -> Sequence[Found | Document]:
    """The engines that the `run` script of each task starts."""
    found: list[Found] = []
    items = source.items()
    for item in items:
        run = item.get("run")
        if run is not None and isinstance(run.value, str):
            found += _task(item, run, source)
    if not found:
        raise NothingFound(
            Problem(
                message="no inference engine is started here",
                location=(items[0].get("run") or items[0]).location() if items else None,
                help="a `run:` script that starts vLLM or SGLang is expected",
            )
        )
    return found


def _task(item: Item, run: Item, source: Input) -> list[Found]:
    env: dict[str, Text] = {}
    for group in ("envs", "secrets"):
        given = item.get(group)
        for name in given.value if given is not None and isinstance(given.value, dict) else ():
            value = given.get(name) if given is not None else None
            if value is not None and value.is_scalar:
                env[name] = value.text()
            elif given is not None:
                env[name] = missing(f"`{name}` is given when the task is launched", given.location())
    text = run.text()
    setup = item.get("setup")
    if setup is not None and isinstance(setup.value, str):
        # The scripts run one after the other; the first says which release is installed.
        text = join([setup.text(), Text("\n", text.slice(0, 0).runs), text])
    image = item.get("resources", "image_id")
    image_text = image.text() if image is not None and isinstance(image.value, str) else None
    if image_text is not None and image_text.text.startswith("docker:"):
        image_text = image_text.slice(len("docker:"))
    name = f"task {item.string('name') or os.path.basename(source.file)}"
    origin = Origin(name=name, input=source, image=image_text)
    return found_in(read_script(text, env=env, include=source.include), origin)


SHAPE = Shape(
    name="skypilot",
    description="SkyPilot tasks: setup and run scripts, envs",
    matches=matches,
    read=read,
)
