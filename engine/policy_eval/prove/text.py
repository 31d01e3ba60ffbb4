"""A proof for people at a terminal: the verdict, what is let through, and a line for each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator

from policy_eval.prove.evidence import Evidence
from policy_eval.prove.proof import Proof, RuleProof, Witness

_COLUMNS = ("rule", "", "missing", "misaligned", "outside", "|sum p - 1|", "ratio", "KL (nats)")


def render(proof: Proof) -> str:
    """The proof as text."""
    return "\n".join(_lines(proof))


def _lines(proof: Proof) -> Iterator[str]:
    releases = f" ({proof.releases[0]} to {proof.releases[-1]})" if proof.releases else ""
    yield f"{proof.outcome}  {', '.join(proof.policies)}{releases}"
    yield ""
    yield from _soundness(proof)
    for trouble in proof.troubles:
        yield f"  {trouble}"
    shown = [one for one in proof.rules if one.damage]
    if shown:
        yield ""
        yield f"what each rule keeps out, over {_counted(shown)} tokens of usual logits"
        yield from _table([_COLUMNS, *(_row(one) for one in shown)])
    rest = [one for one in proof.rules if one.status != "proved"]
    if rest:
        yield ""
    for rule in rest:
        yield f"  {rule.rule.id}  {rule.status}: {rule.sentence}"
        if rule.needless:
            yield from _configuration(rule.needless)
    for one in proof.counterexamples:
        yield ""
        yield "counterexample: let through, and not consistent"
        yield from _configuration(one)


def _soundness(proof: Proof) -> Iterator[str]:
    space = proof.lattice
    tried = f"{len(space.documents)} configurations over {len(space.axes)} facts"
    if len(space.documents) < space.total:
        tried += f" (of {space.total} combinations; facts that are not modelled vary one at a time)"
    yield f"{tried}; {proof.requested} ask for masks, {proof.passed} of these are let through"
    judged = sum(one.evidence.judged for one in proof.approved if one.evidence)
    if judged:
        ways = f"{len(proof.approved)} {'way' if len(proof.approved) == 1 else 'ways'} of generating"
        bad = len(proof.counterexamples)
        verdict = f"{bad} not consistent" if bad else "every token consistent"
        yield f"let through: {ways}, {judged} tokens judged, {verdict}"
    if proof.untried:
        yield f"{proof.untried} more ways of generating were not run: there are counterexamples enough"


def _counted(rules: list[RuleProof]) -> int:
    return max(one.damage[0].evidence.counted for one in rules if one.damage[0].evidence)


def _row(rule: RuleProof) -> tuple[str, ...]:
    evidence = rule.damage[0].evidence
    assert evidence is not None
    return (rule.rule.id, rule.status, *_numbers(evidence))


def _numbers(evidence: Evidence) -> tuple[str, ...]:
    if evidence.refused:
        return ("requests refused", "", "", "", "", "")
    infinite = f", {evidence.kl_infinite} infinite" if evidence.kl_infinite else ""
    return (
        str(evidence.missing),
        str(evidence.misaligned),
        str(evidence.outside),
        f"{evidence.sum_off:.2g}" if evidence.sum_off > 1e-4 else "0",
        f"{evidence.ratio_mean:.3f} ± {evidence.ratio_spread:.2g}",
        f"{evidence.kl if evidence.kl > 1e-6 else 0:.3f}{infinite}",
    )


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _configuration(witness: Witness) -> Iterator[str]:
    yield f"    configuration: {json.dumps(witness.document)}"
    row = witness.evidence.broken if witness.evidence else None
    if row is not None:
        yield f"    first broken row: {row.case.shape} logits, token {row.position}: {row.message}  [{row.invariant}]"
    elif witness.evidence is not None and witness.evidence.refused:
        yield f"    {witness.evidence.refused} requests refused"
