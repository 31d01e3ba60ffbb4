"""Kubernetes manifests: workloads, lists, and streams of documents such as `helm template` prints."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from policy_eval.errors import NothingFound, PolicyEvalError, Problem
from policy_eval.model import Document
from policy_eval.normalize.item import Item
from policy_eval.normalize.readers import dynamo, kserve, production_stack, ray
from policy_eval.normalize.readers.pods import Cluster, at_path, cluster_of, pod_engines
from policy_eval.normalize.readers.shape import Found, Input, Shape, kinds

_OPERATORS = {
    "InferenceService": kserve.inference_service,
    "LLMInferenceService": kserve.llm_inference_service,
    "LLMInferenceServiceConfig": kserve.llm_inference_service,
    "DynamoGraphDeployment": dynamo.graph_deployment,
    "DynamoComponentDeployment": dynamo.graph_deployment,
    "VLLMRuntime": production_stack.runtime,
    "RayService": ray.ray_service,
    "RayJob": ray.ray_job,
}
"""Kinds whose operator makes the command, each with the function that knows how."""


@cache
def known_kinds() -> dict[str, Any]:
    """What ``kinds.json`` says: where each kind keeps its pods, and which kinds hold none."""
    with open(os.path.join(os.path.dirname(__file__), "kinds.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def matches(source: Input) -> bool:
    """Whether some document of the input has a kind and an apiVersion."""
    return any(item.string("kind") is not None and item.string("apiVersion") for item in source.mappings())


def read(source: Input) -> Sequence[Found | Document]:
    """The engines of every workload in the input; raises PolicyEvalError where there is none."""
    objects = list(kinds(source.items()))
    cluster = cluster_of(objects)
    found: list[Found] = []
    problems: list[Problem] = []
    pods = known_kinds()["pods"]
    used = _used(objects)
    for kind, item in objects:
        if kind not in pods:
            if kind not in known_kinds()["ignored"]:
                problems.append(_unknown_kind(kind, item))
            continue
        name = f"{kind}/{item.string('metadata', 'name') or '?'}"
        if (kind, item.string("metadata", "name")) in used:
            continue
        try:
            found += _engines(kind, item, name, cluster, source, objects)
        except PolicyEvalError as error:
            problems += error.problems
    refused = [problem for problem in problems if not problem.message.startswith("unknown kind")]
    if refused:
        raise PolicyEvalError(*refused)
    if not found:
        if problems:
            # A kind that mentions no engine is nothing to report in a folder of manifests.
            mentioned = any(engine in source.text.lower() for engine in ("vllm", "sglang"))
            raise (PolicyEvalError if mentioned else NothingFound)(*problems)
        where = objects[0][1].location() if objects else None
        shown = ", ".join(dict.fromkeys(kind for kind, _ in objects))[:200]
        raise NothingFound(
            Problem(
                message=f"no inference engine is started here: {shown}",
                location=where,
                help="a container that runs vLLM or SGLang is expected",
            )
        )
    return found


def _used(objects: list[tuple[str, Item]]) -> set[tuple[str, str | None]]:
    """Runtimes and configs that another object in the input builds on: they are read there."""
    used: set[tuple[str, str | None]] = set()
    for kind, item in objects:
        if kind == "InferenceService" and (runtime := item.string("spec", "predictor", "model", "runtime")):
            used |= {("ServingRuntime", runtime), ("ClusterServingRuntime", runtime)}
        if kind == "LLMInferenceService":
            names = [base.string("name") for base in item.items("spec", "baseRefs")]
            used |= {("LLMInferenceServiceConfig", name) for name in names}
    return used


def _engines(
    kind: str, item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    found: list[Found] = []
    if kind in _OPERATORS:
        found += _OPERATORS[kind](item, name, cluster, source, objects)
    for part, path in known_kinds()["pods"][kind].items():
        for pod, member in at_path(item, path):
            label = " ".join(word for word in (name, part, member) if word)
            found += pod_engines(pod, label, cluster, source)
    return found


def _unknown_kind(kind: str, item: Item) -> Problem:
    known = sorted(known_kinds()["pods"])
    close = difflib.get_close_matches(kind, known, 1)
    advice = f"did you mean `{close[0]}`? " if close else ""
    where = item.get("kind")
    return Problem(
        message=f"unknown kind `{kind[:80]}`",
        location=where.location() if where else None,
        help=f"{advice}kinds that are read: {', '.join(known)}",
    )


SHAPE = Shape(
    name="kubernetes",
    description="Kubernetes manifests: pods and workloads, KServe, LeaderWorkerSet, AIBrix, Ray, Dynamo, VLLMRuntime",
    matches=matches,
    read=read,
)
