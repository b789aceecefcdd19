"""Two nodes that tests ask the same: one with the kubelet of Kubernetes, one with the embedded kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.kubelet.claims import StoredClaims
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.embedded.kubelet.node import ClusterServices, EmbeddedKubelet, NodeConfig
from claimsmith.embedded.kubelet.sources import PodDispatcher, bound_pods
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.events import EventRecorder
from claimsmith.kubelet.paths import NodePaths
from tests.cluster.cluster import RealCluster
from tests.cluster.recipe import NODE as NODE_NAME

__all__ = ["LOOK", "EmbeddedWorld", "RealWorld", "World", "embedded_world", "read_facts"]

LOOK: Final = (
    "env | grep -E '^(GPU|GPUS|OWN)'; ls -d /dev/gpu-* 2>/dev/null; mount | grep ' /opt/'; echo done; sleep {seconds}"
)
"""A script that prints what a container has got, and then sleeps."""
_READS: Final = 1200
_KNOWS_PODS: Final = "Finished populating initial desired state of world"
"""What a kubelet logs once it has heard of its pods from the API server."""
_LOG_LINES: Final = 2000
_READ_PAUSE_S: Final = 0.1


class World(Protocol):
    """A node with its API server."""

    client: KubeClient
    paths: NodePaths

    async def restart_kubelet(self) -> None:
        """End the kubelet and start it again; containers go on."""
        ...

    async def output(self, pod: KubeObject, container: str = "main") -> dict[str, Any]:
        """Return what a container has seen: variables, device files and mounts."""
        ...


class RealWorld:
    """The real node."""

    def __init__(self, cluster: RealCluster, client: KubeClient) -> None:
        self._cluster, self.client, self.paths = cluster, client, cluster.paths

    async def restart_kubelet(self) -> None:
        before, logged = self._registration(), self._cluster.daemons.log_size("kubelet")
        await self._cluster.restart_kubelet()
        for _ in range(_READS):
            serves = (found := self._registration()) is not None and found != before
            # Before it knows its pods, it takes the devices of those that are gone for in use.
            if serves and _KNOWS_PODS in self._cluster.daemons.tail("kubelet", _LOG_LINES, since=logged):
                return
            await asyncio.sleep(_READ_PAUSE_S)
        raise AssertionError("the kubelet does not serve registration of device plugins, or does not know its pods")

    def _registration(self) -> tuple[int, int] | None:
        """Return what tells one registration socket from the next; plugins' sockets are wiped before it is served."""
        try:
            found = (self.paths.device_plugins / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    async def output(self, pod: KubeObject, container: str = "main") -> dict[str, Any]:
        for _ in range(_READS):
            lines = self._cluster.container_log(pod, container).splitlines()
            if "done" in lines:
                return read_facts(lines)
            await asyncio.sleep(_READ_PAUSE_S)
        raise AssertionError(f"container {container} of {pod['metadata']['name']} printed only {lines}")


class EmbeddedWorld:
    """An embedded node, run by this process."""

    def __init__(self, folder: Path, client: KubeClient) -> None:
        self.client, self.paths = client, NodePaths.compact(folder)
        self._logs = ContainerLogs()
        self._pods = bound_pods(client)
        self._source = PodDispatcher(self._pods)
        self._events = EventRecorder(client, "kubelet")
        self._kubelet: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the node until the block ends."""
        others = [asyncio.create_task(self._pods.run()), asyncio.create_task(self._events.run())]
        await self._start()
        try:
            yield
        finally:
            await self._stop()
            for task in others:
                task.cancel()
            await asyncio.wait(others)

    async def restart_kubelet(self) -> None:
        await self._stop()
        await self._start()

    async def output(self, pod: KubeObject, container: str = "main") -> dict[str, Any]:
        lines = [line.text for line in self._logs.find_lines(pod["metadata"]["uid"], container) or ()]
        return read_facts(lines)

    async def _start(self) -> None:
        services = ClusterServices(
            pods=self._source, claims=StoredClaims(self.client), events=self._events, logs=self._logs
        )
        kubelet = EmbeddedKubelet(NodeConfig(name=NODE_NAME), paths=self.paths, client=self.client, services=services)
        self._kubelet = asyncio.create_task(kubelet.run())
        async with asyncio.timeout(60):
            await kubelet.wait_ready()

    async def _stop(self) -> None:
        if self._kubelet is not None:
            self._kubelet.cancel()
            await asyncio.wait([self._kubelet])


@contextlib.asynccontextmanager
async def embedded_world() -> AsyncIterator[EmbeddedWorld]:
    """Run an embedded API server with one node."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
            client = KubeClient.for_url(server.url)
            world = EmbeddedWorld(Path(folder), client)
            try:
                async with world.running():
                    yield world
            finally:
                await client.close()


def read_facts(lines: list[str]) -> dict[str, Any]:
    """Return variables, device files and mounts of a container, from what either kind of container prints."""
    env, devices, mounts = {}, set(), {}
    for line in lines:
        if found := re.match(r"(?:env )?((?:GPU|GPUS|OWN)\w*)=(.*)", line):
            env[found[1]] = found[2]
        elif found := re.match(r"(?:device )?(/dev/gpu-\S+)", line):
            devices.add(found[1])
        elif found := re.match(r"(?:mount (/opt/\S+) from \S+|.* on (/opt/\S+) type \S+) ?(.*)", line):
            mounts[found[1] or found[2]] = "ro" if re.search(r"\bro\b", found[3]) else "rw"
    return {"env": env, "devices": sorted(devices), "mounts": mounts}
