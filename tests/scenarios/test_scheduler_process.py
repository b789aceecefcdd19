"""The scheduler as a process: one of several decides, another takes over; what it says of itself, and its rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from claimsmith.api.kinds import LEASE, NODE, POD, POD_GROUP, RESOURCE_CLAIM
from claimsmith.cluster.follow import follow_groups
from claimsmith.daemons.scheduler import SchedulerOptions
from claimsmith.daemons.scheduler_process import LeadingScheduler, SchedulerProcess, run_scheduler
from claimsmith.daemons.scheduler_rights import plan_scheduler_rules
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.lease import LeaseTimes
from claimsmith.telemetry import (
    SCHEDULER_BINDINGS,
    SCHEDULER_CONTESTED,
    SCHEDULER_DECISIONS,
    SCHEDULER_LEADS,
    SCHEDULER_WAITING,
)
from tests.scenarios.scheduling import DRIVER, Bench, api_server, bench, meta, pod_object
from tests.scenarios.watched_transport import WatchedTransport

SPACE = "kube-system"
FAST = LeaseTimes(duration_s=30.0, renew_deadline_s=20.0, retry_s=0.05)
"""Of those that look for the lead all the time, and keep it also on a machine that has no time for them."""
SHORT = LeaseTimes(duration_s=3.0, renew_deadline_s=2.0, retry_s=0.05)
"""Of those whose lead ends soon when they don't renew it."""
IDLE = SchedulerOptions(names=frozenset({"nobody"}))
"""Of the scheduler that belongs to the bench: it takes no pod."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A scheduler that runs beside the bench."""

    scheduler: LeadingScheduler
    way: WatchedTransport
    task: asyncio.Task[None]

    @property
    def bound(self) -> int:
        return self.way.used["create", "", "pods/binding"]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@asynccontextmanager
async def scheduling(url: str, *identities: str, times: LeaseTimes = FAST) -> AsyncIterator[list[Running]]:
    """Run equal schedulers while the context is open."""
    found, clients = [], []
    for identity in identities:
        way = WatchedTransport(url)
        clients.append(KubeClient(way))
        scheduler = LeadingScheduler(clients[-1], SchedulerProcess(namespace=SPACE, identity=identity, times=times))
        found.append(Running(scheduler=scheduler, way=way, task=asyncio.create_task(scheduler.run())))
    try:
        yield found
    finally:
        for item in found:
            await item.end()
        for client in clients:
            await client.close()


async def bind(cluster: Bench, name: str) -> None:
    """Create a pod, and return once it has a node."""
    await cluster.add_pod(name)
    await cluster.until(lambda: bool(cluster.node_of(name)))


async def test_of_two_schedulers_one_binds_and_the_other_takes_over_when_it_ends() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one", "two") as both:
        await cluster.add_node("node-a")
        await bind(cluster, "first")
        leader, other = sorted(both, key=lambda item: item.bound, reverse=True)
        before = (leader.bound, other.bound)
        await leader.end()
        await bind(cluster, "second")

        assert before == (1, 0)
        assert (leader.bound, other.bound) == (1, 1)


async def test_a_scheduler_that_loses_its_server_stops_before_another_one_begins() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one", "two", times=SHORT) as both:
        await cluster.add_node("node-a")
        await bind(cluster, "first")
        leader, other = sorted(both, key=lambda item: item.bound, reverse=True)
        leader.way.cut = True
        await bind(cluster, "second")

        assert not leader.scheduler.is_deciding
        assert other.scheduler.is_deciding


async def test_a_scheduler_that_comes_to_lead_again_goes_on_with_what_it_finds() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one") as (only,):
        await cluster.add_node("node-a", "gpu-0", "gpu-1")
        await cluster.add_class()
        for name in ("a", "b"):
            await cluster.add_claim(name)
        await cluster.add_pod("first", "a")
        await cluster.until(lambda: bool(cluster.node_of("first")))
        taken = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}
        await cluster.client.patch(LEASE, "claimsmith-scheduler", taken, namespace=SPACE)
        leases = cluster.informers.of(LEASE, _holder)
        leases.subscribe(cluster.hear)
        await cluster.until(lambda: "one" in leases)
        await cluster.add_pod("second", "b")
        await cluster.until(lambda: bool(cluster.node_of("second")))

        assert only.way.used["list", "", "pods"] >= 2
        assert cluster.devices("a") != cluster.devices("b")


def _holder(lease: KubeObject) -> str:
    return str(lease["spec"]["holderIdentity"])


async def test_it_tells_what_it_does_in_numbers() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one") as (only,):
        await cluster.add_node("node-a", pods="1")
        await bind(cluster, "first")
        await cluster.add_pod("second")
        await cluster.until(lambda: bool(cluster.messages()))
        status = only.scheduler.status()

        assert status.missing == ()
        assert status.samples[SCHEDULER_LEADS, ()] == status.samples[SCHEDULER_WAITING, ()] == 1
        assert status.samples[SCHEDULER_BINDINGS, (("result", "ok"),)] == 1
        assert status.samples[SCHEDULER_DECISIONS, (("result", "placed"),)] == 1
        assert status.samples[SCHEDULER_DECISIONS, (("result", "unplaced"),)] >= 1


