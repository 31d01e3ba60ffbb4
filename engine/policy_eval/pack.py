"""Policy files and folders -> a Pack: the policies, known releases and derivations that an evaluator runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from policy_eval import cache, load
from policy_eval.cache import Kept
from policy_eval.derive import Derivation, parse_derivation
from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.policy import Policy, parse_policy
from policy_eval.record import record
from policy_eval.releases import parse_releases
from policy_eval.resources import data_folder


@record
class Pack:
    """Everything read from policy files. ``releases`` maps an engine to its known releases, oldest first."""

    policies: tuple[Policy, ...] = ()
    derivations: tuple[Derivation, ...] = ()
    releases: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def load_pack(paths: Sequence[str] | None = None, *, cached: bool = True) -> Pack:
    """The pack in these files and folders; the bundled one without any.

    Known releases and derivations that the paths do not bring come from the bundled files. Raises
    PolicyEvalError with every problem of every file, or when no policy was found. ``cached``: unchanged files
    are not parsed again (`policy_eval.cache`).
    """
    bundled = data_folder("policies")
    found = _Reader(cached)
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
    return Pack(policies=tuple(found.policies), derivations=tuple(found.derivations), releases=found.releases)


class _Reader:
    def __init__(self, cached: bool) -> None:
        self.policies: list[Policy] = []
        self.derivations: list[Derivation] = []
        self.releases: dict[str, tuple[str, ...]] = {}
        self.problems: list[Problem] = []
        self._cached = cached
        self._seen: dict[tuple[str, str], Location] = {}

    def read(self, path: str) -> None:
        for file in policy_files(path):
            try:
                self._add(parse_file(file, cached=self._cached))
            except PolicyEvalError as error:
                self.problems.extend(error.problems)

    def fill_in(self, folder: str) -> None:
        """Read what surrounds policies from the bundled folder, where the given paths had none."""
        rest = _Reader(self._cached)
        rest.read(folder)
        self.releases = {**rest.releases, **self.releases}
        mine = {(one.engine, one.derives) for one in self.derivations}
        self.derivations += [one for one in rest.derivations if (one.engine, one.derives) not in mine]

    def _add(self, found: Kept) -> None:
        self._own("file", found.name, found.location)
        if isinstance(found, Policy):
            for rule in found.rules:
                self._own("rule", rule.id, rule.location)
            self.policies.append(found)
        elif isinstance(found, Derivation):
            self._own("derivation of", f"{found.derives} for {found.engine}", found.location)
            self.derivations.append(found)
        else:
            self._own("list of releases of", found.engine, found.location)
            self.releases[found.engine] = found.releases

    def _own(self, what: str, name: str, where: Location) -> None:
        first = self._seen.setdefault((what, name), where)
        if first is not where:
            message = f"a {what} `{name}` is there already, in {first}"
            self.problems.append(Problem(message=message, location=where, help="give each its own name"))


def parse_file(file: str, *, cached: bool = True) -> Kept:
    """What a policy file holds; from the cache when the file has not changed. Raises PolicyEvalError."""
    text, label = load.read_text(file), _label(file)
    if cached and (kept := cache.read(text, label)):
        return kept
    source = load.load_json(text, label) if file.endswith(".json") else load.load_yaml(text, label)
    kind = source.value.get("kind") if isinstance(source.value, dict) else None
    if kind not in _KINDS:
        where = source.location("/kind" if isinstance(source.value, dict) and "kind" in source.value else "")
        from difflib import get_close_matches

        close = get_close_matches(str(kind), _KINDS, n=1)
        known = ", ".join(f"`{name}`" for name in _KINDS)
        help_text = f"did you mean `{close[0]}`?" if close else f"its `kind` must be one of {known}"
        raise PolicyEvalError(Problem(message="not a policy file", location=where, help=help_text))
    found = _KINDS[kind](source)
    if cached:
        cache.write(text, found)
    return found


def shipped() -> str:
    """The content of `cache.SHIPPED`, made anew from the bundled files (``make compiled``)."""
    files = policy_files(data_folder("policies"))
    return cache.ship((load.read_text(file), parse_file(file, cached=False)) for file in files)


_KINDS: dict[str, Callable[[Source], Kept]] = {
    "Derivation": parse_derivation,
    "Policy": parse_policy,
    "Releases": parse_releases,
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
