"""The embedded cluster: API server, controllers, scheduler, and a kubelet and an agent for each node, in one process."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from claimsmith.api.kinds import NAMESPACE, NODE
from claimsmith.cluster.follow import follow_claims
from claimsmith.daemons.clusterplan import ClusterPlan, NodePlan, PlannedObject
from claimsmith.daemons.embeddednode import run_node
from claimsmith.daemons.scheduler import SCHEDULER_NAME, Scheduler, SchedulerOptions
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.controllers.all import Controllers
from claimsmith.embedded.kubelet.claims import StoredClaims
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.embedded.kubelet.node import ClusterServices, NodeConfig
from claimsmith.embedded.kubelet.sources import PodDispatcher, bound_pods
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_sqlite import SqliteJournal
from claimsmith.errors import AlreadyExistsError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder
from claimsmith.kube.informers import Informers
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.sdk.driver import Driver, DriverContext

__all__ = ["Playground", "PlaygroundOptions"]

_SERVER_FIELDS: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields", "selfLink"}
)
"""What a server has written into the metadata of objects that were read from another cluster."""
_SCHEDULER: Final = SchedulerOptions(names=frozenset({SCHEDULER_NAME, "default-scheduler"}))
_CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "pods": "110"}
_START_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundOptions:
    """How an embedded cluster is run.

    Args:
        port: Port of the API server on 127.0.0.1; 0 for any free one.
        state_file: SQLite file that keeps all objects; None keeps them in memory.
        folder: Where the nodes have their sockets and files; None for a temporary folder.
        settings_files: Files whose settings of drivers are followed while the cluster runs.
        scheduler: Options of the scheduler.
    """

    port: int = 0
    state_file: Path | None = None
    folder: Path | None = None
    settings_files: tuple[Path, ...] = ()
    scheduler: SchedulerOptions = field(default_factory=lambda: _SCHEDULER)


class Playground:
    """A cluster that lives as long as the context is open. What goes wrong in a part of it ends the context.

    Args:
        plan: What the cluster starts with.
        options: How it is run.

    Raises:
        ConfigError: The port is taken, or a file or folder can't be used.
        InputError: Settings of a driver can't be used, or the API server refuses an object.
    """

    def __init__(self, plan: ClusterPlan, options: PlaygroundOptions | None = None) -> None:
        self.plan, self.options = plan, options or PlaygroundOptions()
        self.logs = ContainerLogs()
        """What containers have printed."""
        self.drivers: dict[str, tuple[Driver, ...]] = {}
        """Drivers by node."""
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """Address of the API server."""
        return self._server.url

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            folder = self._make_folder(stack)
            await self._start_server(stack)
            self.client = KubeClient.for_url(self.url)
            stack.push_async_callback(self.client.close)
            self._group = await stack.enter_async_context(asyncio.TaskGroup())
            self._tasks: list[asyncio.Task[None]] = []
            stack.callback(lambda: [task.cancel() for task in self._tasks])
            await self._start_control_plane()
            await self._start_nodes(folder)
            await self._create_objects()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _make_folder(self, stack: AsyncExitStack) -> Path:
        if self.options.folder is not None:
            make_folder(self.options.folder)
            return self.options.folder.absolute()
        folder = Path(tempfile.mkdtemp(prefix="cs-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    async def _start_server(self, stack: AsyncExitStack) -> None:
        journal = SqliteJournal(self.options.state_file) if self.options.state_file else None
        store = await stack.enter_async_context(Store(stored_kinds(), journal=journal))
        server = EmbeddedApiServer(store, port=self.options.port, logs=self.logs)
        self._server = await stack.enter_async_context(server)

    def _spawn(self, work: Any, name: str) -> None:
        self._tasks.append(self._group.create_task(work, name=name))

    async def _start_control_plane(self) -> None:
        self._informers = informers = Informers(self.client)
        controllers = Controllers(self.client, informers)
        scheduler = Scheduler(self.client, informers, self.options.scheduler)
        self._spawn(informers.run(), "informers")
        self._spawn(controllers.run(), "controllers")
        self._spawn(scheduler.run(), "scheduler")
        async with asyncio.timeout(_START_TIMEOUT_S):
            await scheduler.ready.wait()

    async def _start_nodes(self, folder: Path) -> None:
        pods = bound_pods(self.client)
        events = EventRecorder(self.client, "kubelet")
        claims = StoredClaims(self.client, known=follow_claims(self._informers).find)
        services = ClusterServices(pods=PodDispatcher(pods), claims=claims, events=events, logs=self.logs)
        self._spawn(pods.run(), "pods of nodes")
        self._spawn(events.run(), "events of nodes")
        ready = []
        for number, node in enumerate(self.plan.nodes):
            context = DriverContext(
                node_name=node.name, settings_files=self.options.settings_files, documents=self._direct_settings()
            )
            config, paths = _configure(node, number), NodePaths.compact(folder / str(number))
            is_ready: asyncio.Future[tuple[Driver, ...]] = asyncio.get_running_loop().create_future()
            work = run_node(config, paths=paths, client=self.client, services=services, context=context, ready=is_ready)
            self._spawn(work, f"node {node.name}")
            ready.append((node, is_ready))
        async with asyncio.timeout(_START_TIMEOUT_S + len(ready)):
            for node, is_ready in ready:
                self.drivers[node.name] = await is_ready
                await self._finish_node(node)

    def _direct_settings(self) -> tuple[Any, ...]:
        """Return the settings that don't stand in a file that is followed."""
        followed = {str(path) for path in self.options.settings_files}
        return tuple(item for item in self.plan.settings if item.source not in followed or not item.text)

    async def _finish_node(self, node: NodePlan) -> None:
        """Give the node what its manifest says beyond its name and labels."""
        if node.manifest is None:
            return
        obj = node.manifest.object
        spec = {key: value for key, value in (obj.get("spec") or {}).items() if key in ("taints", "unschedulable")}
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if spec or annotations:
            await self.client.patch(NODE, node.name, {"metadata": {"annotations": annotations}, "spec": spec})
        features = (obj.get("status") or {}).get("declaredFeatures")
        if features:
            await self.client.patch(NODE, node.name, {"status": {"declaredFeatures": features}}, subresource="status")

    async def _create_objects(self) -> None:
        for namespace in self.plan.namespaces:
            await self._create(NAMESPACE, {"metadata": {"name": namespace}}, "")
        for item in self.plan.objects:
            await self.create(item)

    async def create(self, item: PlannedObject) -> None:
        """Create an object; one of the same name that is there already stays as it is."""
        await self._create(item.kind, _clean(item.manifest.object), item.namespace)

    async def _create(self, kind: Any, obj: Mapping[str, Any], namespace: str) -> None:
        try:
            await self.client.create(
                kind, {"apiVersion": kind.api_version, "kind": kind.kind, **obj}, namespace=namespace
            )
        except AlreadyExistsError:
            return


def _clean(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what only a server writes."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_FIELDS}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _configure(node: NodePlan, number: int) -> NodeConfig:
    return NodeConfig(
        name=node.name,
        labels=node.labels,
        capacity={**_CAPACITY, **node.capacity},
        pod_cidr=f"10.{244 + number // 256}.{number % 256}.0/24",
        host_ip=f"10.0.{number // 250}.{number % 250 + 1}",
    )
