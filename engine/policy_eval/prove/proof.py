"""Soundness and necessity of policies, over their whole lattice.

Sound: every configuration with masks that no rule rejects gives consistent rollouts. Necessary: each rule has a
configuration that only it rejects, and the run of that one shows damage; and it rejects nothing that is fine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

from policy_eval import cel
from policy_eval.policy import Policy, Rule, facts_read
from policy_eval.prove.evidence import Evidence, gather
from policy_eval.prove.facts import ENGINE, MODELLED, MODELLED_IF_READ, behaviour
from policy_eval.prove.lattice import LIMIT, Lattice, lattice
from policy_eval.prove.minimal import cost, minimal
from policy_eval.prove.verdicts import Verdict, Verdicts, covers
from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.schema import complete

Status = Literal["proved", "no damage", "too strict", "redundant", "fails", "not modelled", "advice"]
Outcome = Literal["proved", "not proved", "not modelled"]

SEEDS = 8

# Statuses that keep a policy from being proved.
BAD = ("no damage", "too strict", "redundant", "fails")

_evidence = lru_cache(maxsize=512)(gather)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration of the lattice: what its engine does (None: returns no masks) and what the policies say."""

    document: dict[str, Any]
    behaviour: Behaviour | None
    verdict: Verdict

    @property
    def passes(self) -> bool:
        """Whether nothing keeps it from being used."""
        return not self.verdict.failed and not self.verdict.undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A configuration, as short as it can be written, and the evidence of its behaviour (None: not run)."""

    document: dict[str, Any]
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleProof:
    """What became of one rule: a status, a sentence, and the configurations that show it.

    ``damage``: configurations that only this rule rejects, one for each behaviour, worst first.
    ``needless``: one that it rejects though nothing is wrong with it, or that it cannot evaluate.
    """

    rule: Rule
    policy: str
    status: Status
    sentence: str
    damage: tuple[Witness, ...] = ()
    needless: Witness | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Everything that was tried. ``approved``: the behaviours let through; those not consistent are counterexamples.

    ``requested``: configurations of the lattice that ask for masks; ``passed``: how many are let through.
    ``untried``: behaviours let through that were not run, because there were counterexamples enough.
    ``troubles``: what keeps the policies from being proved apart from rules and counterexamples.
    """

    policies: tuple[str, ...]
    releases: tuple[str, ...]
    lattice: Lattice
    requested: int
    passed: int
    approved: tuple[Witness, ...]
    untried: int
    rules: tuple[RuleProof, ...]
    troubles: tuple[str, ...]

    @property
    def counterexamples(self) -> tuple[Witness, ...]:
        """Approved configurations whose rollouts are not consistent."""
        return tuple(one for one in self.approved if one.evidence and not one.evidence.consistent)

    @property
    def outcome(self) -> Outcome:
        """proved: sound, and every rule that the miniature models is necessary."""
        if all(one.status in ("not modelled", "advice") for one in self.rules):
            return "not modelled"
        bad = self.counterexamples or self.troubles or any(one.status in BAD for one in self.rules)
        return "not proved" if bad else "proved"

    @property
    def exit_code(self) -> int:
        """0 proved, 1 not proved, 2 nothing that the miniature models."""
        return {"proved": 0, "not proved": 1, "not modelled": 2}[self.outcome]


