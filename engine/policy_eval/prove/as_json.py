"""A proof as JSON data, for machines."""

from __future__ import annotations

import json
import math
from typing import Any

from policy_eval.prove.evidence import BrokenRow, Evidence
from policy_eval.prove.proof import Proof, RuleProof, Witness


def render(proof: Proof) -> str:
    """The proof as JSON text, without the single ratios and sizes."""
    return json.dumps(to_dict(proof), indent=2, allow_nan=False)


def to_dict(proof: Proof) -> dict[str, Any]:
    """The proof as plain data; numbers that are not finite are null."""
    return {
        "schema": "policy-eval/proof/v1",
        "outcome": proof.outcome,
        "policies": list(proof.policies),
        "releases": list(proof.releases),
        "configurations": {
            "combinations": proof.lattice.total,
            "tried": len(proof.lattice.documents),
            "requesting_masks": proof.requested,
            "approved": proof.passed,
        },
        "facts": list(proof.lattice.axes),
        "approved": [_witness(one) for one in proof.approved],
        "untried": proof.untried,
        "counterexamples": [one.document for one in proof.counterexamples],
        "rules": [_rule(one) for one in proof.rules],
        "troubles": list(proof.troubles),
    }


def _rule(rule: RuleProof) -> dict[str, Any]:
    return {
        "rule": rule.rule.id,
        "policy": rule.policy,
        "status": rule.status,
        "sentence": rule.sentence,
        "damage": [_witness(one) for one in rule.damage],
        "needless": _witness(rule.needless) if rule.needless else None,
    }


def _witness(witness: Witness) -> dict[str, Any]:
    evidence = witness.evidence
    return {"configuration": witness.document, "evidence": numbers(evidence) if evidence else None}


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Evidence as numbers; see `policy_eval.prove.evidence.Evidence` for what they mean."""
    return {
        "consistent": evidence.consistent,
        "tokens": evidence.tokens,
        "requests_refused": evidence.refused,
        "judged": evidence.judged,
        "findings": dict(evidence.findings),
        "usual_logits": {
            "tokens": evidence.counted,
            "rows_missing": evidence.missing,
            "rows_misaligned": evidence.misaligned,
            "tokens_outside_mask": evidence.outside,
            "largest_sum_error": _finite(evidence.sum_off),
            "ratio_mean": _finite(evidence.ratio_mean),
            "ratio_spread": _finite(evidence.ratio_spread),
            "kl_mean": _finite(evidence.kl),
            "kl_infinite": evidence.kl_infinite,
        },
        "first_broken": _broken(evidence.broken) if evidence.broken else None,
    }


def _broken(row: BrokenRow) -> dict[str, Any]:
    return {
        "logits": row.case.shape,
        "sampling_params": dict(row.case.sampling),
        "position": row.position,
        "token": row.token,
        "invariant": row.invariant,
        "message": row.message,
        "mask": None if row.mask is None else list(row.mask),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
