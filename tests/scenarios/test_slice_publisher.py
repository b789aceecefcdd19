"""Whatever happens to a published slice, a healthy driver has its devices visible again at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from claimsmith.api.kinds import NODE, RESOURCE_SLICE, Kind
from claimsmith.errors import ConflictError, ForbiddenError, GoneError, ThrottledError, UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient, ObjectList, WatchEvent
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.publish.publisher import PublisherClient, SlicePublisher
from claimsmith.testing import builders as b
from tests.scenarios.published_node import CountingClient, api_server, list_slices, shows, wait_for

GPUS = Inventory.of(b.device("gpu-0"), b.device("gpu-1"))


@contextlib.asynccontextmanager
async def publishing(
    client: PublisherClient, inventory: Inventory = GPUS, *, driver: str = b.DRIVER, repairs: Backoff | None = None
) -> AsyncIterator[SlicePublisher]:
    fast = Backoff(initial_s=0.01, max_s=0.1)
    publisher = SlicePublisher(client, driver=driver, node=b.NODE, backoff=fast, repairs=repairs)
    task = asyncio.create_task(publisher.run())
    publisher.publish(inventory)
    try:
        yield publisher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def api() -> AsyncIterator[CountingClient]:
    async with api_server(b.NODE) as client:
        yield CountingClient(client)


async def delete_all(client: KubeClient) -> None:
    for item in await list_slices(client):
        await KubeClient.delete(client, RESOURCE_SLICE, item.name)


async def test_a_driver_s_devices_are_published_once(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()

        assert shows("gpu-0", "gpu-1")(await list_slices(api))
        assert api.writes == 1


async def test_slices_belong_to_their_node(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()

        (item,) = await list_slices(api)
        node = await api.get(NODE, b.NODE)
        assert [owner.uid for owner in item.metadata.owner_references] == [node["metadata"]["uid"]]
        assert item.name.startswith("00000-gpu.example.test-node-a-")


async def test_a_deleted_slice_comes_back_alone(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        before = api.writes
        await delete_all(api)

        async with asyncio.timeout(60):
            await wait_for(api, shows("gpu-0", "gpu-1"))
        assert api.writes - before <= 2


async def test_a_slice_that_is_deleted_again_and_again_comes_back(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        for _ in range(4):
            await delete_all(api)
            await wait_for(api, shows("gpu-0", "gpu-1"))

        assert api.writes <= 10


async def test_a_slice_deleted_after_an_update_comes_back(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        publisher.publish(Inventory.of(*GPUS.pools[0].devices, b.device("gpu-2")))
        await wait_for(api, shows("gpu-0", "gpu-1", "gpu-2"))
        await delete_all(api)

        await wait_for(api, shows("gpu-0", "gpu-1", "gpu-2"))


async def test_an_edited_slice_is_put_back(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        (item,) = await list_slices(api)
        patch = [{"op": "replace", "path": "/spec/devices/0/name", "value": "intruder"}]
        await api.patch(RESOURCE_SLICE, item.name, patch, patch_type="json")

        async with asyncio.timeout(60):
            await wait_for(api, shows("gpu-0", "gpu-1"))
        assert api.writes <= 3


async def test_labels_that_others_put_on_a_slice_stay(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        (item,) = await list_slices(api)
        await api.patch(RESOURCE_SLICE, item.name, {"metadata": {"labels": {"team": "ml"}}})
        publisher.publish(Inventory.of(b.device("gpu-9")))

        (item,) = await wait_for(api, shows("gpu-9"))
        assert item.metadata.labels == {"team": "ml"}


async def test_a_driver_that_starts_finds_its_slice_and_writes_nothing(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
    before = api.writes

    async with publishing(api) as publisher:
        await publisher.wait_published()
        assert api.writes == before


async def test_a_driver_that_was_away_publishes_again(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
    await delete_all(api)

    async with publishing(api):
        await wait_for(api, shows("gpu-0", "gpu-1"))


async def test_all_devices_gone_leaves_one_empty_slice(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        publisher.publish(Inventory())

        await wait_for(api, shows())


async def test_a_node_made_again_under_its_name_gets_slices_of_its_own(api: CountingClient) -> None:
    async with publishing(api) as publisher:
        await publisher.wait_published()
        await KubeClient.delete(api, NODE, b.NODE)
        await wait_for(api, lambda slices: not slices)
        made = await KubeClient.create(api, NODE, {"metadata": {"name": b.NODE}})

        (item,) = await wait_for(api, shows("gpu-0", "gpu-1"))
        assert item.metadata.owner_references[0].uid == made["metadata"]["uid"]


async def test_a_pool_for_all_nodes_is_published_and_put_back(api: CountingClient) -> None:
    pools = (Pool(name="fabric", devices=(b.device("link-0"),), all_nodes=True),)
    async with publishing(api, Inventory(pools=pools)) as publisher:
        await publisher.wait_published()
        await delete_all(api)

        (item,) = await wait_for(api, shows("link-0"))
        assert (item.node_name, item.all_nodes) == (None, True)


async def test_a_pool_of_many_slices_is_complete_in_one_generation(api: CountingClient) -> None:
    many = Inventory.of(*(b.device(f"gpu-{index:03d}") for index in range(300)))
    async with publishing(api) as publisher:
        await publisher.wait_published()
        publisher.publish(many)
        await publisher.wait_published()

        slices = await list_slices(api)
        assert [len(item.devices) for item in slices] == [128, 128, 44]
        assert {(item.generation, item.slice_count) for item in slices} == {(2, 3)}


class BrokenWatch(CountingClient):
    """A client whose watches end as a test wants."""

    def __init__(self, client: KubeClient, *errors: Exception) -> None:
        super().__init__(client)
        self.errors = list(errors)
        self.broken = asyncio.Event()

    async def watch(self, kind: Kind, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        if self.errors:
            error = self.errors.pop(0)
            await delete_all(self)
            self.broken.set()
            raise error
        async for event in super().watch(kind, **options):
            yield event


@pytest.mark.parametrize(
    "error", [GoneError("too old", status=410), GoneError("ERROR event", status=410), UnreachableError("silent")]
)
async def test_a_deletion_while_the_watch_is_down_is_not_lost(api: CountingClient, error: Exception) -> None:
    client = BrokenWatch(api, error)
    async with publishing(client):
        await client.broken.wait()

        await wait_for(api, shows("gpu-0", "gpu-1"))


class GatedWatch(CountingClient):
    """A client whose watches show nothing until a test opens the gate."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client)
        self.gate = asyncio.Event()

    async def watch(self, kind: Kind, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        await self.gate.wait()
        async for event in super().watch(kind, **options):
            yield event


async def test_a_watch_that_lags_behind_makes_no_duplicates(api: CountingClient) -> None:
    client = GatedWatch(api)
    async with publishing(client) as publisher:
        await wait_for(api, shows("gpu-0", "gpu-1"))
        publisher.publish(Inventory.of(b.device("gpu-7")))
        await wait_for(api, shows("gpu-7"))
        client.gate.set()
        await publisher.wait_published()

        assert shows("gpu-7")(await list_slices(api))
        assert client.writes == 2


async def test_two_publishers_that_disagree_slow_down(api: CountingClient) -> None:
    paused = asyncio.Event()

    async def pause(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    clients = [CountingClient(api), CountingClient(api)]
    inventories = [Inventory.of(b.device("left")), Inventory.of(b.device("right"))]
    async with contextlib.AsyncExitStack() as stack:
        for client, inventory in zip(clients, inventories, strict=True):
            await stack.enter_async_context(publishing(client, inventory, repairs=Backoff(pause=pause)))
        async with asyncio.timeout(60):
            await paused.wait()

        assert max(client.writes for client in clients) <= 12


async def test_a_second_publisher_is_told_of_by_name(api: CountingClient) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    async with publishing(api) as publisher:
        publisher.subscribe_contests(told.put_nowait)
        async with publishing(api.for_manager("other-agent"), Inventory.of(b.device("intruder"))):
            sentence = await asyncio.wait_for(told.get(), 60)

    assert sentence.startswith(
        f"Slices of driver {b.DRIVER} on node {b.NODE} were deleted or changed by others 7 times"
    )
    assert "last by other-agent" in sentence


async def test_somebody_who_deletes_without_end_meets_ever_longer_pauses(api: CountingClient) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            enough.set()

    repairs = Backoff(initial_s=0.2, max_s=10.0, jitter=0, pause=pause)
    async with publishing(api, repairs=repairs) as publisher:
        await publisher.wait_published()
        while not enough.is_set():
            await delete_all(api)
            await wait_for(api, shows("gpu-0", "gpu-1"))

    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


class ThrottledAtFirst(CountingClient):
    """A client whose server asks for a pause."""

    refused = False

    async def create(self, kind: Kind, obj: Any, *, namespace: str = "") -> Any:
        if not self.refused:
            self.refused = True
            raise ThrottledError("too many requests", retry_after_s=17.0)
        return await super().create(kind, obj, namespace=namespace)


async def test_a_server_that_asks_for_a_pause_gets_it(api: CountingClient) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    publisher = SlicePublisher(ThrottledAtFirst(api), driver=b.DRIVER, node=b.NODE, backoff=Backoff(pause=pause))
    publisher.publish(GPUS)
    task = asyncio.create_task(publisher.run())
    async with asyncio.timeout(60):
        await publisher.wait_published()
    task.cancel()

    assert pauses == [17.0]


class ForbiddenList(CountingClient):
    """A client that may not list slices."""

    async def list(self, kind: Kind, **options: Any) -> ObjectList:
        raise ForbiddenError("resourceslices is forbidden", status=403)


async def test_a_missing_permission_is_told(api: CountingClient) -> None:
    async with publishing(ForbiddenList(api)) as publisher:
        async with asyncio.timeout(60):
            while publisher.last_error is None:
                await asyncio.wait_for(asyncio.shield(api.get(NODE, b.NODE)), 60)

        assert str(publisher.last_error) == "resourceslices is forbidden"


class ConflictOnce(CountingClient):
    """A client whose first update meets a change by somebody else."""

    conflicts = 1

    async def update(self, kind: Kind, obj: Any, *, subresource: str = "") -> Any:
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError("changed meanwhile", status=409)
        return await super().update(kind, obj, subresource=subresource)


async def test_a_conflict_is_planned_anew(api: CountingClient) -> None:
    client = ConflictOnce(api)
    async with publishing(client) as publisher:
        await publisher.wait_published()
        publisher.publish(Inventory.of(b.device("gpu-7")))

        await wait_for(api, shows("gpu-7"))


class AwayAtFirst(CountingClient):
    """A client that can't reach its server for some calls."""

    failures = 3

    async def create(self, kind: Kind, obj: Any, *, namespace: str = "") -> Any:
        if self.failures:
            self.failures -= 1
            raise UnreachableError("connection refused")
        return await super().create(kind, obj, namespace=namespace)


async def test_a_server_that_is_away_is_asked_again(api: CountingClient) -> None:
    client = AwayAtFirst(api)
    async with publishing(client) as publisher:
        await publisher.wait_published()

        assert shows("gpu-0", "gpu-1")(await list_slices(api))
        assert publisher.last_error is None


async def test_tries_at_a_server_that_is_away_are_no_contest(api: CountingClient) -> None:
    told: list[str] = []
    client = AwayAtFirst(api)
    client.failures = 10
    async with publishing(client) as publisher:
        publisher.subscribe_contests(told.append)
        await publisher.wait_published()

        assert told == []


async def test_two_drivers_on_one_node_leave_each_other_alone(api: CountingClient) -> None:
    nics = Inventory.of(b.device("nic-0"))
    async with publishing(api) as publisher, publishing(api, nics, driver="nic.example.test") as other:
        await publisher.wait_published()
        await other.wait_published()

        assert sorted(item.driver for item in await list_slices(api)) == ["gpu.example.test", "nic.example.test"]
        assert api.writes == 2


async def test_a_device_that_the_api_refuses_is_reported_while_the_others_are_published(api: CountingClient) -> None:
    async with publishing(api, Inventory.of(b.device("gpu-0"), b.device("Bad_Name"))) as publisher:
        await publisher.wait_published()

        assert shows("gpu-0")(await list_slices(api))
        assert [problem.subject for problem in publisher.problems] == ["gpu.example.test/node-a/Bad_Name"]