def prove(
    policies: Sequence[Policy],
    releases: Mapping[str, Sequence[str]],
    *,
    seeds: int = SEEDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Proof:
    """Try everything. ``progress`` is told how many of how many runs are done.

    Policies for engines that the miniature does not model have rules that are not modelled.
    """
    judged = [one for one in policies if one.engine == ENGINE]
    covered = [
        one for one in releases.get(ENGINE, ()) if any(covers(policy.versions, one) for policy in judged)
    ]
    # Of configurations that are equally plain the one for the newest release comes first.
    space = lattice(judged, ENGINE, covered[::-1]) if covered else Lattice(documents=(), total=0, axes={})
    verdicts = Verdicts(judged)
    cells = [
        Cell(document=one, behaviour=_behaviour(one), verdict=verdicts.of(one)) for one in space.documents
    ]
    modelled = any(_reads(policy, rule) & _KNOWN for policy in judged for rule in policy.rules)
    passing = [one for one in cells if one.behaviour and one.passes] if modelled else []
    through = _simplest(passing)
    kept = {
        rule.id: _alone(cells, rule)
        for policy in judged
        for rule in policy.rules
        if _is_modelled(policy, rule)
    }
    jobs = dict.fromkeys([*through, *(one for some in kept.values() for one in some)])
    found: dict[Behaviour, Evidence] = {}
    refuted = 0
    for at, one in enumerate(jobs):
        progress(at, len(jobs))
        if one not in through:
            found[one] = _evidence(one, seeds=max(2, seeds // 2), judged_seeds=1)
        elif refuted < _ENOUGH:
            found[one] = _evidence(one, seeds=seeds, judged_seeds=seeds)
            refuted += not found[one].consistent
    progress(1, 1)
    tried = {one: cell for one, cell in through.items() if one in found}
    rules = tuple(
        _rule(policy, rule, cells, kept.get(rule.id), found) for policy in policies for rule in policy.rules
    )
    return Proof(
        policies=tuple(one.name for one in policies),
        releases=tuple(covered),
        lattice=space,
        requested=sum(1 for one in cells if one.behaviour),
        passed=len(passing),
        approved=tuple(
            Witness(document=minimal(cell.document), evidence=found[one]) for one, cell in tried.items()
        ),
        untried=len(through) - len(tried),
        rules=rules,
        troubles=tuple(_troubles(judged, cells, modelled, passing)),
    )


# Counterexamples after which no more behaviours that are let through are run.
_ENOUGH = 5
# Behaviours that are run for a rule: the plainest of those that only it keeps out.
_WITNESSES = 12
_KNOWN = frozenset((*MODELLED, *MODELLED_IF_READ)) - {"/model_config", "/model_config/return_sampling_mask"}
_PARTS = ("engine", *dict.fromkeys(pointer.split("/")[1] for pointer in (*MODELLED, *MODELLED_IF_READ)))
_SPEAKS_OF = frozenset((*MODELLED, *MODELLED_IF_READ, "/engine/version", "/engine/name", "/engine"))


def _behaviour(document: dict[str, Any]) -> Behaviour | None:
    # Cells differ mostly in facts that the miniature does not read.
    return _behaviour_of(json.dumps({name: document[name] for name in _PARTS if name in document}))


@lru_cache(maxsize=LIMIT)
def _behaviour_of(text: str) -> Behaviour | None:
    return behaviour(complete(json.loads(text), lambda pointer: cel.Unknown(frozenset([pointer]))))


def _reads(policy: Policy, rule: Rule) -> set[str]:
    """The facts that decide whether a rule rejects, those of the policy's conditions left out."""
    return set(facts_read(rule.expression.node, policy.variables))


def _is_modelled(policy: Policy, rule: Rule) -> bool:
    """Whether the miniature can say something about a rule: one that reads nothing rejects all or nothing."""
    read = _reads(policy, rule)
    return bool(read & _KNOWN) or read <= _SPEAKS_OF


def _alone(cells: Sequence[Cell], rule: Rule) -> dict[Behaviour, Cell]:
    """The plainest configurations with masks that only this rule keeps out."""
    some = [one for one in cells if one.verdict.failed == (rule.id,) and not one.verdict.undecided]
    return dict(islice(_simplest(some).items(), _WITNESSES))


def _simplest(cells: Sequence[Cell]) -> dict[Behaviour, Cell]:
    """For each behaviour the plainest configuration that has it, plainest behaviour first."""
    found: dict[Behaviour, Cell] = {}
    for one in sorted(cells, key=lambda cell: cost(cell.document)):
        if one.behaviour:
            found.setdefault(one.behaviour, one)
    return found


def _troubles(
    policies: Sequence[Policy], cells: Sequence[Cell], modelled: bool, passing: Sequence[Cell]
) -> list[str]:
    if not modelled:
        return []
    troubles = []
    rules = {rule.id for policy in policies for rule in policy.rules}
    for one in cells:
        for name, why in one.verdict.undecided:
            if name not in rules:
                troubles.append(f"match condition `{name}` cannot be evaluated: {why}")
    if not passing:
        troubles.append("no configuration with masks is let through, so there is nothing to prove")
    return list(dict.fromkeys(troubles))


def _rule(
    policy: Policy,
    rule: Rule,
    cells: Sequence[Cell],
    kept: Mapping[Behaviour, Cell] | None,
    found: Mapping[Behaviour, Evidence],
) -> RuleProof:
    """The status of a rule. ``kept``: the configurations that only it keeps out; None: not modelled."""

    def result(status: Status, sentence: str, **more: Any) -> RuleProof:
        return RuleProof(rule=rule, policy=policy.name, status=status, sentence=sentence, **more)

    if rule.severity != "error":
        return result("advice", f"of severity {rule.severity}: it rejects nothing")
    if kept is None:
        return result("not modelled", "it reads no fact that the engine in miniature models")
    conditions = {
        fact for one in policy.conditions for fact in facts_read(one.expression.node, policy.variables)
    }
    everything = _reads(policy, rule) | conditions <= _SPEAKS_OF
    if everything:
        fails = [(one, why) for one in cells for name, why in one.verdict.undecided if name == rule.id]
        if fails:
            cell, why = min(fails, key=lambda item: cost(item[0].document))
            sentence = f"it cannot be evaluated: {why}"
            return result("fails", sentence, needless=Witness(document=minimal(cell.document), evidence=None))
    witnesses = [
        Witness(document=minimal(cell.document), evidence=found[one])
        for one, cell in kept.items()
        if one in found
    ]
    damage = tuple(one for one in witnesses if one.evidence and not one.evidence.consistent)
    needless = _needless(rule, cells, found) if everything else None
    if needless is not None:
        evidence = found[needless.behaviour] if needless.behaviour else None
        what = "masks that are consistent" if needless.behaviour else "no masks at all"
        return result(
            "too strict",
            f"it rejects a configuration with {what}",
            damage=damage,
            needless=Witness(document=minimal(needless.document), evidence=evidence),
        )
    if not witnesses:
        return result("redundant", "there is no configuration that only this rule rejects")
    if not damage:
        return result("no damage", "what only this rule rejects is consistent", needless=witnesses[0])
    rest = "" if everything else "; it also reads facts that the engine in miniature does not model"
    return result("proved", f"{summary(damage[0].evidence)}{rest}", damage=damage)


def _needless(rule: Rule, cells: Sequence[Cell], found: Mapping[Behaviour, Evidence]) -> Cell | None:
    """The plainest configuration that a rule rejects though nothing is wrong with it."""
    fine = {one for one, evidence in found.items() if evidence.consistent}
    wrong = [
        one
        for one in cells
        if rule.id in one.verdict.failed and (one.behaviour is None or one.behaviour in fine)
    ]
    return min(wrong, key=lambda cell: cost(cell.document), default=None)


def summary(evidence: Evidence | None) -> str:
    """The damage in one line, the worst first."""
    if evidence is None:
        return ""
    if evidence.refused:
        return f"{evidence.refused} of {evidence.refused + evidence.served} requests refused"
    parts = []
    counted = evidence.counted
    for count, words in (
        (evidence.missing, "rows missing"),
        (evidence.misaligned, "rows misaligned"),
        (evidence.outside, "tokens outside their mask"),
    ):
        if count:
            parts.append(f"{count} of {counted} {words}")
    if evidence.sum_off > 1e-4:
        parts.append(f"|sum p - 1| up to {evidence.sum_off:.3g}")
    parts.append(f"importance ratio {evidence.ratio_mean:.3g} ± {evidence.ratio_spread:.2g}")
    if evidence.kl > 1e-4 or evidence.kl_infinite:
        infinite = f", infinite for {evidence.kl_infinite}" if evidence.kl_infinite else ""
        parts.append(f"KL {evidence.kl:.3g} nats{infinite}")
    return "; ".join(parts)
