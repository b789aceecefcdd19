"""An embedded API server, one node and the real plugin side of a driver, for scenarios; time passes by hand."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from claimsmith.api.kinds import EVENT, POD, RESOURCE_CLAIM
from claimsmith.api.resource import encode_resource_claim, parse_resource_claim
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.kubelet.claims import StoredClaims
from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.embedded.kubelet.node import ClusterServices, EmbeddedKubelet, NodeConfig
from claimsmith.embedded.kubelet.sources import PodDispatcher, bound_pods
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.events import ObjectReference
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.claim import ConsumerReference, DeviceRequest, DeviceResult, ResourceClaim
from claimsmith.model.names import ClaimRef, PodRef, RequestName
from claimsmith.node.holding import Holding, HoldPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions
from claimsmith.node.statusreports import ClaimStatusWriter
from claimsmith.sdk.driver import Driver
from claimsmith.testing.builders import allocated, alternatives, claim, request, sub

NODE = "node-a"


class ManualTime:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0
        self._sleepers: dict[asyncio.Event, float] = {}
        self._more = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self._sleepers[event] = self.now_s + seconds
        self._more.set()
        try:
            await event.wait()
        finally:
            self._sleepers.pop(event, None)

    async def sleepers(self, count: int) -> None:
        """Wait until so many tasks sleep: one is the kubelet's watch over its plugins."""
        async with asyncio.timeout(60):
            while len(self._sleepers) < count:
                self._more.clear()
                await self._more.wait()

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        for event in [event for event, until_s in self._sleepers.items() if until_s <= self.now_s]:
            del self._sleepers[event]
            event.set()

    @property
    def clock(self) -> Clock:
        return Clock(now_s=lambda: self.now_s, sleep=self.sleep)


