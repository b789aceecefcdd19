"""All drivers of one node in one process: found, published, served to the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from claimsmith.api.kinds import NODE, RESOURCE_CLAIM
from claimsmith.api.resource import parse_resource_claim
from claimsmith.daemons.agent_driver import DriverLoop, LoopOptions
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.errors import ApiError, ClaimsmithError, ConfigError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.node.holding import Holding, HoldPolicy
from claimsmith.node.metadata import MetadataPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions, read_boot_id
from claimsmith.node.sweep import SweepPolicy
from claimsmith.publish.claimstatus import apply_device_status
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["Agent", "AgentOptions", "ApiClaims", "ApiStatuses", "DriverState"]

_log = get_logger("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent works.

    Args:
        loop: How often drivers are asked, and how health becomes taints.
        instance_uid: uid of the agent's pod; needed only for two at a time, as during a rolling update.
        boot_id: Which boot of the machine this is; None: ask the kernel.
        hold: How long a prepare that can't succeed yet waits.
        sweep: How often to look for claims that are over.
        device_metadata: Whether programs in containers get a file about each device, also where the driver gives none.
    """

    loop: LoopOptions = field(default_factory=LoopOptions)
    instance_uid: str = ""
    boot_id: str | None = None
    hold: HoldPolicy = field(default_factory=HoldPolicy)
    sweep: SweepPolicy = field(default_factory=SweepPolicy)
    device_metadata: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """How one driver fares.

    Args:
        errors: One sentence for each thing that keeps devices from being published or listed.
        devices: Number of devices that the API server shows.
        prepared: Number of claims that are prepared.
        adjusted: One sentence for each part of a device that is published in another form, or not at all.
    """

    driver: str
    errors: tuple[str, ...]
    devices: int
    prepared: int
    adjusted: tuple[str, ...] = ()


class ApiClaims:
    """Reads claims from the API server, for the drivers of a node."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        """Return a claim as it is now.

        Raises:
            NotFoundError: There is none.
            ApiError: It can't be read now.
        """
        return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, ref.name, namespace=ref.namespace))

    async def find_held(self, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Return those of some devices that allocated claims hold.

        Raises:
            ApiError: The claims can't be listed now.
        """
        held: set[DeviceId] = set()
        for obj in (await self._client.list(RESOURCE_CLAIM)).items:
            try:
                claim = parse_resource_claim(obj)
            except ClaimsmithError as error:
                log_event(_log, logging.WARNING, "A claim can't be read", reason=error)
                continue
            results = claim.allocation.results if claim.allocation is not None else ()
            held.update(result.device_id for result in results if not result.admin_access)
        return devices & held


class ApiStatuses:
    """Writes what a driver says of devices into the statuses of their claims."""

    def __init__(self, client: KubeClient, driver: str) -> None:
        self._client, self._driver = client, driver

    async def write_devices(self, status: ClaimStatus) -> None:
        """Let the status say just this of the driver's devices.

        Raises:
            ApiError: It can't be written now.
        """
        await apply_device_status(self._client, self._driver, status.claim, status.devices)


