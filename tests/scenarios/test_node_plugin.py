"""A driver behind real sockets, called as the kubelet calls it."""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from claimsmith.errors import ConfigError
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet import dra_v1beta1_pb2 as v1beta1
from claimsmith.kubelet import pluginregistration_v1_pb2 as registration
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import (
    GET_INFO,
    NOTIFY,
    PREPARE_V1,
    PREPARE_V1BETA1,
    UNPREPARE_V1,
    WATCH_V1,
    WATCH_V1ALPHA1,
    Method,
)
from claimsmith.model.claim import ConsumerReference
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.prepared import ClaimKey, DeviceStatus
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.node.holding import Holding, HoldPolicy
from claimsmith.testing.builders import allocated, claim, request, result
from tests.scenarios.plugin_bench import DRIVER, PluginBench, call, named, prepare, unprepare


@pytest.fixture
def bench() -> Iterator[PluginBench]:
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        yield PluginBench(Path(folder))


async def test_the_registration_tells_the_type_the_endpoint_and_the_newest_service_first(bench: PluginBench) -> None:
    async with bench.plugin():
        info = await call(bench.registrar, GET_INFO, registration.InfoRequest())

    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(bench.service))
    assert info.supported_versions == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


async def test_the_kubelets_verdict_on_the_registration_is_kept(bench: PluginBench) -> None:
    async with bench.plugin() as plugin:
        await call(bench.registrar, NOTIFY, registration.RegistrationStatus(error="no handler"))
        refused = (await plugin.registration.wait(1), plugin.registration.error)
        await call(bench.registrar, NOTIFY, registration.RegistrationStatus(plugin_registered=True))

        assert refused == (False, "no handler")
        assert await plugin.registration.wait(1)


async def test_a_prepared_device_has_an_id_that_a_cdi_file_defines(bench: PluginBench) -> None:
    async with bench.plugin() as plugin:
        device = (await prepare(bench, "a"))["uid-a"].devices[0]

        assert (list(device.request_names), device.pool_name, device.device_name) == (["r"], "node-a", "gpu-0")
        assert list(device.cdi_device_ids) == [f"k8s.{DRIVER}/claim=uid-a:r:gpu-0"]
        assert '"uid-a:r:gpu-0"' in next(bench.paths.cdi.iterdir()).read_text()
        assert [entry.claim.uid for entry in plugin.prepared()] == ["uid-a"]


async def test_each_claim_of_a_batch_has_exactly_one_entry_also_when_some_fail(bench: PluginBench) -> None:
    async with bench.plugin():
        answer = await prepare(bench, "a", "missing", "b", "a")

    assert set(answer) == {"uid-a", "uid-b", "uid-missing"}
    assert [uid for uid, entry in answer.items() if entry.error] == ["uid-missing"]
    assert "claim default/missing: found none in the API server" in answer["uid-missing"].error


async def test_concurrent_calls_for_one_claim_reach_the_driver_once(bench: PluginBench) -> None:
    async with bench.plugin():
        answers = await asyncio.gather(*(prepare(bench, "a") for _ in range(8)))

    assert all(answer == answers[0] for answer in answers)
    assert bench.driver.calls == [("prepare", "uid-a")]


async def test_the_older_version_of_the_service_gives_the_same_devices(bench: PluginBench) -> None:
    wanted = v1beta1.Claim(namespace="default", name="a", uid="uid-a")
    async with bench.plugin():
        answer = await call(bench.service, PREPARE_V1BETA1, v1beta1.NodePrepareResourcesRequest(claims=[wanted]))

    assert answer.claims["uid-a"].devices[0].cdi_device_ids == [f"k8s.{DRIVER}/claim=uid-a:r:gpu-0"]


async def test_a_share_travels_with_its_uid_and_other_devices_without(bench: PluginBench) -> None:
    shared = allocated(claim("s", request()), result("gpu-2", share="share-1"), reserved_for=["pod"])
    bench.claims.claims[shared.ref] = shared
    async with bench.plugin():
        answer = await prepare(bench, "s", "a")

    assert answer["uid-s"].devices[0].share_id == "share-1"
    assert not answer["uid-a"].devices[0].HasField("share_id")


async def test_unprepare_works_twice_and_while_the_api_server_is_down(bench: PluginBench) -> None:
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        bench.claims.down = True
        answers = [await unprepare(bench, "a", "never-seen") for _ in range(2)]

        assert answers == [{"uid-a": "", "uid-never-seen": ""}] * 2
        assert (plugin.prepared(), bench.cdi_files()) == ((), 0)


async def test_a_prepared_claim_is_answered_while_the_api_server_is_down_and_others_are_not(bench: PluginBench) -> None:
    async with bench.plugin():
        first = await prepare(bench, "a")
        bench.claims.down = True
        answer = await prepare(bench, "a", "b")

    assert answer["uid-a"] == first["uid-a"]
    assert "can't be read from the API server" in answer["uid-b"].error


