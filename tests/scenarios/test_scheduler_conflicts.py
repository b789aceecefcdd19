"""What happens when writes fail, answers get lost, and others write the same objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM, Kind
from claimsmith.api.resource import encode_allocation_result
from claimsmith.errors import UnreachableError
from claimsmith.kube.client import KubeClient, KubeObject, PatchType
from claimsmith.kube.direct import DirectTransport
from claimsmith.model.claim import FINALIZER, AllocationResult, DeviceResult
from claimsmith.model.names import PodRef
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tests.scenarios.scheduling import DRIVER, Bench, api_server, bench

Fault = Callable[[KubeClient, str, str], Awaitable[None]]
"""Gets a client without faults, the subject of a write, and the name of the object."""


class FaultyClient(KubeClient):
    """Calls faults around writes of the scheduler: `claim spec`, `claim status`, `pod status` and `bind`."""

    def __init__(self, url: str, *, before: Fault | None = None, after: Fault | None = None) -> None:
        super().__init__(DirectTransport(url))
        self._before, self._after = before, after

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> KubeObject:
        subject = f"{'claim' if kind is RESOURCE_CLAIM else kind.singular} {subresource or 'spec'}"
        await self._fault(self._before, subject, name)
        answer = await super().patch(
            kind, name, patch, namespace=namespace, patch_type=patch_type, subresource=subresource
        )
        await self._fault(self._after, subject, name)
        return answer

    async def bind(self, pod: PodRef, node: str, *, uid: str = "") -> None:
        await self._fault(self._before, "bind", pod.name)
        await super().bind(pod, node, uid=uid)
        await self._fault(self._after, "bind", pod.name)

    async def _fault(self, fault: Fault | None, subject: str, name: str) -> None:
        if fault is not None:
            await fault(self.for_manager("somebody"), subject, name)


class Once:
    """Does something at the first write of a subject, and counts the writes of each subject."""

    def __init__(self, subject: str, action: Callable[[KubeClient, str], Awaitable[None]]) -> None:
        self.subject, self.action = subject, action
        self.counts: Counter[str] = Counter()

    async def __call__(self, client: KubeClient, subject: str, name: str) -> None:
        self.counts[subject] += 1
        if subject == self.subject and self.counts[subject] == 1:
            await self.action(client, name)


async def lose(client: KubeClient, name: str) -> None:
    raise UnreachableError(f"the connection broke at {name}")


async def delete_pod(client: KubeClient, name: str) -> None:
    await client.delete(POD, name, namespace="default", grace_period_s=0)


async def delete_claim(client: KubeClient, name: str) -> None:
    await client.delete(RESOURCE_CLAIM, name, namespace="default")


async def label_claim(client: KubeClient, name: str) -> None:
    await client.patch(RESOURCE_CLAIM, name, {"metadata": {"labels": {"mine": "yes"}}}, namespace="default")


async def take_claim(client: KubeClient, name: str) -> None:
    """Allocate the claim on another node, as a second allocator would."""
    device = DeviceResult(request="r", driver=DRIVER, pool="node-b", device="gpu-0")
    there = NodeSelectorRequirement(key="metadata.name", operator="In", values=("node-b",))
    selector = NodeSelector(terms=(NodeSelectorTerm(match_fields=(there,)),))
    allocation = AllocationResult(results=(device,), node_selector=selector)
    patch = {"status": {"allocation": encode_allocation_result(allocation)}}
    await client.patch(RESOURCE_CLAIM, name, patch, namespace="default", subresource="status")


def faulty(fault: Fault, *, after: bool = False) -> Callable[[str], KubeClient]:
    def make(url: str) -> KubeClient:
        return FaultyClient(url, after=fault) if after else FaultyClient(url, before=fault)

    return make


async def one_gpu(cluster: Bench) -> None:
    await cluster.add_class()
    await cluster.add_node("node-a", "gpu-0")
    await cluster.add_claim("c")


async def test_a_pod_is_bound_although_the_answer_to_its_binding_was_lost() -> None:
    fault = Once("bind", lose)
    async with bench(client=faulty(fault, after=True)) as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: bool(cluster.messages("Scheduled")))

    assert fault.counts["bind"] == 1
    assert cluster.users("c") == ["p"]


async def test_a_binding_that_never_reached_the_server_is_tried_again_on_the_same_devices() -> None:
    fault = Once("bind", lose)
    async with bench(client=faulty(fault)) as cluster:
        await one_gpu(cluster)
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: bool(cluster.devices("c")))
        first = cluster.devices("c")
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert (cluster.devices("c"), cluster.users("c")) == (first, ["p"])
    assert fault.counts["claim status"] == 1


async def test_an_allocation_whose_answer_was_lost_is_found_and_used() -> None:
    fault = Once("claim status", lose)
    async with bench(client=faulty(fault, after=True)) as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert cluster.users("c") == ["p"]
    assert fault.counts["claim status"] == 1


async def test_a_pod_deleted_before_its_binding_leaves_no_reservation() -> None:
    fault = Once("bind", delete_pod)
    async with bench(client=faulty(fault)) as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: fault.counts["bind"] > 0 and not cluster.users("c"))
        await cluster.add_pod("q", "c")
        await cluster.until(lambda: bool(cluster.node_of("q")))

    assert cluster.users("c") == ["q"]


async def test_a_label_set_between_two_writes_is_kept() -> None:
    async with bench(client=faulty(Once("claim status", label_claim))) as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: bool(cluster.node_of("p")))

    found = cluster.claim("c")
    assert found is not None
    assert found.metadata.labels == {"mine": "yes"}


async def test_a_claim_that_another_allocator_took_first_is_followed() -> None:
    async with bench(client=faulty(Once("claim status", take_claim))) as cluster:
        await one_gpu(cluster)
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: cluster.node_of("p") == "node-b")

    assert cluster.devices("c") == ["gpu.example.test/node-b/gpu-0"]
    assert cluster.users("c") == ["p"]


async def test_a_claim_deleted_between_decision_and_write_frees_its_devices() -> None:
    async with bench(client=faulty(Once("claim spec", delete_claim))) as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: cluster.claim("c") is None and bool(cluster.messages()))
        await cluster.add_claim("d")
        await cluster.add_pod("q", "d")
        await cluster.until(lambda: bool(cluster.node_of("q")))

    assert cluster.devices("d") == ["gpu.example.test/node-a/gpu-0"]


async def test_a_new_scheduler_goes_on_where_the_old_one_stopped() -> None:
    fault = Once("bind", lose)
    async with api_server() as url:
        async with bench(client=faulty(fault), url=url) as first:
            await one_gpu(first)
            await first.add_pod("p", "c")
            await first.until(lambda: bool(first.users("c")))
        async with bench(url=url) as second:
            await second.until(lambda: bool(second.node_of("p")))

    assert second.users("c") == ["p"]


async def test_a_failed_extended_resource_pod_leaves_no_claim_behind() -> None:
    fault = Once("bind", delete_pod)
    async with bench(client=faulty(fault)) as cluster:
        await cluster.add_class("gpus", extendedResourceName="vendor.example/gpu")
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: fault.counts["bind"] > 0 and not len(cluster.claims))
        await cluster.add_pod("q", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: bool(cluster.node_of("q")))

    assert len(cluster.claims) == 1


async def test_many_pods_that_share_a_claim_cost_one_status_write_each() -> None:
    writes, names = Once("", lose), [f"p{number:02}" for number in range(40)]
    async with bench(client=faulty(writes)) as cluster:
        await one_gpu(cluster)
        for name in names:
            await cluster.add_pod(name, "c")
        await cluster.until(lambda: all(cluster.node_of(name) for name in names))

    assert sorted(cluster.users("c")) == names
    assert writes.counts["claim status"] == 40


async def test_a_claim_that_ties_a_pod_to_a_full_node_is_freed_and_allocated_elsewhere() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_claim("c")
        await take_claim(cluster.client, "c")
        finalizer = {"metadata": {"finalizers": [FINALIZER]}}
        await cluster.client.patch(RESOURCE_CLAIM, "c", finalizer, namespace="default")
        await cluster.client.patch(NODE, "node-b", {"spec": {"unschedulable": True}})
        await cluster.add_pod("p", "c")
        await cluster.until(lambda: cluster.node_of("p") == "node-a")

    assert cluster.devices("c") == ["gpu.example.test/node-a/gpu-0"]
    assert cluster.users("c") == ["p"]


async def test_a_claim_that_another_pod_uses_is_not_freed_for_a_pod_that_does_not_fit() -> None:
    async with bench() as cluster:
        await one_gpu(cluster)
        await cluster.add_pod("user", "c")
        await cluster.until(lambda: bool(cluster.node_of("user")))
        await cluster.client.patch(NODE, "node-a", {"spec": {"unschedulable": True}})
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_pod("late", "c")
        await cluster.until(lambda: bool(cluster.messages()))

    assert (cluster.devices("c"), cluster.users("c")) == (["gpu.example.test/node-a/gpu-0"], ["user"])
    assert "claim default/c is allocated for other nodes" in cluster.messages()[0]
