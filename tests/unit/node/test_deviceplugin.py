"""One resource on its socket, and a kubelet that does more or less than it should."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from claimsmith.embedded.kubelet.rpc import RpcServer, answer
from claimsmith.errors import ConfigError, PluginRefusedError
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.services import REGISTER_DEVICES
from claimsmith.model.prepared import ContainerEdits, DeviceNode, Mount
from claimsmith.node.deviceplugin import KUBELET_SOCKET, DevicePluginServer, plugin_socket
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, OfferedDevice, ResourceRule
from claimsmith.node.deviceplugin_service import Offer, ResourceService, encode_given
from claimsmith.node.entry import Grant, PreparedClaim, grant_key
from claimsmith.node.grants import Given
from claimsmith.testing import builders as b

RULE = ResourceRule(resource="x.test/gpu")


class NoGiver:
    """Gives nothing; nobody asks."""

    async def give(self, rule: ResourceRule, wanted: object) -> Given:
        raise AssertionError

    async def make_sure(self, rule: ResourceRule, wanted: object) -> Grant:
        raise AssertionError


class Kubelet:
    """Takes plugins or refuses them, and follows nobody's list."""

    def __init__(self, folder: Path) -> None:
        self.path, self.refusal, self.seen = folder / KUBELET_SOCKET, "", list[messages.RegisterRequest]()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = RpcServer(self.path, [answer(REGISTER_DEVICES, self._register, refuse=PluginRefusedError)])
        await server.start()
        try:
            yield
        finally:
            await server.stop()

    async def _register(self, request: messages.RegisterRequest) -> messages.Empty:
        if self.refusal:
            raise PluginRefusedError(self.refusal)
        self.seen.append(request)
        return messages.Empty()


class Bench:
    """A served resource, and a clock that a test turns."""

    def __init__(self, folder: Path) -> None:
        self.now_s, self.folder = 0.0, folder
        service = ResourceService(b.DRIVER, RULE, passing="cdi", pre_start=True, giver=NoGiver())
        service.offer([Offer(device=OfferedDevice(id="gpu-0", device=b.device_id("gpu-0"), source=b.device("gpu-0")))])
        self.server = DevicePluginServer(service, folder, options=DevicePluginOptions(), now_s=lambda: self.now_s)


@pytest.fixture
async def bench(root: Path) -> AsyncIterator[Bench]:
    found = Bench(root)
    await found.server.start()
    try:
        yield found
    finally:
        await found.server.stop()


async def test_the_registration_names_version_socket_resource_and_options(bench: Bench) -> None:
    kubelet = Kubelet(bench.folder)
    async with kubelet.serving():
        await bench.server.turn()

    (request,) = kubelet.seen
    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "claimsmith-x.test_gpu.sock",
        "x.test/gpu",
    )
    assert request.options.pre_start_required
    assert request.options.get_preferred_allocation_available


async def test_a_kubelet_that_follows_no_list_is_told_again(bench: Bench) -> None:
    kubelet = Kubelet(bench.folder)
    async with kubelet.serving():
        for now_s in (0.0, 5.0, 11.0):
            bench.now_s = now_s
            await bench.server.turn()

    assert len(kubelet.seen) == 2


async def test_a_refusal_is_told_and_tried_again_after_a_pause(bench: Bench) -> None:
    kubelet = Kubelet(bench.folder)
    kubelet.refusal = "not now"
    async with kubelet.serving():
        await bench.server.turn()
        error, kubelet.refusal = bench.server.error, ""
        await bench.server.turn()
        before = bench.server.registered
        bench.now_s = 60.0
        await bench.server.turn()

    assert "resource x.test/gpu is not taken: UNKNOWN: not now" in error
    assert (before, bench.server.registered, bench.server.error) == (False, True, "")


async def test_a_socket_that_somebody_removes_is_served_again(bench: Bench) -> None:
    path = plugin_socket(bench.folder, RULE.resource)
    path.unlink()
    await bench.server.turn()

    assert path.is_socket()


async def test_another_process_that_serves_the_resource_is_an_error(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="found another process that serves it"):
        await Bench(bench.folder).server.start()


@pytest.mark.parametrize("instance", ["", "0b1c2d3e-0000-4000-8000-000000000000"])
def test_the_name_of_a_socket_is_readable_or_short(instance: str) -> None:
    near, far = Path("/var/lib/kubelet/device-plugins"), Path("/" + "x" * 70)
    long = f"x.test/{'g' * 60}"

    assert plugin_socket(near, "x.test/gpu", instance).name.startswith("claimsmith-x.test_gpu")
    assert len(str(plugin_socket(far, long, instance))) <= 107
    assert plugin_socket(far, long, instance) != plugin_socket(far, long + "2", instance)


def test_two_instances_have_two_sockets() -> None:
    folder = Path("/d")

    assert len({plugin_socket(folder, "x.test/gpu", instance) for instance in ("", "old", "new")}) == 3


def test_edits_are_told_in_the_words_of_the_protocol() -> None:
    entry = PreparedClaim(claim=grant_key("x.test/gpu", ["gpu-0"]), devices=(), boot_id="boot")
    edits = ContainerEdits(
        env={"A": "1"},
        device_nodes=(DeviceNode(path="/dev/a"), DeviceNode(path="/dev/b", host_path="/dev/c", permissions="r")),
        mounts=(
            Mount(host_path="/h", container_path="/ro"),
            Mount(host_path="/h", container_path="/rw", options=("rw", "bind")),
        ),
    )
    given = Given(grant=Grant(entry=entry, resource="x.test/gpu", ids=("gpu-0",)), edits=(edits, edits))

    response = encode_given(given, RULE, "edits")
    assert dict(response.envs) == {"A": "1"}
    assert [(item.container_path, item.host_path, item.permissions) for item in response.devices] == [
        ("/dev/a", "/dev/a", "rwm"),
        ("/dev/b", "/dev/c", "r"),
    ]
    assert [(item.container_path, item.host_path, item.read_only) for item in response.mounts] == [
        ("/ro", "/h", True),
        ("/rw", "/h", False),
    ]
    assert list(response.cdi_devices) == []