async def test_a_driver_that_raises_gives_an_error_and_the_next_call_is_served(bench: PluginBench) -> None:
    def fail(operation: str) -> None:
        raise SystemExit(1)

    async with bench.plugin():
        bench.driver.fail = fail
        failed = await prepare(bench, "a")
        bench.driver.fail = lambda operation: None
        served = await prepare(bench, "a")

    assert "prepare failed: SystemExit: 1" in failed["uid-a"].error
    assert not served["uid-a"].error


async def test_a_stop_leaves_no_socket_and_keeps_what_is_prepared(bench: PluginBench) -> None:
    async with bench.plugin():
        await prepare(bench, "a")

    assert bench.sockets() == []
    async with bench.plugin() as plugin:
        assert [entry.claim.name for entry in plugin.prepared()] == ["a"]


async def test_a_socket_that_a_dead_process_left_is_replaced(bench: PluginBench) -> None:
    bench.registrar.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(bench.registrar))

    async with bench.plugin():
        info = await call(bench.registrar, GET_INFO, registration.InfoRequest())
    assert info.name == DRIVER


async def test_sockets_that_a_killed_instance_left_are_removed_by_the_next_start(bench: PluginBench) -> None:
    folder = bench.paths.folder_of(DRIVER)
    folder.mkdir()
    left = (folder / "dra-pod-1.sock", bench.paths.plugins_registry / f"{DRIVER}-pod-1-reg.sock")
    for path in left:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))

    async with bench.plugin(), bench.plugin(instance_uid="pod-2"):
        assert bench.sockets() == ["dra-pod-2.sock", "dra.sock", f"{DRIVER}-pod-2-reg.sock", f"{DRIVER}-reg.sock"]


async def test_a_socket_that_another_process_serves_is_left_to_it(bench: PluginBench) -> None:
    async with bench.plugin():
        with pytest.raises(ConfigError, match="found another process that serves it"):
            await bench.plugin().__aenter__()

        assert len(await prepare(bench, "a")) == 1


async def test_another_kind_of_file_in_the_sockets_place_is_named_and_kept(bench: PluginBench) -> None:
    bench.registrar.write_text("precious")

    with pytest.raises(ConfigError, match="found another kind of file"):
        await bench.plugin().__aenter__()
    assert bench.registrar.read_text() == "precious"
    assert bench.sockets() == []


async def test_a_stop_leaves_the_socket_of_a_successor_in_place(bench: PluginBench) -> None:
    async with bench.plugin():
        bench.registrar.unlink()
        bench.service.unlink()
        successor = bench.plugin()
        await successor.__aenter__()

    assert bench.sockets() == ["dra.sock", f"{DRIVER}-reg.sock"]
    assert not (await prepare(bench, "a"))["uid-a"].error
    await successor.__aexit__(None, None, None)
    assert bench.sockets() == []


async def test_two_instances_serve_at_once_and_know_each_others_claims(bench: PluginBench) -> None:
    async with bench.plugin() as old, bench.plugin(instance_uid="pod-2") as new:
        assert not (await prepare(bench, "a"))["uid-a"].error
        stolen = allocated(claim("thief", request()), "gpu-0", reserved_for=["pod"])
        bench.claims.claims[stolen.ref] = stolen
        other = bench.paths.folder_of(DRIVER) / "dra-pod-2.sock"
        answer = await call(other, PREPARE_V1, v1.NodePrepareResourcesRequest(claims=named("thief")))
        await call(other, UNPREPARE_V1, v1.NodeUnprepareResourcesRequest(claims=named("a")))

        assert "found prepared for claim default/a (uid uid-a)" in answer.claims["uid-thief"].error
        assert bench.sockets() == [
            "dra-pod-2.sock",
            "dra.sock",
            f"{DRIVER}-pod-2-reg.sock",
            f"{DRIVER}-reg.sock",
        ]
        assert new.prepared() == ()
        assert not (await prepare(bench, "b"))["uid-b"].error
        assert [entry.claim.name for entry in old.prepared()] == ["b"]


def test_a_socket_path_of_200_bytes_is_refused_with_its_length_and_the_limit(bench: PluginBench) -> None:
    bench.paths = NodePaths.compact(Path("/tmp") / ("x" * 200))

    with pytest.raises(ConfigError, match=r"^socket path /tmp/x+/p/\S+: found 2\d\d bytes, allowed 107; [^\n]*$"):
        bench.plugin()


@pytest.mark.parametrize("method", [WATCH_V1, WATCH_V1ALPHA1], ids=["v1", "v1alpha1"])
async def test_the_health_of_devices_is_streamed_for_a_driver_that_watches_it(
    bench: PluginBench, method: Method[Any, Any]
) -> None:
    async with (
        bench.plugin(serves_health=True) as plugin,
        grpc.aio.insecure_channel(f"unix:{bench.service}") as channel,
    ):
        info = await call(bench.registrar, GET_INFO, registration.InfoRequest())
        plugin.report_health(DeviceHealth(device="gpu-0", healthy=False, message="fell off the bus"))
        watch = channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )(method.request(), timeout=200)
        told = aiter(watch)
        seen = [list_health(await anext(told))]
        plugin.report_health(DeviceHealth(device="gpu-0", healthy=True), DeviceHealth(device="gpu-1", healthy=None))
        seen.append(list_health(await anext(told)))
        watch.cancel()

    assert list(info.supported_versions)[2:] == ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
    assert seen == [
        [("node-a", "gpu-0", "UNHEALTHY", "fell off the bus")],
        [("node-a", "gpu-0", "HEALTHY", ""), ("node-a", "gpu-1", "UNKNOWN", "")],
    ]


