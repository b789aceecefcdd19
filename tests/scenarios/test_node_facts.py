"""Labels and extended resources on a Node of an API server, beside others who write to the same Node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from claimsmith.api.kinds import NODE, Kind
from claimsmith.errors import ConflictError, NotFoundError, UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.publish.labels_write import LABEL_MANAGER, apply_labels
from claimsmith.publish.nodestatus import CapacityChange, apply_capacity, configured_amounts
from claimsmith.publish.nodestatus_keeper import CapacityKeeper
from tests.scenarios.published_node import api_server

NAME, GPU, COUNT = "node-a", "nvidia.com/gpu", "claimsmith.dev/gpu.count"


class RefusingClient(KubeClient):
    """A client whose patches fail while a test wants that."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client._transport)
        self.is_refusing, self.refused = True, asyncio.Event()

    async def patch(self, kind: Kind, name: str, patch: Any, **options: Any) -> KubeObject:
        if self.is_refusing:
            self.refused.set()
            raise UnreachableError("the API server is away")
        return await super().patch(kind, name, patch, **options)


def quick() -> Backoff:
    return Backoff(initial_s=0.001, max_s=0.001, random=Random(1))


def endless() -> Backoff:
    return Backoff(initial_s=1e6, max_s=1e6)


async def read(client: KubeClient) -> KubeObject:
    return await client.get(NODE, NAME)


async def labels(client: KubeClient) -> dict[str, str]:
    return (await read(client))["metadata"].get("labels") or {}


async def amounts(client: KubeClient) -> tuple[str | None, str | None]:
    status = (await read(client)).get("status") or {}
    return tuple((status.get(part) or {}).get(GPU) for part in ("capacity", "allocatable"))  # type: ignore[return-value]


async def report_as_kubelet(client: KubeClient, amount: str | None) -> None:
    """Write the status as a kubelet does that starts again, or whose device plugin offers the resource."""
    found = {"cpu": "4", **({} if amount is None else {GPU: amount})}
    patch = {"status": {"capacity": found, "allocatable": found}}
    await client.for_manager("kubelet").patch(NODE, NAME, patch, patch_type="strategic", subresource="status")


async def wait_for_amount(client: KubeClient, wanted: str | None) -> None:
    async with asyncio.timeout(60):
        while await amounts(client) != (wanted, wanted):
            continue


@contextlib.asynccontextmanager
async def keeping(
    client: KubeClient,
    change: CapacityChange | None = None,
    *,
    backoff: Backoff | None = None,
    retries: Backoff | None = None,
) -> AsyncIterator[CapacityKeeper]:
    keeper = CapacityKeeper(client, NAME, change=change, backoff=backoff or quick(), retries=retries or quick())
    task = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- labels -----------------------------------------------------------------------------------------------------------


async def test_labels_come_and_go_and_those_of_others_stay() -> None:
    async with api_server(NAME) as client:
        await client.for_manager("kubectl").patch(NODE, NAME, {"metadata": {"labels": {"zone": "a"}}})
        await apply_labels(client, NAME, {COUNT: "2", "claimsmith.dev/gpu.model": "A100"})
        await apply_labels(client, NAME, {COUNT: "1"})
        between = await labels(client)
        await apply_labels(client, NAME, {})

        assert between == {"zone": "a", COUNT: "1"}
        assert await labels(client) == {"zone": "a"}


async def test_labels_that_are_right_are_not_written_again() -> None:
    async with api_server(NAME) as client:
        await apply_labels(client, NAME, {COUNT: "2"})
        before = (await read(client))["metadata"]["resourceVersion"]
        done = await apply_labels(client, NAME, {COUNT: "2"})

        assert done.body is None
        assert (await read(client))["metadata"]["resourceVersion"] == before


async def test_a_label_that_somebody_has_set_to_another_value_is_left_unless_forced() -> None:
    async with api_server(NAME) as client:
        await client.for_manager("kubectl").patch(NODE, NAME, {"metadata": {"labels": {COUNT: "7"}}})
        done = await apply_labels(client, NAME, {COUNT: "2", "claimsmith.dev/gpu.model": "A100"})
        left = await labels(client)
        await apply_labels(client, NAME, {COUNT: "2"}, force=True)

        assert done.left == {COUNT: "kubectl"}
        assert left == {COUNT: "7", "claimsmith.dev/gpu.model": "A100"}
        assert await labels(client) == {COUNT: "2"}


async def test_a_node_that_is_not_there_is_not_made() -> None:
    async with api_server(NAME) as client:
        with pytest.raises(NotFoundError):
            await apply_labels(client, "node-b", {COUNT: "2"})

        assert [item["metadata"]["name"] for item in (await client.list(NODE)).items] == [NAME]


