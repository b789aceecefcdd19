"""One inventory offered in several ways: what one of them has given away the others do not offer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_REPORT, EVENT, NODE, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.api.reports import parse_device_report
from claimsmith.api.resource import encode_resource_claim, parse_resource_slice
from claimsmith.daemons.agent import Agent, AgentOptions, FrontEnds
from claimsmith.daemons.agent_fronts import IN_USE_KEY
from claimsmith.daemons.status_server import Status
from claimsmith.errors import UnreachableError
from claimsmith.kube.client import KubeClient, KubeObject, ObjectList
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet import podresources_v1_pb2 as podresources
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import LIST_POD_RESOURCES, PREPARE_V1, UNPREPARE_V1
from claimsmith.model.inventory import Inventory
from claimsmith.model.report import DeviceReport
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.podresources import ForeignRule, pod_resources_socket
from claimsmith.node.sockets import SocketServer, unary_handler
from claimsmith.publish.reports import ReportPace, report_name
from claimsmith.testing import builders as b
from tests.scenarios.plugin_bench import call, ready
from tests.scenarios.published_node import api_server, list_slices
from tests.scenarios.test_agent import Bench
from tests.unit.node.recording_driver import RecordingDriver

RESOURCE = "example.com/gpu"
PLUGIN = DevicePluginOptions(rules=(ResourceRule(resource=RESOURCE),), poll_s=0.02, reconcile_s=0.02)
REPORT = ReportPace(interval_s=0.02)
WAIT_S = 60.0


class Cards(RecordingDriver):
    """A driver with two cards."""

    def discover(self) -> Inventory:
        return Inventory.of(b.device("gpu-0"), b.device("gpu-1"))


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with api_server(b.NODE) as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    found = NodePaths.compact(tmp_path)
    found.make()
    return found


def agent(client: KubeClient, paths: NodePaths, fronts: FrontEnds, **options: Any) -> Agent:
    chosen = AgentOptions(boot_id="boot", fronts={Cards.name: fronts}, **options)
    return Agent((Cards(),), node_name=b.NODE, client=client, paths=paths, options=chosen)


async def wait_objects(
    client: KubeClient, kind: Kind, holds: Callable[[list[KubeObject]], bool], *, fields: str = ""
) -> list[KubeObject]:
    """Return the objects of a kind once something holds of them."""
    async with asyncio.timeout(WAIT_S):
        while True:
            listed = await client.list(kind, field_selector=fields)
            if holds(listed.items):
                return listed.items
            version = listed.resource_version
            async for event in client.watch(kind, field_selector=fields, resource_version=version, timeout_s=5):
                if event.type != "BOOKMARK":
                    break
    raise AssertionError(kind)


def tainted(*names: str) -> Callable[[list[KubeObject]], bool]:
    """Return a test of slices: these devices have the taint of use."""

    def holds(items: list[KubeObject]) -> bool:
        devices = [device for item in items for device in parse_resource_slice(item).devices]
        return [device.name for device in devices if any(t.key == IN_USE_KEY for t in device.taints)] == list(names)

    return holds


def usable(running: Agent) -> int:
    (state,) = running.states()
    (resource,) = state.resources
    return resource.usable


async def wait_usable(running: Agent, count: int) -> None:
    """Return once the device plugin can give away so many devices."""
    async with asyncio.timeout(WAIT_S):
        while usable(running) != count:  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0.01)


class Kubelet:
    """What the kubelet tells of containers: one of another plugin's pods, with some devices."""

    def __init__(self) -> None:
        self.ids: tuple[str, ...] = ()

    async def list(self, request: podresources.ListPodResourcesRequest) -> podresources.ListPodResourcesResponse:
        devices = podresources.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=self.ids)
        container = podresources.ContainerResources(name="main", devices=[devices] if self.ids else [])
        pod = podresources.PodResources(name="train", namespace="team", containers=[container])
        return podresources.ListPodResourcesResponse(pod_resources=[pod])


@pytest.fixture
async def kubelet(paths: NodePaths) -> AsyncIterator[Kubelet]:
    found, socket = Kubelet(), pod_resources_socket(paths)
    socket.parent.mkdir(parents=True)
    server = SocketServer(socket, (unary_handler(LIST_POD_RESOURCES, found.list),))
    await server.start()
    yield found
    await server.stop()


