"""Evaluate: documents against policies, in order. No I/O, no global state; an evaluator never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from policy_eval import cel
from policy_eval.derive import Derivation, derive
from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.model import Document, DocumentReport, Finding, Outcome, Report
from policy_eval.pack import Pack, load_pack
from policy_eval.policy import Expression, Named, Policy, Rule
from policy_eval.record import record, replace
from policy_eval.schema import complete, config_type, no_such_fact, quick_check, schema_problems

_MAX_PLANS = 256


@record
class _Applied:
    """A policy with those of its rules that speak about one release; ``errors`` runs those of that severity."""

    policy: Policy
    rules: tuple[Rule, ...]
    compiled: cel.RuleSet
    errors: cel.RuleSet


class _Plan:
    """What is evaluated for one engine and release; keeps the reports of clean passes, which are all alike."""

    __slots__ = ("applied", "clean", "errors", "rules")

    def __init__(self, applied: tuple[_Applied, ...]) -> None:
        self.applied = applied
        self.clean: dict[int, Report] = {}
        self.rules: tuple[Callable[[Any], int], ...] = ()
        self.errors: tuple[Callable[[Any], int], ...] = ()

    def compile_rules(self) -> tuple[Callable[[Any], int], ...]:
        """Compile all rules, policy by policy; kept in ``rules`` for all later calls."""
        self.rules = tuple(one.compiled.first for one in self.applied)
        return self.rules

    def compile_errors(self) -> tuple[Callable[[Any], int], ...]:
        """Compile the rules of severity error, policy by policy; kept in ``errors`` for all later calls."""
        self.errors = tuple(one.errors.first for one in self.applied)
        return self.errors


class Evaluator:
    """Policies, loaded and compiled once, to evaluate any number of documents, from any number of threads."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._conforms = quick_check("config")
        names = [
            (policy.name, name)
            for policy in pack.policies
            for name in (*(one.name for one in policy.conditions), *(rule.id for rule in policy.rules))
        ]
        self._order = {name: at for at, name in enumerate(names)}
        self._compiled: dict[tuple[str, tuple[int, ...]], _Applied] = {}
        self._plans: dict[tuple[str, str], _Plan] = {}

    @classmethod
    def load(cls, paths: Sequence[str] | None = None, *, cached: bool = True) -> Evaluator:
        """An evaluator over the policy files and folders in ``paths``; over the bundled ones without.

        ``cached``: files that have not changed are not parsed again; what was checked is kept in the user's
        cache folder. Raises PolicyEvalError with every problem of every file.
        """
        return cls(load_pack(paths, cached=cached))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, in the order in which they are evaluated."""
        return self._pack.policies

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """The derivations of facts that follow from others."""
        return self._pack.derivations

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        """The known releases of each engine, oldest first."""
        return self._pack.releases

    def evaluate(
        self, document: Mapping[str, Any] | Document, *, first: bool = False, explain: bool = False
    ) -> Report:
        """The verdict on one normalized document (``schemas/config.schema.json``), as a dict or a Document.

        All rules are evaluated and all findings listed in order; with ``first`` the evaluation stops at the
        first rule of severity error that is false, which is what the engine itself would raise. With ``explain``
        each finding says which sub-expressions decided, with their values and places. Never raises for what a
        document holds, and never changes it: what is wrong with it makes the outcome ``error``.
        """
        if type(document) is dict and self._conforms(document) and not document.get("unknown"):
            plan = self._plans.get((document["engine"]["name"], document["engine"].get("version", "")))
            if plan is not None and (report := _clean_pass(plan, document)) is not None:
                return report
        if not isinstance(document, Document):
            document = Document(name="document", value=document)  # type: ignore[arg-type]
        return Report(documents=(self._judge(document, first, explain),))

    def first_failure(self, document: Mapping[str, Any]) -> Finding | None:
        """The first rule of severity error that does not pass, or None: the quickest gate for a launcher.

        It evaluates what `evaluate` evaluates but does not look at parts of the document that no rule reads.
        A rule that cannot be decided does not pass: its finding has the outcome ``indeterminate`` or ``error``.
        Raises PolicyEvalError where nothing can be judged: an invalid document, no policy for its engine.
        """
        try:
            engine = document["engine"]
            plan = self._plans[engine["name"], engine["version"]]
            if not document.get("unknown"):
                for first in plan.errors or plan.compile_errors():
                    if first(document) >= 0:
                        break
                else:
                    return None
        except (KeyError, TypeError, AttributeError, cel.Undecided):
            pass
        judged = self.evaluate(document, first=True).documents[0]
        if judged.problems:
            raise PolicyEvalError(*judged.problems)
        return next((finding for finding in judged.findings if _counts(finding)), None)

    # --- the exact way: any document, any outcome ---

    def _judge(self, document: Document, first: bool, explain: bool) -> DocumentReport:
        problems = list(document.errors)
        if not problems and not self._conforms(document.value):
            problems = [
                _placed(document, p) for p in schema_problems(document.value, "config", None, document.name)
            ]
        if not problems:
            problems = [
                Problem(message=found[0], location=document.place(f"/unknown/{at}"), help=found[1])
                for at, pointer in enumerate(document.value.get("unknown", ()))
                if (found := no_such_fact(pointer))
            ]
        engine, version = _engine(document.value)
        if not problems:
            problems = self._engine_problems(document, engine, version)
        if problems:
            return DocumentReport(
                name=document.name,
                engine=engine,
                version=version,
                outcome="error",
                problems=tuple(problems),
                warnings=document.warnings,
            )
        assert engine is not None
        if version is not None:
            return self._with_release(document, engine, version, first, explain)
        judged = [
            self._with_release(document, engine, release, first, explain) for release in self.releases[engine]
        ]
        return _merge(document, engine, self.releases[engine], judged, self._order)

    def _engine_problems(self, document: Document, engine: str | None, version: str | None) -> list[Problem]:
        where = document.place("/engine/name")
        if engine is None:
            return [Problem(message="the engine is unknown", location=where, help="state /engine/name")]
        covered = [policy for policy in self.policies if policy.engine == engine]
        if not covered:
            known = ", ".join(f"`{name}`" for name in sorted({policy.engine for policy in self.policies}))
            help_text = f"policies are there for {known}"
            return [Problem(message=f"no policy for engine `{engine}`", location=where, help=help_text)]
        where = document.place("/engine/version")
        if version is None:
            if self.releases.get(engine):
                return []
            help_text = "state the release: --engine-version VERSION"
            return [
                Problem(message=f"no known releases of `{engine}` to try", location=where, help=help_text)
            ]
        try:
            plan = self._plan(engine, version)
        except ValueError:
            help_text = "write a PEP 440 version such as 0.32.0"
            return [Problem(message=f"not a version: `{version}`", location=where, help=help_text)]
        if plan.applied:
            return []
        ranges = ", ".join(sorted({f"`{policy.versions or 'any'}`" for policy in covered}))
        message = f"no policy covers {engine} {version}; the policies cover {ranges}"
        help_text = "to judge by a covered release, state it: --engine-version VERSION"
        return [Problem(message=message, location=where, help=help_text)]

    def _plan(self, engine: str, version: str) -> _Plan:
        """The policies and rules for a release. Raises ValueError for what is not a version."""
        plan = self._plans.get((engine, version))
        if plan is not None:
            return plan
        from packaging.specifiers import SpecifierSet
        from packaging.version import Version

        release = Version(version)

        def covers(specifiers: str) -> bool:
            return SpecifierSet(specifiers).contains(release, prereleases=True)

        applied = []
        for policy in self.policies:
            if policy.engine == engine and covers(policy.versions):
                rules = tuple(at for at, rule in enumerate(policy.rules) if covers(rule.versions))
                if rules:
                    applied.append(self._compile(policy, rules))
        plan = _Plan(tuple(applied))
        if applied and len(self._plans) < _MAX_PLANS:
            self._plans[engine, version] = plan
        return plan

    def _compile(self, policy: Policy, chosen: tuple[int, ...]) -> _Applied:
        found = self._compiled.get((policy.name, chosen))
        if found is None:
            rules = tuple(policy.rules[at] for at in chosen)
            errors = tuple(rule for rule in rules if rule.severity == "error")
            compiled = _rule_set(policy, rules)
            found = _Applied(
                policy=policy,
                rules=rules,
                compiled=compiled,
                errors=compiled if errors == rules else _rule_set(policy, errors),
            )
            self._compiled[policy.name, chosen] = found
        return found

    def _with_release(
        self, document: Document, engine: str, version: str, first: bool, explain: bool
    ) -> DocumentReport:
        document = derive(document, self._pack.derivations, version)
        if document.errors:
            return DocumentReport(
                name=document.name, engine=engine, version=version, outcome="error", problems=document.errors
            )
        config = _with_version(complete(document.value, _unknown), version)
        findings: list[Finding] = []
        passed: list[str] = []
        not_applicable: list[str] = []
        for applied in self._plan(engine, version).applied:
            outcomes = applied.compiled.outcomes(config)
            variables = applied.policy.variables

            def add(finding: Finding, expression: Expression, variables: Sequence[Named] = variables) -> None:
                if explain:
                    from policy_eval.explain import explain as why

                    finding = replace(finding, explanation=why(document, config, expression, variables))
                findings.append(finding)

            undecided = [
                (_condition_finding(document, applied.policy, at, value), at)
                for at, value in enumerate(outcomes.conditions)
                if value is not True
            ]
            if any(value is False for value in outcomes.conditions):
                not_applicable.append(applied.policy.name)
                continue
            for finding, at in undecided:
                add(finding, applied.policy.conditions[at].expression)
            if undecided:
                continue
            for rule, value in zip(applied.rules, outcomes.rules, strict=True):
                if value is True:
                    passed.append(rule.id)
                    continue
                add(_finding(document, applied.policy, rule, value, config), rule.expression)
                if first and _counts(findings[-1]) and value is False:
                    break
            if first and any(finding.outcome == "failed" and _counts(finding) for finding in findings):
                break
        return DocumentReport(
            name=document.name,
            engine=engine,
            version=version,
            outcome=_outcome(findings, passed),
            findings=tuple(findings),
            passed=tuple(passed),
            not_applicable=tuple(not_applicable),
            warnings=document.warnings,
        )


def _clean_pass(plan: _Plan, document: dict[str, Any]) -> Report | None:
    """The report of a document that passes every rule that applies to it; None for all others."""
    applies, bit = 0, 1
    try:
        for first in plan.rules or plan.compile_rules():
            found = first(document)
            if found >= 0:
                return None
            if found == -1:
                applies |= bit
            bit <<= 1
    except cel.Undecided:
        return None
    return plan.clean.get(applies) or _clean_report(plan, document, applies)


def _clean_report(plan: _Plan, document: dict[str, Any], applies: int) -> Report:
    engine = document["engine"]
    on = [one for at, one in enumerate(plan.applied) if applies >> at & 1]
    passed = [rule.id for one in on for rule in one.rules]
    judged = DocumentReport(
        name="document",
        engine=engine["name"],
        version=engine["version"],
        outcome=_outcome([], passed),
        passed=tuple(passed),
        not_applicable=tuple(one.policy.name for one in plan.applied if one not in on),
    )
    report = plan.clean[applies] = Report(documents=(judged,))
    return report


def _rule_set(policy: Policy, rules: tuple[Rule, ...]) -> cel.RuleSet:
    return cel.RuleSet(
        roots={"config": config_type()},
        variables=[(variable.name, variable.expression.node) for variable in policy.variables],
        conditions=[condition.expression.node for condition in policy.conditions],
        rules=[rule.expression.node for rule in rules],
    )


def _unknown(pointer: str) -> cel.Unknown:
    return cel.Unknown(frozenset([pointer]))


def _engine(value: object) -> tuple[str | None, str | None]:
    engine = value.get("engine") if isinstance(value, dict) else None
    if not isinstance(engine, dict):
        return None, None
    unknown = value.get("unknown") if isinstance(value, dict) else None
    hidden = unknown if isinstance(unknown, list) else []
    found = []
    for key in ("name", "version"):
        item = engine.get(key)
        stated = isinstance(item, str) and not {"/engine", f"/engine/{key}"} & set(map(str, hidden))
        found.append(item if stated else None)
    return found[0], found[1]


def _with_version(config: dict[str, Any], version: str) -> dict[str, Any]:
    return {**config, "engine": {**config["engine"], "version": version}}


def _counts(finding: Finding) -> bool:
    """Whether a finding keeps the document from being approved."""
    return finding.outcome == "error" or (finding.severity == "error" and finding.outcome != "waived")


def _outcome(findings: Iterable[Finding], passed: Sequence[str]) -> Outcome:
    counted = {finding.outcome for finding in findings if _counts(finding)}
    if "error" in counted:
        return "error"
    if "indeterminate" in counted:
        return "indeterminate" if "failed" not in counted else "rejected"
    if "failed" in counted:
        return "rejected"
    return "approved" if passed or any(True for _ in findings) else "not applicable"


def _placed(document: Document, problem: Problem) -> Problem:
    """A problem known by its pointer only, at the place that the document knows for it."""
    pointer = problem.location.pointer if problem.location else None
    place = document.place(pointer) if pointer is not None else None
    return replace(problem, location=place) if place else problem


def _condition_finding(document: Document, policy: Policy, at: int, value: object) -> Finding:
    condition = policy.conditions[at]
    finding = Finding(
        rule=condition.name,
        policy=policy.name,
        severity="error",
        outcome="error",
        message="",
        policy_location=condition.expression.location,
    )
    return _explain(document, finding, value, f"whether `{policy.name}` applies")


def _finding(
    document: Document, policy: Policy, rule: Rule, value: object, config: dict[str, Any]
) -> Finding:
    finding = Finding(
        rule=rule.id,
        policy=policy.name,
        severity=rule.severity,
        outcome="failed",
        message=rule.message,
        path=rule.path,
        location=document.place(rule.path) if rule.path else None,
        origin=document.origin(rule.path) if rule.path else None,
        policy_location=rule.expression.location,
        reason=rule.reason,
        fix=rule.fix,
    )
    if value is False:
        return replace(finding, message=_message(policy, rule, config))
    return _explain(document, finding, value, f"rule `{rule.id}`")


def _explain(document: Document, finding: Finding, value: object, what: str) -> Finding:
    """A finding for what could not be decided: unknown facts, or an expression that failed."""
    if isinstance(value, cel.Unknown):
        unknown = tuple(sorted(value.pointers))
        facts = ", ".join(f"`{pointer}`{_reason(document, pointer)}" for pointer in unknown)
        verb = "is" if len(unknown) == 1 else "are"
        where = next((place for pointer in unknown if (place := document.place(pointer))), finding.location)
        return replace(
            finding,
            outcome="indeterminate",
            message=f"cannot decide {what}: {facts} {verb} unknown",
            unknown=unknown,
            location=where,
        )
    message = value.message if isinstance(value, cel.Error) else "the result is not true or false"
    return replace(finding, outcome="error", message=f"cannot evaluate {what}: {message}")


def _reason(document: Document, pointer: str) -> str:
    """Why a fact that should follow from others does not."""
    why = document.origin(pointer)
    if why is None or not why.startswith("derived: "):
        return ""
    return f" ({why.removeprefix('derived: ').removeprefix('unknown: ')})"


def _message(policy: Policy, rule: Rule, config: dict[str, Any]) -> str:
    """The rule's message; ``messageExpression`` where it gives one line of text, as Kubernetes has it."""
    if rule.message_expression is None:
        return rule.message
    variables = [(variable.name, variable.expression.node) for variable in policy.variables]
    text = cel.evaluate_with(rule.message_expression.node, {"config": config}, variables)
    usable = isinstance(text, str) and text.strip() and "\n" not in text and len(text) <= 5000
    return text if usable else rule.message