def list_health(response: Any) -> list[tuple[str, str, str, str]]:
    """Return pool, name, health and message of each device that a response of either version names."""
    states = type(response.devices[0]).DESCRIPTOR.fields_by_name["health"].enum_type.values_by_number
    return [
        (item.device.pool_name, item.device.device_name, states[item.health].name, item.message)
        for item in response.devices
    ]


class Pods:
    """Pods of which some are being deleted; `asked` has the names that somebody asked for."""

    def __init__(self, *needed: str) -> None:
        self.needed, self.asked, self.was_asked = set(needed), list[str](), asyncio.Event()

    async def is_needed(self, consumer: ConsumerReference, *, namespace: str) -> bool:
        self.asked.append(f"{namespace}/{consumer.name}")
        self.was_asked.set()
        return consumer.name in self.needed

    async def wait_asked(self, name: str, *, times: int) -> None:
        while self.asked.count(name) < times:
            self.was_asked.clear()
            await self.was_asked.wait()


async def test_a_prepare_that_waits_is_answered_once_its_pods_are_all_going(bench: PluginBench) -> None:
    pods = Pods("second")
    bench.options = replace(bench.options, consumers=pods)
    bench.holding = Holding(HoldPolicy(first_pause_s=0.01, max_pause_s=0.01))
    shared = allocated(claim("s", request()), result("gpu-0"), reserved_for=["first", "second"])
    bench.claims.claims[shared.ref] = shared
    async with bench.plugin():
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "s"))
        asked = asyncio.create_task(pods.wait_asked("default/second", times=2))
        await asyncio.wait([waiting, asked], return_when=asyncio.FIRST_COMPLETED)
        still_waits = not waiting.done()
        asked.cancel()
        pods.needed.clear()
        answer = await waiting

    assert still_waits
    assert "every pod that it is reserved for gone or being deleted" in answer["uid-s"].error


async def test_a_prepare_that_need_not_wait_asks_for_no_pods(bench: PluginBench) -> None:
    pods = Pods()
    bench.options = replace(bench.options, consumers=pods)
    async with bench.plugin():
        answer = await prepare(bench, "a")

    assert (answer["uid-a"].error, pods.asked) == ("", [])


async def test_a_prepare_that_waits_is_answered_once_its_claim_is_deleted(bench: PluginBench) -> None:
    pods = Pods("pod")
    bench.options = replace(bench.options, consumers=pods)
    bench.holding = Holding(HoldPolicy(look_s=0.01))
    taken = allocated(claim("s", request()), result("gpu-0"), reserved_for=["pod"])
    bench.claims.claims[taken.ref] = taken
    async with bench.plugin():
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "s"))
        await pods.was_asked.wait()
        del bench.claims.claims[taken.ref]
        answer = await waiting

    assert "found none in the API server" in answer["uid-s"].error


class ToldStatuses:
    """Takes what is to be written into statuses; `told` is set once there is something."""

    def __init__(self) -> None:
        self.statuses: list[ClaimStatus] = []
        self.told = asyncio.Event()

    async def write_devices(self, status: ClaimStatus) -> None:
        self.statuses.append(status)
        self.told.set()


async def test_what_the_driver_learns_of_a_prepared_claim_is_told_without_a_call_of_the_kubelet(
    bench: PluginBench,
) -> None:
    statuses = ToldStatuses()
    bench.options = replace(bench.options, statuses=statuses)
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        cdi = next(bench.paths.cdi.iterdir()).read_bytes()
        bench.driver.status = DeviceStatus(data={"address": "10.1.2.3"})
        for name in ("b", "a"):
            plugin.news.note(ClaimKey(namespace="default", name=name, uid=f"uid-{name}"))
        await statuses.told.wait()

        assert [item.data for status in statuses.statuses for item in status.devices] == [{"address": "10.1.2.3"}]
        assert bench.driver.calls == [("prepare", "uid-a")] * 2
        assert next(bench.paths.cdi.iterdir()).read_bytes() == cdi


async def test_a_driver_that_takes_long_is_told_of_while_it_works(
    bench: PluginBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("claimsmith.node.draplugin._SLOW_S", 0.0)
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("The driver takes long"):
                told.set()

    def work(operation: str) -> None:
        assert told.wait(20), f"{operation}: found nothing told, allowed a line before it ends"

    bench.driver.fail = work
    log, listener = logging.getLogger("claimsmith"), Listener()
    log.addHandler(listener)
    try:
        async with bench.plugin():
            answers = await prepare(bench, "a")
    finally:
        log.removeHandler(listener)

    assert not answers["uid-a"].error
