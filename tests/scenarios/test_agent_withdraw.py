"""An agent that leaves its node for good takes back what it has told, and nothing from those who use devices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from claimsmith.api.kinds import NODE, RESOURCE_SLICE
from claimsmith.daemons.agent import Agent, AgentOptions, FrontEnds
from claimsmith.daemons.agent_withdraw import plan_withdrawal, withdraw
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import UNPREPARE_V1
from claimsmith.node.deviceplugin_rules import ResourceRule
from claimsmith.publish.labels import LabelOptions
from claimsmith.testing import builders as b
from tests.scenarios.plugin_bench import call
from tests.scenarios.published_node import api_server
from tests.scenarios.test_agent_fronts import PLUGIN, Cards, prepare, store_claim, wait_objects

COUNTED = "example.com/counted"
FRONTS = FrontEnds(labels=True, amounts=(ResourceRule(resource=COUNTED),))


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with api_server(b.NODE) as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    found = NodePaths.compact(tmp_path)
    found.make()
    return found


def options(fronts: FrontEnds) -> AgentOptions:
    return AgentOptions(boot_id="boot", fronts={Cards.name: fronts})


def agent(client: KubeClient, paths: NodePaths, chosen: AgentOptions) -> Agent:
    return Agent((Cards(),), node_name=b.NODE, client=client, paths=paths, options=chosen)


async def take_back(client: KubeClient, paths: NodePaths, before: AgentOptions) -> None:
    """Do what `claimsmith agent --withdraw` does."""
    async with agent(client, paths, plan_withdrawal(before)) as leaving:
        await withdraw(leaving, before, client=client, node=b.NODE)


@contextlib.contextmanager
def heard(message: str) -> Iterator[asyncio.Event]:
    """Give an event that is set once the agent logs a message."""
    told = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if message in record.getMessage():
                told.set()

    listener, logger = Listener(), logging.getLogger("claimsmith.agent")
    before = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        yield told
    finally:
        logger.removeHandler(listener)
        logger.setLevel(before)


def tells(node: KubeObject) -> tuple[bool, bool]:
    """Return whether a node has labels of ours, and the amount."""
    labels = node["metadata"].get("labels") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    return any(key.startswith("claimsmith.dev/") for key in labels), COUNTED in capacity


async def test_slices_labels_and_amounts_go(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, options(FRONTS)) as staying:
        await staying.wait_published()
        await wait_objects(client, NODE, lambda items: tells(items[0]) == (True, True))
    await take_back(client, paths, options(FRONTS))

    assert (await client.list(RESOURCE_SLICE)).items == []
    assert tells(await client.get(NODE, b.NODE)) == (False, False)


async def test_a_feature_file_goes(client: KubeClient, paths: NodePaths, tmp_path: Path) -> None:
    file = tmp_path / "features"
    file.write_text("claimsmith.dev/gpu.count=2\n")
    labels = LabelOptions(place="file", file=str(file))
    before = AgentOptions(boot_id="boot", fronts={Cards.name: FrontEnds(labels=True)}, labels=labels)
    await take_back(client, paths, before)

    assert not file.exists()


async def test_labels_of_others_and_wishes_of_people_stay(client: KubeClient, paths: NodePaths) -> None:
    await client.patch(NODE, b.NODE, {"metadata": {"labels": {"example.com/rack": "7"}}})
    async with agent(client, paths, options(FRONTS)) as staying:
        await staying.wait_published()
        await wait_objects(client, NODE, lambda items: tells(items[0]) == (True, True))
    await take_back(client, paths, options(FRONTS))

    assert (await client.get(NODE, b.NODE))["metadata"]["labels"] == {"example.com/rack": "7"}


async def test_a_claim_in_use_is_waited_for_and_served(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, options(FrontEnds())) as staying:
        await staying.wait_published()
        uid = await store_claim(client, "train", "gpu-0")
        await prepare(paths, "train", uid)
    with heard("Devices are still in use") as told:
        leaving = asyncio.create_task(take_back(client, paths, options(FrontEnds())))
        await asyncio.wait([leaving, asyncio.create_task(told.wait())], return_when=asyncio.FIRST_COMPLETED)
    waited = not leaving.done()
    assert (await client.list(RESOURCE_SLICE)).items == []
    message = v1.NodeUnprepareResourcesRequest(claims=[v1.Claim(namespace="default", name="train", uid=uid)])
    await call(paths.folder_of(Cards.name) / "dra.sock", UNPREPARE_V1, message)
    await leaving

    assert waited
    assert list(paths.cdi.iterdir()) == []


def test_an_agent_that_leaves_offers_nothing_but_serves_its_device_plugin() -> None:
    planned = plan_withdrawal(options(FrontEnds(labels=True, device_plugin=PLUGIN, amounts=FRONTS.amounts)))

    assert planned.fronts == {Cards.name: FrontEnds(dra=False, device_plugin=PLUGIN)}
