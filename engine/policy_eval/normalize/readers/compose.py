"""Docker compose: services with `command`, `entrypoint`, `environment`, `env_file` and `${VAR}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policy_eval.errors import NothingFound, PolicyEvalError, Problem
from policy_eval.model import Document
from policy_eval.normalize.item import Item, nested_yaml
from policy_eval.normalize.readers.env_file import env_file
from policy_eval.normalize.readers.shape import Found, Input, Shape
from policy_eval.normalize.readers.starts import Origin, container_readings, found_in
from policy_eval.normalize.readers.variables import interpolated
from policy_eval.normalize.text import Text, join, missing

_SERVICE_KEYS = frozenset(
    {"image", "build", "command", "entrypoint", "environment", "extends", "deploy", "env_file"}
)


def matches(source: Input) -> bool:
    """Whether this is a compose file: `services`, each with an image or a build."""
    return any(
        item.string("kind") is None
        and any(_SERVICE_KEYS & set(service.value) for _, service in _services(item))
        for item in source.mappings()
    )


def _services(item: Item) -> list[tuple[str, Item]]:
    return [(name, service) for name, service in item.pairs("services") if isinstance(service.value, dict)]


def read(source: Input) -> Sequence[Found | Document]:
    """The engines that the services start; raises PolicyEvalError where there is none."""
    found: list[Found] = []
    for item in source.items():
        found += _engines(item, source, {})
    if not found:
        raise NothingFound(
            Problem(
                message="no service here starts an inference engine",
                location=source.whole.place(0, 1),
                help="a service that runs vLLM or SGLang is expected",
            )
        )
    return found


def read_file(text: Text, source: Input, env: Mapping[str, Text]) -> list[Found]:
    """The engines of a compose file that an input starts with the variables ``env``."""
    return [found for item in nested_yaml(text) for found in _engines(item, source, env)]


def _engines(item: Item, source: Input, env: Mapping[str, Text]) -> list[Found]:
    outer: dict[str, Text] = {}
    if source.folder is not None and (dotenv := source.include(".env", None)) is not None:
        outer = env_file(dotenv)
    outer |= env
    return [
        found for name, service in _services(item) for found in _service(name, service, outer, source, item)
    ]


def _service(name: str, service: Item, outer: Mapping[str, Text], source: Input, root: Item) -> list[Found]:
    layers = _layers(service, source, root, set())
    env: dict[str, Text] = {}
    for layer in reversed(layers):
        env |= _environment(layer, outer, source)

    def stated(key: str) -> Item | None:
        return next((found for layer in layers if (found := layer.get(key)) is not None), None)

    entrypoint, command = stated("entrypoint"), stated("command")
    words = [interpolated(text, outer) for text in _words(entrypoint)]
    words += [interpolated(text, outer) for text in _words(command)]
    image = stated("image")
    origin = Origin(
        name=f"service {name}",
        input=source,
        image=interpolated(image.text(), outer) if image is not None and image.is_scalar else None,
    )
    return found_in(container_readings(tuple(words), origin.image, env, entrypoint is None), origin)


def _layers(service: Item, source: Input, root: Item, seen: set[str]) -> list[Item]:
    """The service, and those that it `extends`, in this file or in one beside it; the service comes first."""
    extends = service.get("extends")
    if extends is None:
        return [service]
    name = extends.value if isinstance(extends.value, str) else extends.string("service")
    file = extends.get("file")
    place = f"{file.value if file else ''}#{name}"
    if place in seen:
        raise PolicyEvalError(
            Problem(message=f"`extends` comes back to `{str(name)[:80]}`", location=extends.location())
        )
    if file is not None and isinstance(file.value, str):
        items = nested_yaml(source.required(file.value, file.location()))
        root = items[0] if items else root
    base = root.get("services", str(name))
    if base is None:
        raise PolicyEvalError(
            Problem(message=f"no service `{str(name)[:80]}` to extend", location=extends.location())
        )
    return [service, *_layers(base, source, root, seen | {place})]


def _words(item: Item | None) -> list[Text]:
    """A list of words, or one string that compose splits as a shell would (variables are compose's own)."""
    if item is None:
        return []
    if isinstance(item.value, list):
        return [member.text() for member in item.items() if member.is_scalar]
    return split_words(item.text()) if isinstance(item.value, str) else []


def split_words(text: Text) -> list[Text]:
    """Split at white space, quotes taken off and backslashes resolved, `$` left alone."""
    words: list[Text] = []
    open_word: list[Text] | None = None
    at, source = 0, text.text
    while at < len(source):
        char = source[at]
        if char in " \t\n\r":
            if open_word is not None:
                words.append(join(open_word))
                open_word = None
            at += 1
            continue
        open_word = [] if open_word is None else open_word
        if char in "'\"":
            end = at + 1
            while end < len(source) and source[end] != char:
                escaped = char == '"' and source[end] == "\\" and source[end + 1 : end + 2] in ('"', "\\")
                if escaped:
                    open_word.append(text.slice(at + 1, end))
                    at, end = end, end + 1
                end += 1
            open_word.append(text.slice(at + 1, end))
            at = end + 1
        elif char == "\\" and at + 1 < len(source):
            if source[at + 1] != "\n":
                open_word.append(text.slice(at + 1, at + 2))
            at += 2
        else:
            end = at
            while end < len(source) and source[end] not in " \t\n\r'\"\\":
                end += 1
            open_word.append(text.slice(at, max(end, at + 1)))
            at = max(end, at + 1)
    if open_word is not None:
        words.append(join(open_word))
    return words


def _environment(service: Item, outer: Mapping[str, Text], source: Input) -> dict[str, Text]:
    """The service's variables: its env files in order, then `environment`."""
    env: dict[str, Text] = {}
    files = service.get("env_file")
    if files is not None:
        entries = list(files.items()) if isinstance(files.value, list) else [files]
        for entry in entries:
            path = entry.get("path") or entry
            if not isinstance(path.value, str):
                continue
            if entry.dig("required", default=True) is False and source.path(path.value) is not None:
                optional = source.include(path.value, path.location())
                env |= env_file(optional) if optional is not None else {}
                continue
            name = interpolated(path.text(), outer)
            env |= env_file(source.required(name.text, path.location()))
    stated = service.get("environment")
    if stated is None:
        return env
    for variable, value in stated.pairs():
        if value.is_scalar:
            env[variable] = interpolated(value.text(), outer)
    for entry in stated.items():
        if not isinstance(entry.value, str):
            continue
        variable, equals, _ = entry.value.partition("=")
        if equals:
            env[variable] = interpolated(entry.text().slice(len(variable) + 1), outer)
        else:
            env[variable] = outer.get(variable) or missing(f"`{variable}` is not set here", entry.location())
    for variable in stated.value if isinstance(stated.value, dict) else ():
        if stated.value[variable] is None:
            env[variable] = outer.get(variable) or missing(f"`{variable}` is not set here", stated.location())
    return env


SHAPE = Shape(
    name="compose",
    description="docker compose files: services with command, entrypoint, environment, env_file",
    matches=matches,
    read=read,
)
