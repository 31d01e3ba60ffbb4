"""``--check-masks``: one configuration, run on the engine in miniature after its approval."""

from __future__ import annotations

from collections.abc import Sequence

from policy_eval import cel
from policy_eval.derive import Derivation, derive
from policy_eval.errors import PolicyEvalError, Problem
from policy_eval.model import Document
from policy_eval.pack import load_pack
from policy_eval.prove.facts import ENGINE, FactsUnknownError, behaviour
from policy_eval.sampler.invariants import INVARIANTS
from policy_eval.schema import complete

SEEDS = 1


def check_masks(
    document: Document, derivations: Sequence[Derivation] | None = None, releases: Sequence[str] | None = None
) -> list[Problem]:
    """What is wrong with the masks of a configuration's rollouts, one problem an invariant; empty: consistent.

    ``document`` is valid and was approved; a document that asks for no masks has no problems. Facts that follow
    from others are derived (None: by the bundled derivations). Without a release every one of ``releases`` is tried
    (None: the bundled ones). Raises PolicyEvalError where it cannot be checked: an engine that the miniature
    does not model, a fact that is not known, or no torch.
    """
    name = document.value.get("engine", {}).get("name")
    if name != ENGINE:
        message = f"masks of `{name}` cannot be checked: the engine in miniature models {ENGINE}"
        advice = "judge a recorded rollout with `policy-eval judge`"
        raise PolicyEvalError(Problem(message=message, location=document.place("/engine/name"), help=advice))
    if derivations is None or releases is None:
        pack = load_pack()
        derivations = pack.derivations if derivations is None else derivations
        releases = pack.releases.get(ENGINE, ()) if releases is None else releases
    version = document.value["engine"].get("version")
    found: dict[str, Problem] = {}
    for release in [version] if version is not None else releases:
        for problem in _with_release(document, derivations, release):
            found.setdefault(problem.message, problem)
    return list(found.values())


def _with_release(document: Document, derivations: Sequence[Derivation], release: str) -> list[Problem]:
    derived = derive(document, derivations, release)
    if derived.errors:
        raise PolicyEvalError(*derived.errors)
    value = {**derived.value, "engine": {**derived.value["engine"], "version": release}}
    try:
        wanted = behaviour(complete(value, lambda pointer: cel.Unknown(frozenset([pointer]))))
    except FactsUnknownError as error:
        facts = ", ".join(f"`{pointer}`" for pointer in sorted(error.pointers))
        message = f"masks cannot be checked: {facts} {'is' if len(error.pointers) == 1 else 'are'} unknown"
        first = min(error.pointers)
        raise PolicyEvalError(
            Problem(message=message, location=document.place(first), help="state it: --set /POINTER=VALUE")
        ) from None
    if wanted is None:
        return []
    try:
        from policy_eval.prove.evidence import DRAWN, gather
    except ImportError:
        advice = "install it with `pip install 'policy-eval[sampler]'`"
        raise PolicyEvalError(
            Problem(message="checking masks needs torch, which is not installed", help=advice)
        ) from None
    evidence = gather(wanted, seeds=SEEDS, judged_seeds=SEEDS)
    where = document.place("/model_config/return_sampling_mask")
    problems = []
    if evidence.refused:
        message = f"every one of {evidence.refused} requests with these defaults is refused"
        advice = "requests for masks need a temperature above 0 and a top_k above 0"
        problems.append(Problem(message=message, location=document.place("/sampling_params"), help=advice))
    for invariant, count in evidence.findings.items():
        if invariant == DRAWN:
            holds, harm = (
                "tokens are drawn from the returned distribution",
                "the importance ratios are biased",
            )
        else:
            holds, harm = INVARIANTS[invariant].sentence, INVARIANTS[invariant].harm
            tokens = evidence.judged
        message = f"masks are not consistent: `{invariant}` is broken {count} times in {tokens} tokens"
        problems.append(
            Problem(message=message, location=where, help=f"must hold: {holds}; in training: {harm}")
        )
    return problems