class ApiClaims:
    """Reads claims for the plugin, as the agent does."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, ref.name, namespace=ref.namespace))


class KeptEvents:
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.more = asyncio.Event()

    def record(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        self.messages.append((reason, message))
        self.more.set()

    async def wait_for(self, reason: str) -> str:
        async with asyncio.timeout(60):
            while True:
                self.more.clear()
                for found, message in self.messages:
                    if found == reason:
                        return message
                await self.more.wait()


class EmbeddedNode:
    """One node of an embedded cluster, with its API server."""

    def __init__(self, root: Path, client: KubeClient) -> None:
        self.paths, self.client = NodePaths.compact(root), client
        self.time, self.logs, self.events = ManualTime(), ContainerLogs(), KeptEvents()
        self.pods = bound_pods(client)
        self._changed = asyncio.Event()
        self.pods.subscribe(lambda old, new: self._changed.set())
        self.source = PodDispatcher(self.pods)
        self.kubelet = self.new_kubelet()

    def new_kubelet(self, source: PodDispatcher | None = None) -> EmbeddedKubelet:
        services = ClusterServices(
            pods=source or self.source,
            claims=StoredClaims(self.client),
            events=self.events,
            logs=self.logs,
            clock=self.time.clock,
        )
        return EmbeddedKubelet(NodeConfig(name=NODE), paths=self.paths, client=self.client, services=services)

    def plugin(
        self,
        driver: Driver,
        *,
        instance_uid: str = "",
        statuses: ClaimStatusWriter | None = None,
        serves_health: bool = False,
    ) -> NodePlugin:
        return NodePlugin(
            driver,
            paths=self.paths,
            node_name=NODE,
            claims=ApiClaims(self.client),
            boot_id="boot",
            options=PluginOptions(
                instance_uid=instance_uid,
                holding=Holding(HoldPolicy(hold_s=0)),
                statuses=statuses,
                serves_health=serves_health,
            ),
        )

    @contextlib.asynccontextmanager
    async def running(self, kubelet: EmbeddedKubelet | None = None) -> AsyncIterator[EmbeddedKubelet]:
        """Run a kubelet until the block ends."""
        kubelet = kubelet or self.kubelet
        async with task(kubelet.run()):
            async with asyncio.timeout(60):
                await kubelet.wait_ready()
            yield kubelet

    @contextlib.asynccontextmanager
    async def serving(self, driver: Driver, *, statuses: ClaimStatusWriter | None = None) -> AsyncIterator[NodePlugin]:
        """Serve a driver, registered with the kubelet, until the block ends."""
        async with self.plugin(driver, statuses=statuses) as plugin:
            await self.kubelet.check_plugins()
            yield plugin

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds; looked at again whenever a pod changes."""
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def pod(self, name: str) -> KubeObject:
        return self.pods.find("default", name) or {}

    async def reaches(self, name: str, phase: str) -> KubeObject:
        """Wait until a pod is in a phase; return it."""
        await self.wait_for(lambda: (self.pod(name).get("status") or {}).get("phase") == phase)
        return self.pod(name)

    async def goes(self, name: str) -> None:
        """Wait until a pod is gone."""
        await self.wait_for(lambda: not self.pod(name))

    async def create_pod(self, name: str, *claims: str, **changes: Any) -> KubeObject:
        """Create a pod that no node has yet; each claim is named by its container by its own name."""
        return await self.client.create(POD, pod_manifest(name, *claims, **changes))

    async def bind(self, *names: str) -> None:
        """Bind pods to the node."""
        for name in names:
            await self.client.bind(PodRef("default", name), NODE)

    async def run_pod(self, name: str, *results: DeviceResult | str, **changes: Any) -> tuple[KubeObject, str]:
        """Create a pod with a claim of the same name, wait until it runs; return the pod and the claim's uid."""
        pod = await self.create_pod(name, name, **changes)
        made = await self.create_claim(name, *results, pods={name: uid_of(pod)})
        await self.bind(name)
        return await self.reaches(name, "Running"), uid_of(made)

    async def create_claim(self, name: str, *results: DeviceResult | str, pods: Mapping[str, str]) -> KubeObject:
        """Create a claim that is allocated and reserved for pods, given by name and uid."""
        consumers = [ConsumerReference(resource="pods", name=name, uid=uid) for name, uid in pods.items()]
        value = encode_resource_claim(allocated(claim(name, *requests_for(*results)), *results, reserved_for=consumers))
        made = await self.client.create(
            RESOURCE_CLAIM, {"metadata": {"name": name, "namespace": "default"}, "spec": value["spec"]}
        )
        patch = {"status": value["status"]}
        await self.client.patch(RESOURCE_CLAIM, name, patch, namespace="default", subresource="status")
        return made

    async def wait_until_free(self, kubelet: EmbeddedKubelet) -> None:
        """Wait until no pod uses a claim."""
        async with asyncio.timeout(60):
            while kubelet.claims.states():
                self.time.advance(0.5)
                await asyncio.sleep(0)

    def output(self, pod: KubeObject, container: str = "main") -> list[str]:
        """Return what a container has printed."""
        return [line.text for line in self.logs.find_lines(pod["metadata"]["uid"], container) or ()]

    async def count(self, kind: Any = EVENT) -> int:
        return len((await self.client.list(kind)).items)


def requests_for(*results: DeviceResult | str) -> list[DeviceRequest]:
    """Return the requests that results name, so that the API server takes them."""
    names = [RequestName.parse("r" if isinstance(item, str) else item.request) for item in results]
    return [
        alternatives(name.request, sub(name.subrequest)) if name.subrequest else request(name.request)
        for name in dict.fromkeys(names)
    ]


def uid_of(obj: KubeObject) -> str:
    """Return the uid of a stored object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def pod_manifest(name: str, *claims: str, **changes: Any) -> KubeObject:
    """Return a pod of one container that uses claims and sleeps for 2 s."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        "containers": [
            {
                "name": "main",
                "image": "registry.example.test/tool",
                "command": ["sleep", "2"],
                "resources": {"claims": [{"name": claim} for claim in claims]},
            }
        ],
        **changes.pop("spec", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **changes},
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def task(work: Any) -> AsyncIterator[None]:
    """Run a coroutine until the block ends; what it raises before is raised here."""
    running = asyncio.ensure_future(work)
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextlib.asynccontextmanager
async def embedded_node() -> AsyncIterator[EmbeddedNode]:
    """Start an API server and follow its pods; the node's kubelet and plugins are started by the test."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
            client = KubeClient.for_url(server.url)
            try:
                node = EmbeddedNode(Path(folder), client)
                async with task(node.pods.run()):
                    await node.pods.wait_synced()
                    yield node
            finally:
                await client.close()
