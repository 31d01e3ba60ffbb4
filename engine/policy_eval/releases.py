"""The releases of an engine that the policies were checked against."""

from __future__ import annotations

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.load import Source
from policy_eval.record import record
from policy_eval.schema import schema_problems


@record
class Releases:
    """Known releases of ``engine``, oldest first. A document that states none is tried against each."""

    name: str
    engine: str
    releases: tuple[str, ...]
    location: Location


def parse_releases(source: Source) -> Releases:
    """The releases in a file; raises PolicyEvalError with every problem of the file."""
    from packaging.version import InvalidVersion, Version

    problems = schema_problems(source.value, "releases", source, source.file)
    if problems:
        raise PolicyEvalError(*problems)
    spec = source.value["spec"]
    for at, release in enumerate(spec["releases"]):
        try:
            Version(release)
        except InvalidVersion:
            where = source.location(f"/spec/releases/{at}")
            problems.append(Problem(message=f"not a version: `{release}`", location=where))
    if problems:
        raise PolicyEvalError(*problems)
    return Releases(
        name=source.value["metadata"]["name"],
        engine=spec["engine"],
        releases=tuple(spec["releases"]),
        location=source.location("/metadata/name"),
    )
