"""Dynamo: DynamoGraphDeployment, whose services each run a worker around an engine."""

from __future__ import annotations

from policy_eval.normalize.item import Item
from policy_eval.normalize.readers.pods import Cluster, container_engines
from policy_eval.normalize.readers.shape import Found, Input


def graph_deployment(
    item: Item, name: str, cluster: Cluster, source: Input, objects: list[tuple[str, Item]]
) -> list[Found]:
    """The engines of each service's main container; the graph's own variables come before the container's."""
    services = list(item.pairs("spec", "services")) or [("", item.get("spec") or item)]
    found: list[Found] = []
    for service_name, service in services:
        container = service.get("extraPodSpec", "mainContainer")
        if container is None:
            continue
        outer = [envs for envs in (item.get("spec", "envs"), service.get("envs")) if envs is not None]
        label = f"{name} service {service_name}".rstrip()
        found += container_engines(container, label, cluster, source, {}, outer=outer)
    return found
