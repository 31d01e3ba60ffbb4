"""Containers of Kubernetes pods: command, args, env and `$(VAR)` as the kubelet resolves them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.engines import image_facts
from policy_eval.normalize.readers.shape import Found, Input
from policy_eval.normalize.readers.starts import Origin, container_readings, found_in, relevant
from policy_eval.normalize.text import Text, join, missing

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\$|\$\(([-._A-Za-z0-9]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The ConfigMaps (and Secrets' names) that stand beside the workloads in an input, by name."""

    config_maps: Mapping[str, Item] = field(default_factory=dict)
    secrets: Mapping[str, Item] = field(default_factory=dict)


def cluster_of(objects: list[tuple[str, Item]]) -> Cluster:
    """The ConfigMaps and Secrets among some objects."""
    maps: dict[str, Item] = {}
    secrets: dict[str, Item] = {}
    for kind, item in objects:
        name = item.string("metadata", "name")
        if name is not None and kind in ("ConfigMap", "Secret"):
            (maps if kind == "ConfigMap" else secrets)[name] = item
    return Cluster(config_maps=maps, secrets=secrets)


def at_path(item: Item, path: str, label: str = "") -> Iterator[tuple[Item, str]]:
    """The values at a `/` separated path; `*` stands for every member of a list or mapping, whose name is given."""
    name, _, rest = path.partition("/")
    if not name:
        yield item, label
    elif name == "*":
        for number, child in enumerate(item.items()):
            named = child.string("name") or child.string("groupName") or str(number + 1)
            yield from at_path(child, rest, f"{label} {named}".strip())
        for key, child in item.pairs():
            yield from at_path(child, rest, f"{label} {key}".strip())
    elif below := item.get(name):
        yield from at_path(below, rest, label)


def pod_engines(
    pod: Item, name: str, cluster: Cluster, source: Input, *, key: str = "containers"
) -> list[Found]:
    """The engines that a pod's containers start, sidecars that are init containers included."""
    found: list[Found] = []
    files = mounted_files(pod, cluster)
    for group in (key, "initContainers"):
        for number, container in enumerate(pod.items(group)):
            label = container.string("name") or str(number + 1)
            found += container_engines(container, f"{name} container {label}", cluster, source, files)
    return found


def container_engines(
    container: Item,
    name: str,
    cluster: Cluster,
    source: Input,
    files: Mapping[str, Text],
    *,
    prefix: tuple[Text, ...] = (),
    suffix: tuple[Text, ...] = (),
    outer: Sequence[Item] = (),
) -> list[Found]:
    """The engines that one container starts.

    ``prefix`` is what the container runs where it states no command; ``suffix`` are arguments that an operator
    adds; ``outer`` are lists of variables that come before the container's own.
    """
    warnings: list[Problem] = []
    env = container_env(container, cluster, warnings, outer)
    image: Text | None = None
    image_item = container.get("image")
    if image_item is not None and image_item.is_scalar:
        image = image_item.text()
    command = strings(container, "command")
    arguments = strings(container, "args")
    words = [substituted(text, env) for text in (*command, *arguments)]
    if not command and prefix:
        words = [*prefix, *words]
    words += suffix
    entry = not command and not prefix
    if entry and not words and (image is None or not image_facts(image).entry):
        return []
    origin = Origin(name=name, input=source, image=image, files=files, warnings=tuple(warnings))
    return found_in(container_readings(tuple(words), image, env, entry), origin)


def strings(container: Item, key: str) -> list[Text]:
    """The strings of a list such as `args`; raises PolicyEvalError where one is something else."""
    given = container.get(key)
    if given is None:
        return []
    if not isinstance(given.value, list):
        raise PolicyEvalError(
            Problem(
                message=f"`{key}` must be a list of strings",
                location=given.location(),
                help="write one word an item: - --flag",
            )
        )
    found = []
    for item in given.items():
        if not isinstance(item.value, str):
            shown = item.text().text[:60]
            raise PolicyEvalError(
                Problem(
                    message=f"`{key}` takes strings, found `{shown}`",
                    location=item.location(),
                    help=f'put it in quotes: "{shown}"' if item.is_scalar else "write one word an item",
                )
            )
        found.append(item.text())
    return found