class Agent:
    """Runs the drivers of a node while the context is open.

    What is prepared and published stays when it closes: a restart goes unnoticed. A failure of the agent itself, not
    of a driver or of the API server, ends the context.

    Args:
        drivers: The drivers; their names differ.
        node_name: Name of the node in the API.
        client: The API server.
        paths: The folders of the node.
        options: How it works.

    Raises:
        ConfigError: Two drivers have one name, or a socket's path is too long.
    """

    def __init__(
        self,
        drivers: Iterable[Driver],
        *,
        node_name: str,
        client: KubeClient,
        paths: NodePaths,
        options: AgentOptions | None = None,
    ) -> None:
        self.meter = Meter()
        """Numbers of all drivers."""
        chosen = options or AgentOptions()
        boot_id = read_boot_id() if chosen.boot_id is None else chosen.boot_id
        self._client, self._node_name = client, node_name
        claims = ApiClaims(client)
        self._parts: dict[str, _Part] = {}
        for driver in drivers:
            if driver.name in self._parts:
                raise ConfigError(f"agent: found two drivers named {driver.name}, allowed one; remove the second")
            labelled = LabelledDriver(driver)
            publisher = SlicePublisher(client, driver=driver.name, node=node_name)
            plugin = NodePlugin(
                labelled,
                paths=paths,
                node_name=node_name,
                claims=claims,
                boot_id=boot_id,
                options=PluginOptions(
                    instance_uid=chosen.instance_uid,
                    meter=self.meter,
                    holding=Holding(chosen.hold),
                    sweep=chosen.sweep,
                    serves_health=type(driver).watch_health is not Driver.watch_health,
                    metadata=MetadataPolicy(for_all=chosen.device_metadata, attributes=publisher.find_attributes),
                    statuses=ApiStatuses(client, driver.name),
                ),
            )
            self._parts[driver.name] = _Part(
                labelled, plugin, publisher, claims=claims, node=node_name, options=chosen.loop
            )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve the drivers to the kubelet and begin to publish.

        Raises:
            ConfigError: A folder or a socket can't be used.
        """
        async with AsyncExitStack() as stack:
            for part in self._parts.values():
                await stack.enter_async_context(part.plugin)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [group.create_task(work, name=name) for part in self._parts.values() for work, name in part.works()]
            tasks += [group.create_task(work, name="agent events") for work in self._tell_damage()]
            stack.callback(lambda: [task.cancel() for task in tasks])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving and publishing; slices, CDI files and prepared claims stay."""
        await self._stack.__aexit__(kind, error, trace)

    def _tell_damage(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Record an event about the node for each checkpoint that was damaged; gives what writes them, if any."""
        damaged = [part for part in self._parts.values() if part.plugin.damaged]
        if not damaged:
            return
        recorder = EventRecorder(self._client, "claimsmith-agent")
        # Events about nodes have the name in place of the uid, as those of the kubelet do.
        about = ObjectReference(kind=NODE, name=self._node_name, uid=self._node_name)
        for part in damaged:
            where, count = ", ".join(map(str, part.plugin.damaged)), len(part.plugin.prepared())
            text = f"The checkpoint of driver {part.driver.name} was damaged and is now {where}; its {count} prepared "
            text += "claims were read from the CDI files"
            recorder.record(about, "Warning", "CheckpointDamaged", text)
        yield recorder.run()

    async def wait_published(self) -> None:
        """Return once the API server shows the devices of every driver."""
        for part in self._parts.values():
            await part.publisher.wait_published()

    async def wait_registered(self, timeout_s: float) -> bool:
        """Wait until the kubelet has answered to the registration of every driver; tell whether it took them all."""
        waits = [part.plugin.registration.wait(timeout_s) for part in self._parts.values()]
        return all(await asyncio.gather(*waits))

    def states(self) -> tuple[DriverState, ...]:
        """Return how the drivers fare, in their order."""
        return tuple(part.state() for part in self._parts.values())


class _Part:
    """One driver with all that belongs to it."""

    def __init__(
        self,
        driver: LabelledDriver,
        plugin: NodePlugin,
        publisher: SlicePublisher,
        *,
        claims: ApiClaims,
        node: str,
        options: LoopOptions,
    ) -> None:
        self.driver, self.plugin, self.publisher, self._claims = driver, plugin, publisher, claims
        self.loop = DriverLoop(
            driver,
            node=node,
            publisher=publisher,
            find_held=self._find_held,
            tell_kubelet=plugin.report_health,
            options=options,
        )

    def works(self) -> tuple[tuple[Coroutine[Any, Any, None], str], ...]:
        """Return what runs as long as the agent does, with names."""
        return (
            (self.publisher.run(), f"publish {self.driver.name}"),
            (self.plugin.sweeper.run(trouble=lambda: self.publisher.last_error), f"leftovers {self.driver.name}"),
            (self.loop.run(), f"driver {self.driver.name}"),
        )

    def state(self) -> DriverState:
        """Return how the driver fares."""
        adjusted = [problem for problem in self.publisher.problems if problem.published]
        absent = [problem for problem in self.publisher.problems if not problem.published]
        troubles = (self.loop.last_error, self.publisher.last_error, *absent)
        return DriverState(
            driver=self.driver.name,
            errors=tuple(str(trouble) for trouble in troubles if trouble is not None),
            devices=sum(len(item.devices) for item in self.publisher.published()),
            prepared=len(self.plugin.prepared()),
            adjusted=tuple(map(str, adjusted)),
        )

    async def _find_held(self, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Return which devices claims hold: what is prepared here, and what the API server says is allocated."""
        if not devices:
            return devices
        prepared = {device.id for claim in self.plugin.prepared() for device in claim.devices}
        try:
            return (devices & prepared) | await self._claims.find_held(devices)
        except ApiError as error:
            log_event(
                _log, logging.WARNING, "Claims can't be listed, so that vanished devices stay published", reason=error
            )
            return devices
