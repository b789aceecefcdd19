"""Many pods on few devices, and a server that goes away: nothing is held twice, nothing is left over."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from contextlib import AsyncExitStack, suppress
from typing import Any

from claimsmith.api.kinds import POD
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.store import Store
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.workload import Pod
from tests.scenarios.scheduling import Bench, bench


class Holders:
    """Follows who holds which device, and keeps every moment in which two claims hold one."""

    def __init__(self, cluster: Bench) -> None:
        self.held: dict[str, set[str]] = {}
        self.most = 0
        self.doubles: list[str] = []
        cluster.claims.subscribe(self)

    def __call__(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        assert claim is not None
        allocation = new.allocation if new else None
        self.held[claim.uid] = {str(item.device_id) for item in allocation.results} if allocation else set()
        counts = Counter(device for devices in self.held.values() for device in devices)
        self.most = max(self.most, len(counts))
        self.doubles += [device for device, count in counts.items() if count > 1]


class ShortLives:
    """Ends every pod as soon as it has a node."""

    def __init__(self, cluster: Bench) -> None:
        self.cluster, self.ended = cluster, set[str]()
        self.tasks: list[asyncio.Task[None]] = []
        cluster.pods.subscribe(self)

    def __call__(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.node_name and new.metadata.name not in self.ended:
            self.ended.add(new.metadata.name)
            self.tasks.append(asyncio.create_task(self.cluster.end_pod(new.metadata.name)))


async def small_cluster(cluster: Bench) -> None:
    await cluster.add_class()
    await cluster.add_template()
    for name in ("node-a", "node-b"):
        await cluster.add_node(name, "gpu-0", "gpu-1")


def leftovers(cluster: Bench) -> dict[str, Any]:
    scheduler = cluster.scheduler
    return {
        "claims": [str(claim.ref) for claim in cluster.claims],
        "queued": len(scheduler.queue),
        "counted": [str(claim.ref) for claim in scheduler.cache.claims],
        "decisions": [pod.ref for pod in scheduler.cache.pods.values() if scheduler.cache.find_reservation(pod)],
    }


async def test_more_pods_than_devices_all_run_and_nothing_is_held_twice_or_left() -> None:
    names = [f"p{number:02}" for number in range(40)]
    async with bench() as cluster:
        await small_cluster(cluster)
        holders, lives = Holders(cluster), ShortLives(cluster)
        for name in names:
            await cluster.add_pod(name, template="gpu")
        await cluster.until(lambda: len(lives.ended) == len(names), within_s=60)
        await cluster.until(lambda: not len(cluster.claims) and not len(cluster.scheduler.queue))
        await asyncio.gather(*lives.tasks)
        left = leftovers(cluster)

    assert (holders.doubles, 1 <= holders.most <= 4) == ([], True)
    assert left == {"claims": [], "queued": 0, "counted": [], "decisions": []}


async def test_pods_deleted_at_any_moment_leave_nothing() -> None:
    names = [f"p{number:02}" for number in range(24)]
    async with bench() as cluster:
        await small_cluster(cluster)
        holders = Holders(cluster)
        for name in names:
            await cluster.add_pod(name, template="gpu")
        for name in names:
            await cluster.client.delete(POD, name, namespace="default", grace_period_s=0)
        await cluster.until(lambda: not len(cluster.pods) and not len(cluster.claims))
        await cluster.until(lambda: leftovers(cluster)["decisions"] == [])
        await cluster.add_pod("last", template="gpu")
        await cluster.until(lambda: bool(cluster.node_of("last")))

    assert holders.doubles == []
    assert leftovers(cluster)["queued"] == 0


def find_port() -> int:
    """Return a free port that no outgoing connection takes while nobody listens on it."""
    numbers = random.SystemRandom()
    while True:
        port = numbers.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def test_scheduling_goes_on_after_the_server_was_away() -> None:
    store = Store(stored_kinds())
    async with AsyncExitStack() as servers:
        first = await servers.enter_async_context(EmbeddedApiServer(store, port=find_port()))
        async with bench(url=first.url) as cluster:
            await small_cluster(cluster)
            await cluster.add_pod("before", template="gpu")
            await cluster.until(lambda: bool(cluster.node_of("before")))
            await servers.aclose()
            await servers.enter_async_context(EmbeddedApiServer(store, port=int(first.url.rpartition(":")[2])))
            await cluster.add_pod("after", template="gpu")
            await cluster.until(lambda: bool(cluster.node_of("after")), within_s=60)
            nodes = {cluster.node_of("before"), cluster.node_of("after")}

    assert nodes == {"node-a", "node-b"}