def substituted(text: Text, env: Mapping[str, Text]) -> Text:
    """`$(NAME)` replaced where the variable is set, `$$` as one dollar sign; all else stays as it is."""
    if "$" not in text.text:
        return text
    parts: list[Text] = []
    at = 0
    for match in _REFERENCE.finditer(text.text):
        name = match.group(1)
        if name is None:
            parts += [text.slice(at, match.start() + 1)]
        elif name in env:
            parts += [text.slice(at, match.start()), env[name]]
        else:
            continue
        at = match.end()
    return join([*parts, text.slice(at)]) if parts else text


def container_env(
    container: Item, cluster: Cluster, warnings: list[Problem], outer: Sequence[Item] = ()
) -> dict[str, Text]:
    """The environment of a container; values that come from outside the input are unknown."""
    env: dict[str, Text] = {}
    for group in container.items("envFrom"):
        prefix = group.string("prefix") or ""
        for kind, known in (("configMapRef", cluster.config_maps), ("secretRef", cluster.secrets)):
            reference = group.string(kind, "name")
            if reference is None:
                continue
            where = (group.get(kind, "name") or group).location()
            if kind == "configMapRef" and reference in known:
                for key, value in known[reference].pairs("data"):
                    if _NAME.fullmatch(prefix + key):
                        env[prefix + key] = value.text()
            elif kind == "configMapRef":
                for engine in ("vllm", "sglang"):
                    for variable in relevant(engine):
                        why = f"`{variable}` may be set by the ConfigMap `{reference}`, which is not in the input"
                        env[variable] = missing(why, where)
            else:
                problem = Problem(
                    message=f"the Secret `{reference}` may set variables that are not seen here",
                    location=where,
                    help="what it sets is taken not to matter to the engine's configuration",
                )
                warnings.append(problem)
    for entry in (*(entry for group in outer for entry in group.items()), *container.items("env")):
        name = entry.string("name")
        if name is None:
            continue
        stated = entry.get("value")
        if stated is not None:
            if not isinstance(stated.value, str):
                shown = stated.text().text[:60]
                raise PolicyEvalError(
                    Problem(
                        message=f"the value of the variable `{name}` must be a string, found `{shown}`",
                        location=stated.location(),
                        help=f'put it in quotes: "{shown}"',
                    )
                )
            env[name] = substituted(stated.text(), env)
        elif entry.get("valueFrom") is not None:
            env[name] = value_from(name, entry, cluster)
        else:
            env[name] = Text("", entry.text().runs)
    return env


def value_from(name: str, entry: Item, cluster: Cluster) -> Text:
    """A variable that takes its value from elsewhere: known where it is a ConfigMap in the input."""
    source = entry.get("valueFrom", "configMapKeyRef")
    if source is not None:
        config_map = cluster.config_maps.get(source.string("name") or "")
        value = config_map.get("data", source.string("key") or "") if config_map is not None else None
        if value is not None:
            return value.text()
    kind = next((key for key, _ in entry.pairs("valueFrom")), "valueFrom")
    where = entry.get("valueFrom") or entry
    return missing(f"`{name}` takes its value from `{kind}`, known only in the cluster", where.location())


def mounted_files(pod: Item, cluster: Cluster) -> dict[str, Text]:
    """Files that ConfigMaps in the input put into a pod's containers, by the path they appear at."""
    volumes: dict[str, Item] = {}
    for volume in pod.items("volumes"):
        reference = volume.string("configMap", "name")
        if reference in cluster.config_maps:
            volumes[volume.string("name") or ""] = volume
    files: dict[str, Text] = {}
    for container in (*pod.items("containers"), *pod.items("initContainers")):
        for mount in container.items("volumeMounts"):
            source = volumes.get(mount.string("name") or "\0")
            path = mount.string("mountPath")
            if source is None or path is None:
                continue
            config_map = cluster.config_maps[source.string("configMap", "name") or ""]
            paths = {item.string("key"): item.string("path") for item in source.items("configMap", "items")}
            for key, value in config_map.pairs("data"):
                shown = paths.get(key, None if paths else key)
                if shown is None or not isinstance(value.value, str):
                    continue
                sub_path = mount.string("subPath")
                if sub_path is None:
                    files[f"{path.rstrip('/')}/{shown}"] = value.text()
                elif sub_path == shown:
                    files[path] = value.text()
    return files