async def test_one_that_waits_for_the_lead_is_ready() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one", "two") as both:
        await cluster.add_node("node-a")
        await bind(cluster, "first")
        other = min(both, key=lambda item: item.bound)
        status = other.scheduler.status()

        assert (status.missing, status.samples[SCHEDULER_LEADS, ()]) == ((), 0)


async def test_one_whose_server_is_away_is_not_ready() -> None:
    async with scheduling("http://127.0.0.1:1", "one") as (only,):
        only.way.cut = True
        await only.way.refused.wait()

        assert only.scheduler.status().missing[0].startswith("Lease kube-system/claimsmith-scheduler: can't be asked")


async def test_one_that_leads_and_may_not_read_says_what() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one") as (only,):
        only.way.forbidden = "resourceslices"
        await only.way.refused.wait()

        assert "resourceslices: not read yet (forbidden by the test)" in only.scheduler.status().missing


def told_of(cluster: Bench, reason: str) -> set[str]:
    """Return the names of the objects that have an event."""
    return {event["involvedObject"]["name"] for event in cluster.events if event.get("reason") == reason}


async def test_a_device_that_somebody_else_gave_out_too_is_told_on_both_claims() -> None:
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one") as (only,):
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_class()
        for name in ("ours", "theirs"):
            await cluster.add_claim(name)
        await cluster.add_pod("p", "ours")
        await cluster.until(lambda: bool(cluster.node_of("p")))
        ours = await cluster.client.get(RESOURCE_CLAIM, "ours", namespace="default")
        status = {"status": {"allocation": ours["status"]["allocation"]}}
        await cluster.client.patch(RESOURCE_CLAIM, "theirs", status, namespace="default", subresource="status")
        await cluster.until(lambda: told_of(cluster, "DeviceHeldTwice") == {"ours", "theirs"})
        count = only.scheduler.status().samples[SCHEDULER_CONTESTED, ()]

    text = f"device {DRIVER}/node-a/gpu-0 is held by claims default/ours and default/theirs"
    assert {message.partition(";")[0] for message in cluster.messages("DeviceHeldTwice")} == {text}
    assert count == 1


async def test_it_uses_all_rights_that_are_printed_for_it_and_no_others() -> None:
    resource = "vendor.example/gpu"
    async with bench(options=IDLE) as cluster, scheduling(cluster.url, "one") as (only,):
        await cluster.add_node("node-a", "gpu-0", "gpu-1", "gpu-2", cpu="4")
        await cluster.add_class(extendedResourceName=resource)
        await cluster.add_template()
        await cluster.add_pod("claims", template="gpu")
        await cluster.add_pod("counts", resources={"limits": {resource: "1"}, "requests": {resource: "1"}})
        group = {"metadata": meta("pair"), "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        await cluster.client.create(POD_GROUP, group)
        for name in ("pair-0", "pair-1"):
            await cluster.add_pod(name, schedulingGroup={"podGroupName": "pair"})
        await cluster.add_pod("large", resources={"requests": {"cpu": "5"}})
        names = ("claims", "counts", "pair-0", "pair-1")
        await cluster.until(lambda: all(map(cluster.node_of, names)) and bool(cluster.messages()))
        groups = follow_groups(cluster.informers)
        groups.subscribe(cluster.hear)
        await cluster.until(lambda: any(group.conditions for group in groups))
        used = {right for right in only.way.used if right[2] != "leases"}

    granted = {
        (verb, group, resource)
        for rule in plan_scheduler_rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    claims, rare = "resource.k8s.io", {("delete", "resourceclaims"), ("get", "resourceclaims"), ("patch", "events")}
    # What the server asks for itself when an allocation is written, and what only a failed write takes.
    expected = granted - {("patch", claims, "resourceclaims/binding")}
    assert used <= expected
    assert {(verb, name) for verb, _, name in expected - used} <= rare


async def test_it_binds_pods_and_leaves_no_task_behind() -> None:
    async with api_server() as url:
        client = KubeClient.for_url(url)
        process = SchedulerProcess(scheduler=SchedulerOptions(placement="pack"), namespace=SPACE, times=FAST)
        task = asyncio.create_task(run_scheduler(client.for_manager("scheduler"), process))
        for name in ("node-a", "node-b"):
            await client.create(NODE, {"metadata": {"name": name}})
        version = (await client.list(POD)).resource_version
        await client.create(POD, pod_object("p", (), "", {}))
        node = await asyncio.wait_for(first_binding(client, version), 60)
        task.cancel()
        await asyncio.wait({task})
        names = {item.get_name() for item in asyncio.all_tasks()}
        left = [name for name in names if name.startswith(("schedule", "reflector", "informers"))]
        lease = await client.get(LEASE, "claimsmith-scheduler", namespace=SPACE)
        await client.close()

    assert (node, left, task.cancelled()) == ("node-a", [], True)
    assert lease["spec"]["holderIdentity"] == ""


async def first_binding(client: KubeClient, version: str) -> str:
    async for event in client.watch(POD, resource_version=version):
        node = event.object.get("spec", {}).get("nodeName")
        if node:
            return str(node)
    raise AssertionError("the watch ended")
