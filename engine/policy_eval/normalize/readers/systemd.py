"""systemd service units: ExecStart with continuations, Environment=, EnvironmentFile=, `%` left alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from policy_eval.errors import NothingFound, Problem
from policy_eval.model import Document
from policy_eval.normalize.readers import compose
from policy_eval.normalize.readers.env_file import env_file
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, container_readings, found_in
from policy_eval.normalize.text import Text, join, missing

_SECTION = re.compile(r"^\[(Service|Container)\]\s*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")


def matches(source: Input) -> bool:
    """Whether this is a unit with a `[Service]` that starts something, or Podman's `[Container]` with an image."""
    found = _SECTION.search(source.text)
    return found is not None and (
        "ExecStart" in source.text if found.group(1) == "Service" else "Image" in source.text
    )


def read(source: Input) -> Sequence[Found | Document]:
    """The engines that `ExecStart=` lines start; raises PolicyEvalError where there is none."""
    env: dict[str, Text] = {}
    from_files: dict[str, Text] = {}
    starts: list[Text] = []
    warnings: list[Problem] = []
    run: dict[str, Text] = {}
    for key, value in settings(source.whole, ("Service", "Container")):
        if key in ("Image", "Exec", "Entrypoint"):
            run[key] = value
        elif key == "Environment":
            if not value.text:
                env = {}
            for word in split(value):
                name, equals, _ = word.text.partition("=")
                if equals:
                    env[name] = word.slice(len(name) + 1)
        elif key == "EnvironmentFile" and value.text:
            from_files |= _file(value, source, warnings)
        elif key == "ExecStart":
            starts = [*starts, value] if value.text else []
    # Files are stronger than `Environment=`, wherever they stand.
    env |= from_files
    found: list[Found] = []
    name = os.path.basename(source.file)
    image = run.get("Image")
    if image is not None:
        words = [*split(run["Entrypoint"])] if "Entrypoint" in run else []
        words += split(run["Exec"]) if "Exec" in run else []
        origin = Origin(name=name, input=source, image=image, warnings=tuple(warnings))
        found += found_in(container_readings(tuple(words), image, env, "Entrypoint" not in run), origin)
    for start in starts:
        at = len(start.text) - len(start.text.lstrip("@-:+!"))
        words = [part for word in split(start.slice(at)) for part in _expanded(word, env)]
        origin = Origin(name=name, input=source, warnings=tuple(warnings))
        if composed := _compose_file(words, source):
            found += compose.read_file(composed, source, env)
            continue
        found += found_in(container_readings(tuple(words), None, env, False), origin)
    if not found:
        raise NothingFound(
            Problem(
                message="no inference engine is started here",
                location=starts[0].place() if starts else source.whole.place(0, 1),
                help="an `ExecStart=` that runs vLLM or SGLang is expected",
            )
        )
    return found


def _compose_file(words: Sequence[Text], source: Input) -> Text | None:
    """The compose file that `docker compose up` takes, where it stands beside the unit."""
    texts = [word.text for word in words]
    if not texts or os.path.basename(texts[0]) not in (
        "docker",
        "docker-compose",
        "podman",
        "podman-compose",
    ):
        return None
    if "up" not in texts or not ("compose" in texts[:2] or texts[0].endswith("-compose")):
        return None
    for option in ("-f", "--file"):
        if option in texts[:-1]:
            word = words[texts.index(option) + 1]
            return source.include(word.text, None) or source.required(
                os.path.basename(word.text), word.place()
            )
    names = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
    return next((text for name in names if (text := source.include(name, None)) is not None), None)


def _file(value: Text, source: Input, warnings: list[Problem]) -> dict[str, Text]:
    """The variables of an environment file; a path from the root is looked for beside the unit."""
    name = value.text.lstrip("-")
    text = source.include(name, value.place())
    if text is None:
        text = source.include(os.path.basename(name), value.place())
    if text is not None:
        return env_file(text)
    warnings.append(
        Problem(
            message=f"the environment file `{name[:80]}` is not beside the unit: what it sets is not seen here",
            location=value.place(),
            help="put a copy of it next to the unit",
        )
    )
    return {}


def settings(whole: Text, sections: tuple[str, ...] = ("Service",)) -> Iterator[tuple[str, Text]]:
    """Keys and values of some sections; a backslash at the end of a line joins the next one."""
    section = ""
    lines: list[tuple[int, int]] = []
    at = 0
    for line in whole.text.split("\n"):
        lines.append((at, at + len(line.rstrip("\r"))))
        at += len(line) + 1
    number = 0
    while number < len(lines):
        start, end = lines[number]
        number += 1
        line = whole.text[start:end]
        bare = line.strip()
        if bare.startswith("[") and bare.endswith("]"):
            section = bare[1:-1]
        if section not in sections or not bare or bare[0] in "#;[" or "=" not in line:
            continue
        key, _, _ = line.partition("=")
        parts = []
        begin = start + len(key) + 1
        while whole.text[begin:end].rstrip().endswith("\\") and number < len(lines):
            last = begin + len(whole.text[begin:end].rstrip()) - 1
            parts.append(whole.slice(begin, last))
            parts.append(Text(" ", whole.slice(last, last + 1).runs))
            # Comment lines within a continued value are left out.
            while number < len(lines) and whole.text[slice(*lines[number])].lstrip()[:1] in ("#", ";"):
                number += 1
            if number >= len(lines):
                begin = end
                break
            begin, end = lines[number]
            number += 1
        parts.append(whole.slice(begin, end))
        yield key.strip(), join(parts).strip()


def split(text: Text) -> list[Text]:
    """The words of a value: quotes group, and backslashes escape, as systemd has it."""
    from policy_eval.normalize.readers.compose import split_words

    return split_words(text)


def _expanded(word: Text, env: Mapping[str, Text]) -> list[Text]:
    """`${NAME}` within a word; `$NAME` alone as a word is split at white space."""
    alone = re.fullmatch(r"\$([A-Za-z_][A-Za-z0-9_]*)", word.text)
    if alone:
        value = env.get(alone.group(1))
        return (
            [missing(f"`{alone.group(1)}` is not set here", word.place())] if value is None else split(value)
        )
    if "$" not in word.text:
        return [word]
    parts: list[Text] = []
    at = 0
    for found in _VARIABLE.finditer(word.text):
        parts.append(word.slice(at, found.start()))
        at = found.end()
        name = found.group(1)
        if name is None:
            # `$$` is a dollar sign; `$NAME` inside a word is not replaced.
            parts.append(word.slice(found.start(), found.start() + 1 if found.group() == "$$" else at))
        else:
            parts.append(env.get(name) or missing(f"`{name}` is not set here", word.place(*found.span())))
    return [join([*parts, word.slice(at)])]


SHAPE = Shape(
    name="systemd",
    description="systemd service units (ExecStart=, Environment=, EnvironmentFile=) and Podman's .container files",
    matches=matches,
    read=read,
)
