"""One driver of an agent with all that belongs to it: inventory, slices, the plugins for the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.daemons.agent_claims import ApiClaims, ApiPods, ApiStatuses
from claimsmith.daemons.agent_driver import DriverLoop, Found
from claimsmith.daemons.agent_fronts import (
    Sides,
    find_new_foreign,
    plan_holders,
    plan_sides,
    plan_use_taints,
    withdraw_slices,
)
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.daemons.agent_options import AgentOptions, FrontEnds
from claimsmith.daemons.agent_return import report_return
from claimsmith.errors import ApiError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.model.names import DeviceId
from claimsmith.node.deviceplugin_rules import DevicePluginOptions
from claimsmith.node.deviceplugins import DevicePlugins, DeviceUse, PluginHost, ResourceState
from claimsmith.node.holding import Holding
from claimsmith.node.ledger_owner import DEVICE_PLUGIN_WAY, DRA_WAY, DriverOwner
from claimsmith.node.metadata import MetadataPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions
from claimsmith.publish.health_report import HealthReporter
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.publish.reports import ReportPublisher, plan_report
from claimsmith.publish.taintrules import TaintRuleKeeper
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["DriverPart", "DriverState", "NodeContext"]

_LOOK_S: Final = 10.0
"""Seconds between two looks at what foreign plugins have given away."""
_HOLDERS_S: Final = 1.0
"""Seconds between two looks at who has devices, for the report."""
_log = get_logger("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """How one driver fares.

    Args:
        errors: One sentence for each thing that keeps devices from being published or listed.
        devices: Number of devices that the API server shows.
        prepared: Number of claims that are prepared.
        adjusted: One sentence for each part of a device that is published in another form, or not at all.
        resources: How the extended resources fare that a device plugin offers.
    """

    driver: str
    errors: tuple[str, ...]
    devices: int
    prepared: int
    adjusted: tuple[str, ...] = ()
    resources: tuple[ResourceState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the drivers of a node share.

    Args:
        claims: Reads claims.
        boot_id: Which boot of the machine this is.
        meter: Takes the numbers of all of them.
        allocated: Gives the devices of a driver on this node that claims have in the API server, as far as that is
            followed.
        tell_foreign: Gets each device that a foreign plugin has newly given away.
        recorder: Takes events about the node.
        rules: Keeps DeviceTaintRules; None when no driver's policy wants them.
    """

    node_name: str
    client: KubeClient
    paths: NodePaths
    claims: ApiClaims
    boot_id: str
    meter: Meter
    allocated: Callable[[str], frozenset[DeviceId]]
    tell_foreign: Callable[[DeviceUse], None]
    recorder: EventRecorder
    rules: TaintRuleKeeper | None = None


