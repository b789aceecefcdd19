"""Judges what the drivers of one node answer for a claim that has devices of several of them, over real sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from claimsmith.allocate.search.decide import allocate
from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry
from claimsmith.embedded.kubelet.plugins import ClaimCall, DraPlugins, PreparedDevice
from claimsmith.embedded.kubelet.watcher import PluginWatcher
from claimsmith.errors import NotFoundError
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.names import ClaimRef
from claimsmith.node.plugin import NodePlugin
from claimsmith.testing.conformance.shares import ShareIds
from tests.cases.casefile import check_fields
from tests.cases.paper_driver import PaperDriver
from tests.cases.problems import Query


class _OneClaim:
    """An API server that has one claim."""

    def __init__(self, claim: ResourceClaim) -> None:
        self.claim = claim

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        if ref != self.claim.ref:
            raise NotFoundError(f"claim {ref}: found none, allowed {self.claim.ref}; correct the name", status=404)
        return self.claim


async def judge_preparation(query: Query, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what differs when every driver prepares the one claim of a query for its first node."""
    (claim,), node = query.claims, query.nodes[0]
    decision = allocate(query.problem(node), share_ids=ShareIds())
    if not isinstance(decision, Allocation):
        return [f"nothing to prepare on {node.name}: {decision}"]
    pod = ConsumerReference(resource="pods", name="pod", uid="pod-uid")
    allocated = replace(claim, allocation=decision.results[0], reserved_for=(pod,))
    answers, resolved = await _prepare(query, allocated, tuple(expected))
    differences = []
    for driver, wanted in expected.items():
        check_fields(wanted, "requests", "devices")
        others = [str(result.device_id) for result in decision.results[0].results if result.driver != driver]
        found = _compare(answers[driver], wanted, resolved[driver], others)
        differences += [f"prepare, {driver}: {text}" for text in found]
    return differences


async def _prepare(
    query: Query, claim: ResourceClaim, drivers: tuple[str, ...]
) -> tuple[dict[str, tuple[PreparedDevice, ...]], dict[str, list[str]]]:
    """Return each driver's answer, and the values of the variables that a container gets for its CDI ids."""
    answers, resolved = {}, {}
    async with AsyncExitStack() as stack:
        paths = NodePaths.compact(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cs-"))))
        paths.make()
        plugins = DraPlugins()
        stack.push_async_callback(plugins.close)
        for name in drivers:
            plugin = _plugin(query, name, claim, paths)
            await stack.enter_async_context(plugin)
        await PluginWatcher(paths.plugins_registry, {DRA_PLUGIN_TYPE: plugins}).sync()
        call = ClaimCall(namespace=claim.ref.namespace, name=claim.ref.name, uid=claim.uid)
        for name in drivers:
            answers[name] = (await plugins.get_plugin(name).prepare([call]))[claim.uid]
            ids = [id for device in answers[name] for id in device.cdi_ids]
            resolved[name] = list(CdiRegistry(paths.cdi).resolve(ids).env.values())
    return answers, resolved


def _plugin(query: Query, driver: str, claim: ResourceClaim, paths: NodePaths) -> NodePlugin:
    node = query.nodes[0].name
    devices = [device for item in query.objects.slices if item.driver == driver for device in item.devices]
    return NodePlugin(
        PaperDriver(driver, devices), paths=paths, node_name=node, claims=_OneClaim(claim), boot_id="boot"
    )


def _compare(
    answer: tuple[PreparedDevice, ...], wanted: Mapping[str, Any], resolved: list[str], others: list[str]
) -> Iterator[str]:
    requests = [request for device in answer for request in device.requests]
    if requests != wanted["requests"]:
        yield f"requests {requests}, right is {wanted['requests']}"
    devices = [device.device for device in answer]
    if devices != wanted["devices"]:
        yield f"devices {devices}, right is {wanted['devices']}"
    for text in set(resolved) & set(others):
        yield f"its CDI ids give {text}, a device of another driver"