async def test_a_node_that_goes_in_between_is_not_made_again() -> None:
    async with api_server(NAME) as client:
        gone = {"metadata": {"name": "node-b", "uid": "11111111-1111-1111-1111-111111111111", "labels": {COUNT: "2"}}}
        with pytest.raises(ConflictError, match="no existing object was found"):
            await client.apply(NODE, gone, field_manager=LABEL_MANAGER)


# --- extended resources -----------------------------------------------------------------------------------------------


async def test_an_amount_is_set_and_unset_beside_those_of_the_kubelet() -> None:
    async with api_server(NAME) as client:
        await report_as_kubelet(client, None)
        await apply_capacity(client, NAME, CapacityChange(amounts={GPU: 2}))
        between = await amounts(client)
        await apply_capacity(client, NAME, CapacityChange(gone=frozenset({GPU})))

        assert between == ("2", "2")
        assert (await read(client))["status"]["capacity"] == {"cpu": "4"}
        assert not (await read(client))["metadata"].get("annotations")


async def test_a_node_that_has_reported_nothing_yet_gets_the_amount_too() -> None:
    async with api_server(NAME) as client:
        await apply_capacity(client, NAME, CapacityChange(amounts={GPU: 2}))

        assert await amounts(client) == ("2", "2")


async def test_what_a_kubelet_set_to_zero_is_restored() -> None:
    async with api_server(NAME) as client:
        await apply_capacity(client, NAME, CapacityChange(amounts={GPU: 2}))
        async with keeping(client) as keeper:
            await keeper.wait_kept()
            await report_as_kubelet(client, "0")

            await wait_for_amount(client, "2")


async def test_what_is_set_by_hand_while_the_keeper_runs_is_kept_too() -> None:
    async with api_server(NAME) as client, keeping(client) as keeper:
        await keeper.wait_kept()
        await apply_capacity(client, NAME, CapacityChange(amounts={GPU: 3}))
        await report_as_kubelet(client, "0")

        await wait_for_amount(client, "3")


async def test_an_amount_that_leaves_the_configuration_goes() -> None:
    async with api_server(NAME) as client:
        async with keeping(client, configured_amounts({GPU: 2})):
            await wait_for_amount(client, "2")
        async with keeping(client, configured_amounts({})):
            await wait_for_amount(client, None)


async def test_a_node_that_was_made_anew_gets_the_configured_amounts_again() -> None:
    async with api_server(NAME) as client, keeping(client, configured_amounts({GPU: 2})):
        await wait_for_amount(client, "2")
        await client.delete(NODE, NAME)
        await client.create(NODE, {"metadata": {"name": NAME}})

        await wait_for_amount(client, "2")


async def test_an_amount_that_somebody_else_sets_again_and_again_is_told() -> None:
    async with api_server(NAME) as client:
        await apply_capacity(client, NAME, CapacityChange(amounts={GPU: 2}))
        async with keeping(client) as keeper:
            for _ in range(3):
                await report_as_kubelet(client, "8")
                await wait_for_amount(client, "2")
            async with asyncio.timeout(60):
                while not keeper.contested:
                    await read(client)

            assert keeper.contested == (GPU,)


async def test_what_is_configured_anew_is_set_at_once_though_somebody_else_sets_the_amount() -> None:
    async with api_server(NAME) as client, keeping(client, configured_amounts({GPU: 2}), backoff=endless()) as keeper:
        await keeper.wait_kept()
        for _ in range(2):
            await report_as_kubelet(client, "8")
            await wait_for_amount(client, "2")
        async with asyncio.timeout(60):
            while not keeper.contested:
                await read(client)
        keeper.keep(configured_amounts({GPU: 3}))

        await wait_for_amount(client, "3")


async def test_news_of_the_node_end_the_pause_after_a_failure() -> None:
    async with api_server(NAME) as client:
        refusing = RefusingClient(client)
        async with keeping(refusing, configured_amounts({GPU: 2}), retries=endless()):
            await asyncio.wait_for(refusing.refused.wait(), 60)
            refusing.is_refusing = False
            await report_as_kubelet(client, "0")

            await wait_for_amount(client, "2")


async def test_failures_of_the_api_server_are_forgotten_after_a_success() -> None:
    async with api_server(NAME) as client:
        refusing, retries, rival = RefusingClient(client), quick(), quick()
        async with keeping(refusing, configured_amounts({GPU: 2}), backoff=rival, retries=retries) as keeper:
            await asyncio.wait_for(refusing.refused.wait(), 60)
            refusing.is_refusing = False
            await asyncio.wait_for(keeper.wait_kept(), 60)

            assert (keeper.last_error, retries.failures, rival.failures) == (None, 0, 0)
