"""The embedded cluster in one process: API server, controllers, scheduler, and for each node a kubelet and an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from claimsmith.api.kinds import NAMESPACE, NODE, Kind
from claimsmith.api.manifests import Manifest
from claimsmith.cluster.follow import follow_claims
from claimsmith.daemons.agent import AgentOptions
from claimsmith.daemons.agent_config import AgentConfig, parse_agent_config
from claimsmith.daemons.clusterplan import ClusterPlan, NodePlan, PlannedObject
from claimsmith.daemons.embeddednode import NodePlace, run_node
from claimsmith.daemons.folderlock import find_temporary_place, hold_folder, open_temporary_folder
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
from claimsmith.errors import AlreadyExistsError, InputError, InvalidObjectError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder
from claimsmith.kube.informers import Informers
from claimsmith.kubelet.paths import NodePaths, parse_socket_path
from claimsmith.node.registration import registration_socket, service_socket
from claimsmith.sdk.driver import Driver, DriverContext

__all__ = ["PLAYGROUND_SCHEDULER", "Playground", "PlaygroundOptions"]

PLAYGROUND_SCHEDULER: Final = SchedulerOptions(names=frozenset({SCHEDULER_NAME, "default-scheduler"}))
"""Options of an embedded cluster's scheduler: it takes all pods."""
_CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "pods": "110"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundOptions:
    """How an embedded cluster is run.

    Args:
        port: Port of the API server on 127.0.0.1; 0 for any free one.
        state_file: SQLite file that keeps all objects; None keeps them in memory.
        folder: Where the nodes have their sockets and files; None for a temporary folder.
        settings_files: Files whose settings of drivers are followed while the cluster runs.
        scheduler: Options of the scheduler.
        agent: Options of the nodes' agents; each start of a node is a new boot.
        quarantine_s: Seconds after which the pods of a deleted node are ended; >= 0.
    """

    port: int = 0
    state_file: Path | None = None
    folder: Path | None = None
    settings_files: tuple[Path, ...] = ()
    scheduler: SchedulerOptions = field(default_factory=lambda: PLAYGROUND_SCHEDULER)
    agent: AgentOptions = field(default_factory=AgentOptions)
    quarantine_s: float = 40.0


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
        self.nodes: tuple[NodePlan, ...] = ()
        """The nodes that run: those of the plan, and those that the state file knows besides."""
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """Address of the API server."""
        return self._server.url

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            given = self.options.folder.absolute() if self.options.folder is not None else None
            self._check_lengths(given)
            await self._start_server(stack)
            folder = stack.enter_context(open_temporary_folder() if given is None else hold_folder(given))
            self.client = KubeClient.for_url(self.url)
            stack.push_async_callback(self.client.close)
            self._group = await stack.enter_async_context(asyncio.TaskGroup())
            self._tasks: list[asyncio.Task[None]] = []
            stack.callback(lambda: [task.cancel() for task in self._tasks])
            await self._start_control_plane()
            self.nodes = await self._list_nodes()
            await self._start_nodes(folder)
            await self._create_objects()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _check_lengths(self, folder: Path | None) -> None:
        """Refuse a folder in which the nodes' sockets would have too long names, before anything is made.

        Raises:
            ConfigError: A path is too long.
        """
        paths = NodePaths.compact((folder or find_temporary_place()) / str(len(self.plan.nodes)))
        for driver in {str((item.object.get("spec") or {}).get("driver") or "") for item in self.plan.settings}:
            parse_socket_path(registration_socket(paths.plugins_registry, driver))
            parse_socket_path(service_socket(paths.folder_of(driver)))

    async def _start_server(self, stack: AsyncExitStack) -> None:
        journal = SqliteJournal(self.options.state_file) if self.options.state_file else None
        store = await stack.enter_async_context(Store(stored_kinds(), journal=journal))
        server = EmbeddedApiServer(store, port=self.options.port, logs=self.logs)
        self._server = await stack.enter_async_context(server)

    def _spawn(self, work: Any, name: str) -> None:
        self._tasks.append(self._group.create_task(work, name=name))

    async def _start_control_plane(self) -> None:
        self._informers = informers = Informers(self.client)
        controllers = Controllers(self.client, informers, quarantine_s=self.options.quarantine_s)
        scheduler = Scheduler(self.client, informers, self.options.scheduler)
        self._spawn(informers.run(), "informers")
        self._spawn(controllers.run(), "controllers")
        self._spawn(scheduler.run(), "scheduler")
        await scheduler.ready.wait()

    async def _list_nodes(self) -> tuple[NodePlan, ...]:
        """Return the nodes to run; those that are only in the state file have no devices, but end their pods."""
        planned = {node.name for node in self.plan.nodes}
        stored = [obj["metadata"]["name"] for obj in (await self.client.list(NODE)).items]
        return (*self.plan.nodes, *(NodePlan(name=name) for name in stored if name not in planned))

    async def _start_nodes(self, folder: Path) -> None:
        pods = bound_pods(self.client)
        events = EventRecorder(self.client, "kubelet")
        claims = StoredClaims(self.client, known=follow_claims(self._informers).find)
        services = ClusterServices(pods=PodDispatcher(pods), claims=claims, events=events, logs=self.logs)
        self._spawn(pods.run(), "pods of nodes")
        self._spawn(events.run(), "events of nodes")
        ready = []
        agent = None if self.plan.agent is None else _read_agent(self.plan.agent)
        for number, node in enumerate(self.nodes):
            place = NodePlace(
                agent=agent,
                config=_configure(node, number),
                paths=NodePaths.compact(folder / str(number)),
                settings=DriverContext(
                    node_name=node.name, settings_files=self.options.settings_files, documents=self._direct_settings()
                ),
            )
            is_ready: asyncio.Future[tuple[Driver, ...]] = asyncio.get_running_loop().create_future()
            work = run_node(place, client=self.client, services=services, options=self.options.agent, ready=is_ready)
            self._spawn(work, f"node {node.name}")
            ready.append((node, is_ready))
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
        """Create an object; one of the same name that is there already stays as it is.

        Raises:
            InputError: The API server refuses the object.
        """
        try:
            await self._create(item.kind, item.content, item.namespace)
        except InvalidObjectError as error:
            raise InputError(f"{item.manifest.locate()}: {error}; correct the object") from error

    async def _create(self, kind: Kind, obj: Mapping[str, Any], namespace: str) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        try:
            await self.client.create(kind, body, namespace=namespace)
        except AlreadyExistsError:
            return


def _read_agent(manifest: Manifest) -> AgentConfig:
    """Return the agents' configuration; it names files relative to its own."""
    return parse_agent_config(manifest, folder=Path(manifest.source).absolute().parent)


def _configure(node: NodePlan, number: int) -> NodeConfig:
    return NodeConfig(
        name=node.name,
        labels=node.labels,
        capacity={**_CAPACITY, **node.capacity},
        pod_cidr=f"10.{244 + number // 256}.{number % 256}.0/24",
        host_ip=f"10.0.{number // 250}.{number % 250 + 1}",
    )
