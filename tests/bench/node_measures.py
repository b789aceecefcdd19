"""What is measured of an agent on the real node. Each measure gives seconds, megabytes or a share of a core."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient
from claimsmith.node.ledger import CHECKPOINT_FILE
from tests.cluster.agents import AgentProcess, retrying
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import device_class, exactly, pod, template
from tests.cluster.watching import is_ready, wait_for, wait_for_object

__all__ = ["Alone", "Bench", "Memory", "OtherLoad", "Prepare", "Start", "config_text", "controlling"]

DRIVER = "sim.claimsmith.dev"
_IDLE_S = 20.0
_SETTLE_S = 5.0
_RELEASED_S = 180.0
_LOOK_S = 0.05
_PROBE_S = 0.02
_PROBE_BYTES = 4096
_MIB = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of a process in MiB."""

    rss_mib: float
    pss_mib: float
    anonymous_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start of the agent: wall clock and processor time until its slices were seen."""

    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Means over some prepared claims: NodePrepareResources, the agent's processor time, and until pods were ready."""

    mean_ms: float
    cpu_ms: float
    ready_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What no plugin can do without, measured while pods start: means of one flush and of one read of a claim."""

    flush_ms: float
    read_ms: float


class OtherLoad:
    """How busy the machine is, which is the load to read figures with."""

    def __init__(self) -> None:
        self._before = _busy_s()
        self._since_s = time.monotonic()

    def cores(self) -> float:
        """Return how many cores were busy since the start, whoever kept them so."""
        return (_busy_s() - self._before) / max(time.monotonic() - self._since_s, 1e-6)


def _busy_s() -> float:
    """Return the seconds that all cores have worked since the machine started."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    return sum(int(field) for field in (*fields[:3], *fields[5:8])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """A driver on the node of a cluster, started as often as a measure needs.

    Args:
        cluster: The cluster.
        client: A client that may do everything.
        command: Command line of the agent, or of a peer that logs its registration as the agent does.
    """

    def __init__(self, cluster: RealCluster, client: KubeClient, command: Sequence[str]) -> None:
        self.cluster, self.client, self._command = cluster, client, command

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[AgentProcess]:
        """An agent that the kubelet knows and whose slices are published; pods go before it ends."""
        agent = AgentProcess(self._command, self.cluster.folder / "agent.log")
        await agent.start()
        try:
            await agent.wait_registered(DRIVER)
            await wait_for(self.client, RESOURCE_SLICE, bool)
            yield agent
            await delete_pods(self.client)
        finally:
            await agent.stop()

    async def measure_memory(self, agent: AgentProcess) -> Memory:
        """Return the memory of an agent that has been idle for a while."""
        await asyncio.sleep(_SETTLE_S)
        found: dict[str, float] = {}
        for line in await asyncio.to_thread(_read_rollup, agent.pid):
            name, _, rest = line.partition(":")
            if rest.strip().endswith("kB"):
                found[name] = float(rest.split()[0]) / _MIB
        return Memory(rss_mib=found["Rss"], pss_mib=found["Pss"], anonymous_mib=found["Anonymous"])

    async def measure_idle(self, agent: AgentProcess) -> float:
        """Return which percentage of a core an idle agent takes."""
        before = _cpu_s(agent.pid)
        await asyncio.sleep(_IDLE_S)
        return 100.0 * (_cpu_s(agent.pid) - before) / _IDLE_S

    async def measure_start(self) -> Start:
        """Start a process, and wait until the API server shows its slices."""
        await self.delete_slices()
        listed = await self.client.list(RESOURCE_SLICE)
        agent = AgentProcess(self._command, self.cluster.folder / "agent.log")
        start_s = time.monotonic()
        await agent.start()
        try:
            async for event in self.client.watch(RESOURCE_SLICE, resource_version=listed.resource_version):
                if event.type == "ADDED":
                    return Start(seconds=time.monotonic() - start_s, cpu_s=_cpu_s(agent.pid))
            raise AssertionError("the watch ended without a slice")
        finally:
            await agent.stop()

    async def measure_prepare(self, agent: AgentProcess, count: int) -> Prepare:
        """Run pods one after the other, and delete them; the times are those of the kubelet's own metrics.

        A pod whose claim the kubelet may not read yet, which is no driver's fault, is made to try again.
        """
        before, cpu_s = await self._prepare_times(), _cpu_s(agent.pid)
        async with retrying(self.client):
            ready_s = [await self.measure_pod(f"bench-{number}") for number in range(count)]
        after, used_s = await self._prepare_times(), _cpu_s(agent.pid) - cpu_s
        await delete_pods(self.client)
        calls = after[1] - before[1]
        return Prepare(
            mean_ms=1000.0 * (after[0] - before[0]) / calls,
            cpu_ms=1000.0 * used_s / calls,
            ready_s=sum(ready_s) / count,
        )

    async def measure_alone(self, count: int) -> Alone:
        """Run pods one after the other, and meanwhile flush files on the node's disk and read the pod's claim."""
        flushes_s, reads_s = list[float](), list[float]()
        probing = asyncio.create_task(self._probe(flushes_s, reads_s))
        try:
            async with retrying(self.client):
                for number in range(count):
                    await self.measure_pod(f"probe-{number}")
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        return Alone(
            flush_ms=1000.0 * sum(flushes_s) / len(flushes_s), read_ms=1000.0 * sum(reads_s) / max(len(reads_s), 1)
        )

    async def _probe(self, flushes_s: list[float], reads_s: list[float]) -> None:
        """Add up what a flush and a read take, again and again, until cancelled; the seconds of each are appended."""
        file = self.cluster.folder / "probe"
        while True:
            flushes_s.append(await asyncio.to_thread(_time_flush, file))
            for claim in (await self.client.list(RESOURCE_CLAIM, namespace="default", limit=1)).items:
                start_s = time.monotonic()
                await self.client.get(RESOURCE_CLAIM, claim["metadata"]["name"], namespace="default")
                reads_s.append(time.monotonic() - start_s)
            await asyncio.sleep(_PROBE_S)

    async def measure_pod(self, name: str) -> float:
        """Return the seconds from the creation of a pod with a claim until it is ready."""
        start_s = time.monotonic()
        await self.client.create(POD, pod(name, claims={"gpu": "gpu"}))
        await wait_for_object(self.client, POD, name, is_ready, timeout_s=150)
        return time.monotonic() - start_s

    async def measure_kubelet_restart(self) -> float:
        """Return for how many seconds the API server showed no slice, because the kubelet started anew."""
        return await self._measure_gap(self.cluster.restart_kubelet())

    async def measure_slices_deleted(self) -> float:
        """Return for how many seconds the API server showed no slice, because somebody deleted all."""
        return await self._measure_gap(self._delete_each_slice())

    async def _measure_gap(self, cause: Coroutine[Any, Any, None]) -> float:
        listed = await self.client.list(RESOURCE_SLICE)
        there = {item["metadata"]["uid"] for item in listed.items}
        causing = asyncio.create_task(cause)
        gone_s = 0.0
        async for event in self.client.watch(RESOURCE_SLICE, resource_version=listed.resource_version):
            uid = (event.object.get("metadata") or {}).get("uid")
            if event.type == "DELETED":
                there.discard(uid)
                gone_s = gone_s if there else time.monotonic()
            elif event.type == "ADDED" and gone_s:
                back_s = time.monotonic()
                await causing
                return back_s - gone_s
        raise AssertionError("the watch ended without a slice")

    async def measure_killed(self, name: str) -> float:
        """Return the seconds from the restart of an agent, killed while a pod waits for its prepare, until it is ready.

        The agent is stopped first, so that the kubelet's call is under way for certain when it is killed.
        """
        agent = AgentProcess(self._command, self.cluster.folder / "agent.log")
        await agent.start()
        await agent.wait_registered(DRIVER)
        await wait_for(self.client, RESOURCE_SLICE, bool)
        agent.send(signal.SIGSTOP)
        await self.client.create(POD, pod(name, claims={"gpu": "gpu"}))
        await wait_for_object(self.client, POD, name, lambda item: bool(item["spec"].get("nodeName")))
        await asyncio.sleep(2.0)
        await agent.kill()
        start_s = time.monotonic()
        async with self.agent():
            await wait_for_object(self.client, POD, name, is_ready, timeout_s=150)
            return time.monotonic() - start_s

    async def measure_released(self, count: int) -> float:
        """Return the seconds from the start of an agent until pods that were deleted without one hold nothing more."""
        agent = AgentProcess(self._command, self.cluster.folder / "agent.log")
        await agent.start()
        await agent.wait_registered(DRIVER)
        await wait_for(self.client, RESOURCE_SLICE, bool)
        names = [f"gone-{number}" for number in range(count)]
        for name in names:
            await self.measure_pod(name)
        await agent.kill()
        for name in names:
            await self.client.delete(POD, name, namespace="default")
        # Until the kubelet has tried in vain.
        await asyncio.sleep(_SETTLE_S)
        start_s = time.monotonic()
        async with self.agent():
            for _ in range(int(_RELEASED_S / _LOOK_S)):
                if not _claims_held(self.cluster):
                    return time.monotonic() - start_s
                await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"claims are held {_RELEASED_S:g} s after the start of an agent")

    async def prepare_cluster(self) -> None:
        """Create the class and the template that pods of the measures use."""
        await self.client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
        await self.client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))

    async def delete_slices(self) -> None:
        """Delete all slices, and return when they are gone."""
        await self._delete_each_slice()
        await wait_for(self.client, RESOURCE_SLICE, lambda items: not items)

    async def _delete_each_slice(self) -> None:
        for item in (await self.client.list(RESOURCE_SLICE)).items:
            await self.client.delete(RESOURCE_SLICE, item["metadata"]["name"])

    async def _prepare_times(self) -> tuple[float, float]:
        """Return the sum of seconds and the number of NodePrepareResources calls, as the kubelet counts them."""
        text = await asyncio.to_thread(_read_metrics, self.cluster.layout.ports["kubelet"])
        lines = [line for line in text.splitlines() if "NodePrepareResources" in line]
        return _sum(lines, "_seconds_sum"), _sum(lines, "_seconds_count")


@contextlib.asynccontextmanager
async def controlling(cluster: RealCluster) -> AsyncIterator[None]:
    """Have a controller lead while the block runs."""
    command = [
        sys.executable, "-m", "claimsmith", "controller", "--kubeconfig", str(cluster.kubeconfig),
        "--namespace", "default", "--log-format", "json",
    ]  # fmt: skip
    controller = AgentProcess(command, cluster.folder / "controller.log")
    await controller.start()
    try:
        await controller.wait_logged("Controller leads")
        yield
    finally:
        await controller.stop()


def _claims_held(cluster: RealCluster) -> int:
    """Return how many claims the ledger has."""
    return len(json.loads((cluster.paths.folder_of(DRIVER) / CHECKPOINT_FILE).read_text())["claims"])


def _time_flush(file: Path) -> float:
    """Return the seconds that one file takes until it is on the disk, written and flushed by nobody but us."""
    with file.open("wb", buffering=0) as stream:
        stream.write(os.urandom(_PROBE_BYTES))
        start_s = time.monotonic()
        os.fsync(stream.fileno())
        return time.monotonic() - start_s


def _read_metrics(port: int) -> str:
    """Return the metrics of a kubelet, which lets anybody of this machine read them; its certificate is its own."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context(), timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def _read_rollup(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()


def _sum(lines: Sequence[str], name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.partition("{")[0].endswith(name))


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def config_text(devices: Mapping[str, Any]) -> str:
    """Return a configuration of the agent with simulated devices, everything else as usual."""
    head = {"apiVersion": "claimsmith.dev/v1alpha1"}
    agent = {**head, "kind": "AgentConfiguration", "spec": {"drivers": [{"plugin": "simulated"}]}}
    return f"{json.dumps(agent)}\n---\n{json.dumps({**head, 'kind': 'SimulatedDevices', 'spec': devices})}\n"