class DriverPart:
    """One driver with all that belongs to it. What it finds goes one way: to slices, device plugins and reports.

    Args:
        driver: The driver.
        context: What it shares with the others of the node.
        options: How the agent works.
        on_found: Gets what is known of the devices, for what concerns the whole node.

    Raises:
        ConfigError: A socket's path is too long.
    """

    def __init__(
        self, driver: Driver, context: NodeContext, options: AgentOptions, *, on_found: Callable[[str, Found], None]
    ) -> None:
        self.driver, self._context = LabelledDriver(driver), context
        self.fronts = options.fronts.get(driver.name) or FrontEnds()
        """In which ways the devices are offered."""
        self.publisher = SlicePublisher(context.client, driver=driver.name, node=context.node_name)
        self.plugin = self._make_plugin(options)
        self.devices: DevicePlugins | None = None
        """The device plugins; None when there are none."""
        self._tell_node, self._instance_uid = on_found, options.instance_uid
        self._found: Found | None = None
        self._owner: DriverOwner | None = None
        self._withdrawn = asyncio.Event()
        self._uses: Mapping[DeviceId, DeviceUse] = {}
        self._sides = Sides(publishes=self.fronts.dra, serves_claims=False, serves_containers=False)
        self.reporter: ReportPublisher | None = None
        """Who writes the DeviceReport; None when nobody does."""
        if self.fronts.report is not None:
            self.reporter = ReportPublisher(context.client, node=context.node_name, pace=self.fronts.report)
        loop = self.fronts.loop or options.loop
        self.loop = DriverLoop(
            self.driver,
            node=context.node_name,
            publisher=self.publisher if self.fronts.dra else None,
            find_held=self._find_held,
            tell_kubelet=self.plugin.report_health,
            options=loop,
            reporter=HealthReporter(
                driver.name,
                context.node_name,
                meter=context.meter,
                recorder=context.recorder if loop.health.events else None,
            ),
            rules=context.rules,
            find_uses=lambda: plan_use_taints(self._uses),
            on_found=self._take,
            on_prepared=self.plugin.news.note,
        )

    def _make_plugin(self, options: AgentOptions) -> NodePlugin:
        driver, context = self.driver, self._context
        return NodePlugin(
            driver,
            paths=context.paths,
            node_name=context.node_name,
            claims=context.claims,
            boot_id=context.boot_id,
            options=PluginOptions(
                instance_uid=options.instance_uid,
                meter=context.meter,
                holding=Holding(options.hold),
                sweep=options.sweep,
                serves_health=type(driver.inner).watch_health is not Driver.watch_health,
                metadata=MetadataPolicy(for_all=options.device_metadata, attributes=self.publisher.find_attributes),
                consumers=ApiPods(context.client),
                statuses=ApiStatuses(context.client, driver.name),
                only_if_held=not self.fronts.dra,
            ),
        )

    async def enter(self, stack: AsyncExitStack) -> None:
        """Serve the kubelet until the stack closes; the ledger tells what has to be served.

        Raises:
            ConfigError: A folder or a socket can't be used.
        """
        self._own(stack)
        await stack.enter_async_context(self.plugin)
        ledger = self.plugin.ledger
        self._sides = plan_sides(self.fronts, ledger.claims(), ledger.grants())
        if self._sides.serves_containers:
            host = PluginHost(
                driver=self.driver,
                node_name=self._context.node_name,
                paths=self._context.paths,
                boot_id=self._context.boot_id,
                ledger=ledger,
                executor=self.plugin.executor,
                meter=self._context.meter,
                instance_uid=self._instance_uid,
            )
            self.devices = DevicePlugins(
                host,
                self.fronts.device_plugin or DevicePluginOptions(reconcile_s=_LOOK_S),
                foreign=self.fronts.foreign,
                on_freed=self.plugin.holding.wake,
                on_change=self._note_uses,
            )
            await stack.enter_async_context(self.devices)

    def _own(self, stack: AsyncExitStack) -> None:
        """Take the right to offer the devices; an agent that offers them in no way leaves it to others."""
        offered = ((self.fronts.dra, DRA_WAY), (self.fronts.device_plugin is not None, DEVICE_PLUGIN_WAY))
        ways = [way for is_on, way in offered if is_on]
        if ways:
            folder = self._context.paths.folder_of(self.driver.name)
            make_folder(folder)
            owner = DriverOwner(folder, driver=self.driver.name, ways=ways, instance_uid=self._instance_uid)
            self._owner = stack.enter_context(owner)

    def works(self) -> Iterator[tuple[Coroutine[Any, Any, None], str]]:
        """Yield what runs as long as the agent does, with names."""
        name = self.driver.name
        if self._sides.publishes:
            yield self.publisher.run(), f"publish {name}"
        else:
            yield self._withdraw(), f"withdraw {name}"
        if self._sides.serves_claims:
            yield self.plugin.sweeper.run(trouble=lambda: self.publisher.last_error), f"leftovers {name}"
            yield self._tell_return(), f"return {name}"
        if self.reporter is not None:
            yield self.reporter.run(), f"report {name}"
            yield self._follow_ledger(), f"holders {name}"
        yield self.loop.run(), f"driver {name}"

    async def _tell_return(self) -> None:
        """Tell the cluster that claims are served again, once the kubelet can call."""
        await self.plugin.registration.wait_accepted()
        unanswered = tuple(map(str, self.plugin.unanswered))
        await report_return(self._context.client, self.driver.name, node=self._context.node_name, unanswered=unanswered)

    def missing(self) -> tuple[str, ...]:
        """Return one sentence for each thing that keeps the driver from being served; none when it is."""
        name, found = self.driver.name, list(self.state().errors)
        registration = self.plugin.registration
        if self.plugin.is_serving and not registration.registered:
            found.append(f"driver {name}: {registration.error or 'the kubelet has not registered it yet'}")
        if self._sides.publishes and not self.publisher.is_published:
            found.append(f"driver {name}: its devices are not published yet")
        return tuple(found)

    def state(self) -> DriverState:
        """Return how the driver fares."""
        adjusted = [problem for problem in self.publisher.problems if problem.published]
        absent = [problem for problem in self.publisher.problems if not problem.published]
        report_error = self.reporter.last_error if self.reporter is not None else None
        troubles = (self.loop.last_error, self.publisher.last_error, report_error, *absent)
        resources = self.devices.states() if self.devices is not None else ()
        return DriverState(
            driver=self.driver.name,
            errors=(
                *(str(trouble) for trouble in troubles if trouble is not None),
                *(f"resource {item.resource}: {item.error}" for item in resources if item.error),
            ),
            devices=sum(len(item.devices) for item in self.publisher.published()),
            prepared=len(self.plugin.prepared()),
            adjusted=tuple(map(str, adjusted)),
            resources=resources,
        )

    def take_allocated(self) -> None:
        """Tell all again, since claims of the API server have changed which devices are allocated."""
        if self._found is not None:
            self._take(self._found)

    def _take(self, found: Found) -> None:
        """Hand on what is known of the devices."""
        self._found = found
        if self._owner is not None:
            self._owner.name_devices(device.name for pool in found.inventory.pools for device in pool.devices)
        if self.devices is not None:
            self.devices.update(
                found.inventory, taints=found.taints, allocated=self._context.allocated(self.driver.name)
            )
        self._tell_node(self.driver.name, found)
        self._report()

    def _note_uses(self) -> None:
        """Taint what containers of device plugins have, and say so when the plugin is not ours."""
        assert self.devices is not None
        before, self._uses = self._uses, self.devices.in_use()
        for use in find_new_foreign(before, self._uses):
            self._context.tell_foreign(use)
        self.loop.look_again()

    def _report(self) -> None:
        if self.reporter is None or self._found is None:
            return
        report = plan_report(
            self.driver.name,
            self._context.node_name,
            self._found.inventory,
            health=self._found.health,
            taints=self._found.taints,
            holders=plan_holders(self.plugin.prepared(), self._uses),
        )
        self.reporter.report(report)

    async def _follow_ledger(self) -> None:
        """Report anew whenever claims or containers have got or given back devices."""
        seen: object = None
        while True:
            if (mark := self.plugin.ledger.mark) is not seen:
                seen = mark
                self._report()
            await asyncio.sleep(_HOLDERS_S)

    async def _withdraw(self) -> None:
        """Delete slices of before, since the devices are not offered by claims any more."""
        backoff = Backoff()
        while True:
            try:
                count = await withdraw_slices(self._context.client, self.driver.name, self._context.node_name)
            except ApiError as error:
                log_event(_log, logging.WARNING, "Slices of before stay", driver=self.driver.name, reason=error)
                await backoff.wait()
                continue
            if count:
                log_event(_log, logging.INFO, "Slices withdrawn", driver=self.driver.name, deleted=count)
            self._withdrawn.set()
            return

    async def withdraw(self) -> None:
        """Offer nothing any more, and return when nobody has a device. Of a driver that publishes no slices."""
        if self.devices is not None:
            await self.devices.withdraw()
        await self._withdrawn.wait()
        ledger, told = self.plugin.ledger, 0
        while left := len(ledger.claims()) + len(ledger.grants()):
            if left != told:
                log_event(_log, logging.INFO, "Devices are still in use", driver=self.driver.name, holders=left)
            told = left
            await asyncio.sleep(_HOLDERS_S)

    async def _find_held(self, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Return which devices claims hold: what is prepared here, and what the API server says is allocated."""
        if not devices:
            return devices
        prepared = {device.id for claim in self.plugin.prepared() for device in claim.devices}
        try:
            return (devices & prepared) | await self._context.claims.find_held(devices)
        except ApiError as error:
            log_event(
                _log, logging.WARNING, "Claims can't be listed, so that vanished devices stay published", reason=error
            )
            return devices