async def test_a_device_that_a_foreign_plugin_gave_away_is_tainted_and_told(
    client: KubeClient, paths: NodePaths, kubelet: Kubelet
) -> None:
    kubelet.ids = ("gpu-1",)
    async with agent(client, paths, FrontEnds(foreign=ForeignRule())):
        await wait_objects(client, RESOURCE_SLICE, tainted("gpu-1"))
        (event,) = await wait_objects(client, EVENT, bool, fields="reason=DeviceInUseByOtherPlugin")

    assert event["type"] == "Warning"
    assert "gpu-1 is used by pod team/train through nvidia.com/gpu" in event["message"]


async def test_a_device_that_a_foreign_plugin_took_back_is_offered_again(
    client: KubeClient, paths: NodePaths, kubelet: Kubelet
) -> None:
    kubelet.ids = ("gpu-1",)
    fronts = FrontEnds(foreign=ForeignRule(), device_plugin=PLUGIN)
    async with agent(client, paths, fronts):
        await wait_objects(client, RESOURCE_SLICE, tainted("gpu-1"))
        kubelet.ids = ()

        await wait_objects(client, RESOURCE_SLICE, tainted())


async def test_a_device_that_a_claim_has_been_allocated_is_not_offered_to_containers(
    client: KubeClient, paths: NodePaths
) -> None:
    async with agent(client, paths, FrontEnds(device_plugin=PLUGIN)) as running:
        await wait_usable(running, 2)
        await store_claim(client, "train", "gpu-0")
        await wait_usable(running, 1)
        await client.delete(RESOURCE_CLAIM, "train", namespace="default")

        await wait_usable(running, 2)


async def store_claim(client: KubeClient, name: str, device: str) -> str:
    """Store a claim that has been allocated a device; return its uid."""
    whole = encode_resource_claim(ready(name, device))
    metadata = {key: value for key, value in whole["metadata"].items() if key in ("name", "namespace")}
    made = await client.create(RESOURCE_CLAIM, {**whole, "metadata": metadata})
    made["status"] = whole["status"]
    return str((await client.update_status(RESOURCE_CLAIM, made))["metadata"]["uid"])


async def prepare(paths: NodePaths, name: str, uid: str) -> None:
    """Prepare a claim as the kubelet does."""
    message = v1.NodePrepareResourcesRequest(claims=[v1.Claim(namespace="default", name=name, uid=uid)])
    answer = await call(paths.folder_of(Cards.name) / "dra.sock", PREPARE_V1, message)
    assert answer.claims[uid].error == ""


async def test_a_report_tells_which_claim_has_a_device(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, FrontEnds(report=REPORT)) as running:
        await running.wait_published()
        await prepare(paths, "train", await store_claim(client, "train", "gpu-1"))
        found = await wait_report(client, lambda report: any(item.holders for item in report.devices))

    assert [[holder.name for holder in item.holders] for item in found.devices] == [[], ["train"]]


async def test_a_claim_that_is_prepared_is_served_on_when_claims_are_switched_off(
    client: KubeClient, paths: NodePaths
) -> None:
    async with agent(client, paths, FrontEnds()) as running:
        await running.wait_published()
        uid = await store_claim(client, "train", "gpu-0")
        await prepare(paths, "train", uid)
    async with agent(client, paths, FrontEnds(dra=False, device_plugin=PLUGIN)) as running:
        await wait_usable(running, 1)
        message = v1.NodeUnprepareResourcesRequest(claims=[v1.Claim(namespace="default", name="train", uid=uid)])
        await call(paths.folder_of(Cards.name) / "dra.sock", UNPREPARE_V1, message)

        await wait_usable(running, 2)


async def test_slices_of_before_go_when_claims_are_switched_off(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, FrontEnds()) as running:
        await running.wait_published()
    async with agent(client, paths, FrontEnds(dra=False, device_plugin=PLUGIN)):
        await wait_objects(client, RESOURCE_SLICE, lambda items: not items)

        assert not (paths.plugins_registry / f"{Cards.name}-reg.sock").exists()


async def test_a_report_tells_devices_and_goes_on_without_claims(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, FrontEnds(dra=False, report=REPORT)):
        found = await wait_report(client, lambda report: len(report.devices) == 2)

    assert [item.device.name for item in found.devices] == ["gpu-0", "gpu-1"]
    assert (await client.list(RESOURCE_SLICE)).items == []


