"""What policies say of each configuration of a lattice: compiled rules over plain dicts, without a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from policy_eval import cel
from policy_eval.policy import Policy, Rule
from policy_eval.schema import complete, config_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``failed``: ids of the rules of severity error that are false. ``undecided``: ids, or names of conditions,
    that give no true or false, with the reason. ``applies``: whether some policy spoke about the configuration.
    """

    failed: tuple[str, ...] = ()
    undecided: tuple[tuple[str, str], ...] = ()
    applies: bool = False


class Verdicts:
    """Policies compiled for each release once."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self._compiled: dict[str, list[tuple[Policy, tuple[Rule, ...], cel.RuleSet]]] = {}

    def of(self, document: dict[str, Any]) -> Verdict:
        """The verdict on a document that states its release."""
        failed: list[str] = []
        undecided: list[tuple[str, str]] = []
        applies = False
        for policy, rules, compiled in self._for(document["engine"]["version"]):
            try:
                found = compiled.failures(document)
            except cel.Undecided:
                applied = self._slowly(document, policy, rules, compiled, failed, undecided)
                applies = applies or applied
                continue
            if found is not None:
                applies = True
                failed += [rules[at].id for at in found]
        return Verdict(failed=tuple(failed), undecided=tuple(undecided), applies=applies)

    def _slowly(
        self,
        document: Mapping[str, Any],
        policy: Policy,
        rules: Sequence[Rule],
        compiled: cel.RuleSet,
        failed: list[str],
        undecided: list[tuple[str, str]],
    ) -> bool:
        outcomes = compiled.outcomes(complete(dict(document), lambda at: cel.Unknown(frozenset([at]))))
        if any(value is False for value in outcomes.conditions):
            return False
        names = [one.name for one in policy.conditions] + [one.id for one in rules]
        for name, value in zip(names, (*outcomes.conditions, *outcomes.rules), strict=False):
            if value is False:
                failed.append(name)
            elif value is not True:
                undecided.append((name, _why(value)))
        return True

    def _for(self, version: str) -> list[tuple[Policy, tuple[Rule, ...], cel.RuleSet]]:
        if version not in self._compiled:
            self._compiled[version] = [
                (policy, rules, _compile(policy, rules))
                for policy in self._policies
                if covers(policy.versions, version)
                and (rules := tuple(one for one in policy.rules if _speaks(one, version)))
            ]
        return self._compiled[version]


def covers(versions: str, version: str) -> bool:
    """Whether a PEP 440 specifier holds for a release."""
    return SpecifierSet(versions).contains(Version(version), prereleases=True)


def _speaks(rule: Rule, version: str) -> bool:
    return rule.severity == "error" and covers(rule.versions, version)


def _compile(policy: Policy, rules: Sequence[Rule]) -> cel.RuleSet:
    return cel.RuleSet(
        roots={"config": config_type()},
        variables=[(one.name, one.expression.node) for one in policy.variables],
        conditions=[one.expression.node for one in policy.conditions],
        rules=[one.expression.node for one in rules],
    )


def _why(value: object) -> str:
    if isinstance(value, cel.Unknown):
        return "it needs " + ", ".join(f"`{pointer}`" for pointer in sorted(value.pointers))
    return value.message if isinstance(value, cel.Error) else "it gives neither true nor false"
