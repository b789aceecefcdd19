"""Judges cases of kind `schedule`: pods that belong together, in whatever order they come."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from claimsmith.api.kinds import POD, POD_GROUP
from tests.cases.casefile import CaseFile, check_fields
from tests.cases.placement import options_for
from tests.cases.seeding import Object, seed
from tests.cases.words import find_unsaid
from tests.scenarios.scheduling import Bench, bench

Objects = list[dict[str, Any]]
_GROUP: Final = "gang"


def _less_cpu(objects: Objects) -> Objects:
    (node,) = (item for item in objects if item["kind"] == "Node" and item["metadata"]["name"] == "node-b")
    node["status"]["allocatable"]["cpu"] = "3"
    return objects


CHANGES: Final[Mapping[str, Callable[[Objects], Objects]]] = {"node-b cpu 3 as well": _less_cpu}
"""What the text of a variant does to the objects."""


def find_missing(case: CaseFile) -> list[str]:
    """Return the variants that nothing is known of."""
    texts = (variant["change"] for variant in case.content.get("variants") or ())
    return [f"variant {text!r}" for text in texts if text not in CHANGES]


async def judge_gang(case: CaseFile) -> list[str]:
    """Return what differs, for the case and its variants, with the pods in either order.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("gang", "variants")
    check_fields(case.content["gang"], "minCount", "pods")
    objects: Objects = [dict(manifest.object) for manifest in case.manifests()]
    variants = [("", objects, case.content["expect"])]
    for variant in case.content.get("variants") or ():
        text = variant["change"]
        variants.append((f"variant {text!r}: ", CHANGES[text](copy.deepcopy(objects)), variant["expect"]))
    differences = []
    for name, changed, expected in variants:
        for order in ("in order", "reversed"):
            found = await _judge_order(
                changed, _build_group(case.content["gang"]), expected, backwards=order == "reversed"
            )
            differences += [f"{name}{order}: {text}" for text in found]
    return differences


async def _judge_order(
    objects: Objects, group: Mapping[str, Any], expected: Mapping[str, Any], *, backwards: bool
) -> list[str]:
    check_fields(expected, "bound", "claim", "pending-because")
    seeded: list[Object] = [*objects]
    async with bench(options=options_for(seeded)) as cluster:
        waiting = [_join(pod) for pod in await seed(cluster.client, seeded)]
        await cluster.client.create(POD_GROUP, group, namespace="default")
        for pod in reversed(waiting) if backwards else waiting:
            await cluster.client.create(POD, pod, namespace="default")
        names = [pod["metadata"]["name"] for pod in waiting]
        await cluster.until(lambda: all(cluster.node_of(name) or _told(cluster, name) for name in names))
        return list(_compare(cluster, names, expected))


def _build_group(gang: Mapping[str, Any]) -> dict[str, Any]:
    policy = {"gang": {"minCount": gang["minCount"]}}
    return {"metadata": {"name": _GROUP, "namespace": "default"}, "spec": {"schedulingPolicy": policy}}


def _join(pod: Object) -> dict[str, Any]:
    """Return a pod as a member of the group."""
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": _GROUP}}}


def _told(cluster: Bench, pod: str) -> list[str]:
    """Return why a pod could not be scheduled."""
    events = (event for event in cluster.events if event["involvedObject"].get("name") == pod)
    return [event["message"] for event in events if event["reason"] == "FailedScheduling"]


def _compare(cluster: Bench, pods: list[str], expected: Mapping[str, Any]) -> Iterator[str]:
    bound = {name: cluster.node_of(name) for name in pods if cluster.node_of(name)}
    told = [text for name in pods for text in _told(cluster, name)]
    if bound != expected["bound"]:
        yield f"bound {bound}, right is {expected['bound']}; {told}"
    for phrase in find_unsaid(expected.get("pending-because") or (), told):
        yield f"no message says {phrase!r}: {told}"
    for claim, wanted in (expected.get("claim") or {}).items():
        check_fields(wanted, "devices", "reserved-for")
        name = claim.partition("/")[2]
        found = {"devices": cluster.devices(name), "reserved-for": sorted(cluster.users(name))}
        if found != wanted:
            yield f"claim {claim} has {found}, right is {wanted}"
