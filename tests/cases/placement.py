"""Judges where pods go: scheduler and controllers on an embedded API server, nodes as objects alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claimsmith.api.kinds import POD
from claimsmith.daemons.scheduler import SCHEDULER_NAME, SchedulerOptions
from claimsmith.model.claim import AllocationResult
from tests.cases.casefile import CaseFile, check_fields
from tests.cases.seeding import Object, seed
from tests.scenarios.scheduling import Bench, bench

_DEFAULT_SCHEDULER = "default-scheduler"


def options_for(objects: list[Object]) -> SchedulerOptions:
    """Return the options of a scheduler that takes all pods of a case, whatever scheduler they name."""
    pods = [item for item in objects if item["kind"] == "Pod"]
    named = {pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER for pod in pods}
    return SchedulerOptions(names=frozenset({SCHEDULER_NAME, *named}))


async def judge_placement(case: CaseFile, pod: str, expected: Mapping[str, Any]) -> list[str]:
    """Return what differs when a scheduler places one pod of the case."""
    check_fields(expected, "scheduled-to", "claim-reserved-for")
    objects: list[Object] = [manifest.object for manifest in case.manifests()]
    name = pod.partition("/")[2]
    async with bench(options=options_for(objects)) as cluster:
        waiting = await seed(cluster.client, objects)
        await cluster.until(lambda: len(cluster.claims) == sum(item["kind"] == "ResourceClaim" for item in objects))
        before = _allocations(cluster)
        for item in waiting:
            await cluster.client.create(POD, item, namespace="default")
        await cluster.until(lambda: bool(cluster.node_of(name) or cluster.messages()))
        return [f"{pod}: {text}" for text in (*_compare(cluster, name, expected), *_rewritten(cluster, before))]


def _compare(cluster: Bench, name: str, expected: Mapping[str, Any]) -> Iterator[str]:
    node = cluster.node_of(name)
    if node != expected["scheduled-to"]:
        yield f"on {node or 'no node'}, right is {expected['scheduled-to']}; {cluster.messages()}"
    for claim, users in expected.get("claim-reserved-for", {}).items():
        found = cluster.users(claim.partition("/")[2])
        if sorted(found) != sorted(users):
            yield f"claim {claim} is reserved for {found}, right is {users}"


def _allocations(cluster: Bench) -> dict[str, AllocationResult]:
    return {claim.ref.name: claim.allocation for claim in cluster.claims if claim.allocation is not None}


def _rewritten(cluster: Bench, before: Mapping[str, AllocationResult]) -> Iterator[str]:
    """An allocation that was there before is nobody's to change."""
    after = _allocations(cluster)
    for name, allocation in before.items():
        if after.get(name) != allocation:
            yield f"claim default/{name} had {allocation}, now {after.get(name)}"
