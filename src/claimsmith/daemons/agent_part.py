"""One driver of an agent with all that belongs to it: inventory, slices, the plugins for the kubelet."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from claimsmith.daemons.agent_claims import ApiClaims, ApiStatuses
from claimsmith.daemons.agent_driver import DriverLoop
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.daemons.agent_options import AgentOptions
from claimsmith.errors import ApiError
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.names import DeviceId
from claimsmith.node.holding import Holding
from claimsmith.node.metadata import MetadataPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["DriverPart", "DriverState", "NodeContext"]

_log = get_logger("agent")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the drivers of a node share.

    Args:
        claims: Reads claims.
        boot_id: Which boot of the machine this is.
        meter: Takes the numbers of all of them.
    """

    node_name: str
    client: KubeClient
    paths: NodePaths
    claims: ApiClaims
    boot_id: str
    meter: Meter


class DriverPart:
    """One driver with all that belongs to it.

    Args:
        driver: The driver.
        context: What it shares with the others of the node.
        options: How the agent works.

    Raises:
        ConfigError: A socket's path is too long.
    """

    def __init__(self, driver: Driver, context: NodeContext, options: AgentOptions) -> None:
        self.driver, self._claims = LabelledDriver(driver), context.claims
        self.publisher = SlicePublisher(context.client, driver=driver.name, node=context.node_name)
        self.plugin = NodePlugin(
            self.driver,
            paths=context.paths,
            node_name=context.node_name,
            claims=context.claims,
            boot_id=context.boot_id,
            options=PluginOptions(
                instance_uid=options.instance_uid,
                meter=context.meter,
                holding=Holding(options.hold),
                sweep=options.sweep,
                serves_health=type(driver).watch_health is not Driver.watch_health,
                metadata=MetadataPolicy(for_all=options.device_metadata, attributes=self.publisher.find_attributes),
                statuses=ApiStatuses(context.client, driver.name),
            ),
        )
        self.loop = DriverLoop(
            self.driver,
            node=context.node_name,
            publisher=self.publisher,
            find_held=self._find_held,
            tell_kubelet=self.plugin.report_health,
            options=options.loop,
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