async def wait_report(client: KubeClient, holds: Callable[[DeviceReport], bool]) -> DeviceReport:
    def all_hold(items: list[KubeObject]) -> bool:
        return bool(items) and holds(parse_device_report(items[0]))

    name = f"metadata.name={report_name(b.NODE, Cards.name)}"
    return parse_device_report((await wait_objects(client, DEVICE_REPORT, all_hold, fields=name))[0])


async def test_labels_tell_of_the_devices(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, FrontEnds(labels=True)):
        (node,) = await wait_objects(
            client,
            NODE,
            lambda items: any(key.startswith("claimsmith.dev/") for key in items[0]["metadata"].get("labels") or {}),
        )

    assert any(key.endswith(".count") and value == "2" for key, value in node["metadata"]["labels"].items())


async def test_amounts_are_kept_in_the_status_of_the_node(client: KubeClient, paths: NodePaths) -> None:
    fronts = FrontEnds(amounts=(ResourceRule(resource="example.com/counted"),))
    async with agent(client, paths, fronts):
        (node,) = await wait_objects(
            client, NODE, lambda items: "example.com/counted" in (items[0].get("status") or {}).get("capacity", {})
        )

    assert node["status"]["allocatable"]["example.com/counted"] == "2"


async def test_an_agent_is_ready_when_the_kubelet_knows_it(client: KubeClient, paths: NodePaths) -> None:
    async with agent(client, paths, FrontEnds()) as running:
        await running.wait_published()
        status: Status = running.status()

    assert status.missing == (f"driver {Cards.name}: the kubelet has not registered it yet",)
    assert status.samples["claimsmith_published_devices", (("driver", Cards.name),)] == 2


# --- somebody is slow -------------------------------------------------------------------------------------------------


class AwayClient(KubeClient):
    """A client of an API server that is away until a test lets it return."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client._transport)
        self.is_away = True

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        self._check()
        return await super().get(kind, name, namespace=namespace)

    async def list(self, kind: Kind, **options: Any) -> ObjectList:
        self._check()
        return await super().list(kind, **options)

    def _check(self) -> None:
        if self.is_away:
            raise UnreachableError("the API server is away")


class HangingBench(Bench):
    """A driver whose library hangs from the second `discover` on, until a test lets it go."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.is_hanging, self.go = threading.Event(), threading.Event()
        self._calls = 0

    def discover(self) -> Inventory:
        self._calls += 1
        if self._calls > 1:
            self.is_hanging.set()
            self.go.wait(WAIT_S)
        return super().discover()


def both_ways(driver: Bench, client: KubeClient, paths: NodePaths) -> Agent:
    """Return an agent that offers a driver's devices by claims and by a device plugin."""
    options = AgentOptions(boot_id="boot", fronts={driver.name: FrontEnds(device_plugin=PLUGIN)})
    return Agent((driver,), node_name=b.NODE, client=client, paths=paths, options=options)


async def test_an_agent_that_starts_without_the_api_server_tells_the_kubelet_of_failed_and_new_devices(
    client: KubeClient, paths: NodePaths
) -> None:
    driver, away = Bench("gpu-0", "gpu-1"), AwayClient(client)
    async with both_ways(driver, away, paths) as running:
        await wait_usable(running, 2)
        driver.say("gpu-1", healthy=False)
        await wait_usable(running, 1)
        driver.become("gpu-0", "gpu-1", "gpu-2")

        await wait_usable(running, 2)


async def test_what_failed_before_the_api_server_came_is_published_as_failed(
    client: KubeClient, paths: NodePaths
) -> None:
    driver, away = Bench("gpu-0", "gpu-1"), AwayClient(client)
    async with both_ways(driver, away, paths) as running:
        await wait_usable(running, 2)
        driver.say("gpu-1", healthy=False)
        await wait_usable(running, 1)
        away.is_away = False
        await running.wait_published()

        (item,) = await list_slices(client)
        assert [device.name for device in item.devices if device.taints] == ["gpu-1"]


async def test_a_driver_that_hangs_while_it_is_asked_keeps_nobody_from_learning_of_a_failed_device(
    client: KubeClient, paths: NodePaths
) -> None:
    driver = HangingBench("gpu-0", "gpu-1")
    async with both_ways(driver, client, paths) as running:
        await wait_usable(running, 2)
        driver.become("gpu-0", "gpu-1")
        await asyncio.to_thread(driver.is_hanging.wait, WAIT_S)
        driver.say("gpu-1", healthy=False)
        try:
            await wait_usable(running, 1)
        finally:
            driver.go.set()