def _merge(
    document: Document,
    engine: str,
    releases: Sequence[str],
    judged: Sequence[DocumentReport],
    order: Mapping[tuple[str, str], int],
) -> DocumentReport:
    """One verdict from those for each known release: theirs if they agree, else indeterminate."""
    outcomes = [one.outcome for one in judged]
    holds: dict[tuple[str, str, str, str], list[str]] = {}
    findings: dict[tuple[str, str, str, str], Finding] = {}
    for release, one in zip(releases, judged, strict=True):
        for finding in one.findings:
            key = (finding.policy, finding.rule, finding.outcome, finding.message)
            holds.setdefault(key, []).append(release)
            findings[key] = finding
    merged = [
        replace(finding, releases=tuple(holds[key]) if len(holds[key]) < len(releases) else ())
        for key, finding in sorted(findings.items(), key=lambda item: order[item[1].policy, item[1].rule])
    ]
    agreed = len(set(outcomes)) == 1
    if not agreed:
        by_outcome: dict[str, list[str]] = {}
        for release, outcome in zip(releases, outcomes, strict=True):
            by_outcome.setdefault(outcome, []).append(release)
        says = "; ".join(f"{outcome} for {', '.join(names)}" for outcome, names in by_outcome.items())
        merged.insert(
            0,
            Finding(
                rule="engine-version",
                policy="",
                severity="error",
                outcome="indeterminate",
                message=f"the release of {engine} is unknown and the verdict depends on it: {says}",
                path="/engine/version",
                location=document.place("/engine/version"),
                unknown=("/engine/version",),
            ),
        )
    return replace(
        judged[-1],
        version=None,
        outcome=outcomes[-1] if agreed else "indeterminate",
        findings=tuple(merged),
        passed=tuple(id for id in judged[-1].passed if all(id in one.passed for one in judged)),
        not_applicable=tuple(
            n for n in judged[-1].not_applicable if all(n in one.not_applicable for one in judged)
        ),
    )
