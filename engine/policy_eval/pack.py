"""Policy files and folders -> a Pack: the policies, known releases and derivations that an evaluator runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from policy_eval import load
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.policy import Policy, parse_policy
from policy_eval.resources import data_folder
from policy_eval.schema import schema_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Everything read from policy files. ``releases`` maps an engine to its known releases, oldest first."""

    policies: tuple[Policy, ...] = ()
    releases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load_pack(paths: Sequence[str] | None = None) -> Pack:
    """The pack in these files and folders; the bundled one without any.

    Known releases and derivations that the paths do not bring come from the bundled files. Raises
    PolicyEvalError with every problem of every file, or when no policy was found.
    """
    bundled = data_folder("policies")
    found = _Reader()
    for path in paths if paths is not None else [bundled]:
        found.read(path)
    if not found.problems and not found.policies:
        shown = ", ".join(f"`{path}`" for path in paths or [bundled]) or "an empty list"
        found.problems.append(
            Problem(
                message=f"no policy found in {shown}", help="policy files end in .yaml and say `kind: Policy`"
            )
        )
    if paths is not None:
        found.fill_in(bundled)
    if found.problems:
        raise PolicyEvalError(*found.problems)
    return Pack(policies=tuple(found.policies), releases=found.releases)


class _Reader:
    def __init__(self) -> None:
        self.policies: list[Policy] = []
        self.releases: dict[str, tuple[str, ...]] = {}
        self.derivations: list[Source] = []
        self.problems: list[Problem] = []
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def read(self, path: str) -> None:
        for file in policy_files(path):
            try:
                self._file(file, _label(file))
            except PolicyEvalError as error:
                self.problems.extend(error.problems)

    def fill_in(self, folder: str) -> None:
        """Read what surrounds policies from the bundled folder, where the given paths had none."""
        rest = _Reader()
        rest.read(folder)
        self.releases = {**rest.releases, **self.releases}

    def _file(self, file: str, label: str) -> None:
        text = load.read_text(file)
        source = load.load_json(text, label) if file.endswith(".json") else load.load_yaml(text, label)
        kind = source.value.get("kind") if isinstance(source.value, dict) else None
        if kind not in _KINDS:
            where = source.location(
                "/kind" if isinstance(source.value, dict) and "kind" in source.value else ""
            )
            known = ", ".join(f"`{name}`" for name in _KINDS)
            close = get_close_matches(str(kind), _KINDS, n=1)
            help_text = f"did you mean `{close[0]}`?" if close else f"its `kind` must be one of {known}"
            raise PolicyEvalError(Problem(message="not a policy file", location=where, help=help_text))
        _KINDS[kind](self, source)

    def _policy(self, source: Source) -> None:
        policy = parse_policy(source)
        self._own(self._names, "policy", policy.name, source.location("/metadata/name"))
        for at, rule in enumerate(policy.rules):
            self._own(self._ids, "rule", rule.id, source.location(f"/spec/validations/{at}/id"))
        self.policies.append(policy)

    def _own(self, seen: dict[str, str], what: str, name: str, where: Location) -> None:
        if name in seen:
            self.problems.append(
                Problem(
                    message=f"{what} `{name}` is there already, in {seen[name]}",
                    location=where,
                    help="give each its own name",
                )
            )
        seen.setdefault(name, str(where))

    def _derivation(self, source: Source) -> None:
        self.derivations.append(source)

    def _releases(self, source: Source) -> None:
        from packaging.version import InvalidVersion, Version

        problems = schema_problems(source.value, "releases", source, source.file)
        if problems:
            raise PolicyEvalError(*problems)
        spec: dict[str, Any] = source.value["spec"]
        for at, release in enumerate(spec["releases"]):
            try:
                Version(release)
            except InvalidVersion:
                where = source.location(f"/spec/releases/{at}")
                self.problems.append(Problem(message=f"not a version: `{release}`", location=where))
        self.releases[spec["engine"]] = tuple(spec["releases"])


_KINDS: dict[str, Callable[[_Reader, Source], None]] = {
    "Derivation": _Reader._derivation,
    "Policy": _Reader._policy,
    "Releases": _Reader._releases,
}


def _label(file: str) -> str:
    """The file as reports name it: bundled ones as ``policies/...``, wherever the package lies."""
    bundled = data_folder("policies")
    return os.path.relpath(file, os.path.dirname(bundled)) if file.startswith(bundled + os.sep) else file


def policy_files(path: str) -> Iterable[str]:
    """The policy files at a path: itself, or those below a folder, in order of their names.

    Test files (``*.test.yaml``) and hidden files are left out.
    """
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(files) if _is_policy_file(name)]
    return found


def _is_policy_file(name: str) -> bool:
    return (
        name.endswith((".yaml", ".yml"))
        and not name.startswith(".")
        and not name.endswith((".test.yaml", ".test.yml"))
    )
