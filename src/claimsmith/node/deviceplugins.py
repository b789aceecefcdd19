"""All device plugins of one driver, and what follows from them: who has which device, and when it is free again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from claimsmith.errors import ConfigError, GrantRefusedError
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import Inventory
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.node.deviceplugin import DevicePluginServer
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, OfferedDevice, ResourceRule, plan_offers
from claimsmith.node.deviceplugin_service import Offer, ResourceService
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, grant_key
from claimsmith.node.grants import REQUEST, Given, Grants
from claimsmith.node.grants_keeper import GrantKeeper
from claimsmith.node.hardware import Hardware
from claimsmith.node.ledger import Ledger
from claimsmith.node.podresources import (
    ContainerDevices,
    ForeignHolding,
    ForeignRule,
    PodResources,
    find_foreign_holdings,
)
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["DevicePlugins", "DeviceUse", "PluginHost", "ResourceState", "settle"]

_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
_SOON_S: Final = 1.0
"""Pause in seconds before the look that follows something new."""
_SETTLE_MAX: Final = 10
"""Most such pauses in a row, while something new comes in each."""
_TOLD_S: Final = 10.0
"""How long in seconds a kubelet is waited for that is to be told that nothing is offered."""

_log = get_logger("node")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginHost:
    """The driver and its node; what the device plugin has in common with the DRA plugin of the same driver.

    Args:
        driver: The driver.
        node_name: Name of the node in the API.
        paths: The folders of the node.
        boot_id: Which boot of the machine this is.
        ledger: Who holds which device: `NodePlugin.ledger`.
        executor: The one thread in which the driver is called: `NodePlugin.executor`.
        instance_uid: uid of the driver's pod; needed only for two at a time.
    """

    driver: Driver
    node_name: str
    paths: NodePaths
    boot_id: str
    ledger: Ledger
    executor: Executor
    meter: Meter
    instance_uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """A device that claims must not get: a container has it, or hardware of it, through a device plugin.

    Args:
        held: The device that the container has; the same one, or one of the same hardware.
        resource: The resource by which it was given.
        pod: Whose container it is; None where the kubelet does not tell.
        foreign: Whether another device plugin gave it.
    """

    device: DeviceId
    held: DeviceId
    resource: str
    pod: PodRef | None = None
    foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """How one resource fares.

    Args:
        devices: How many ids are offered.
        usable: How many of them can be given away, or are.
        error: Why the kubelet has not taken the resource; empty when it has.
    """

    resource: str
    devices: int
    usable: int
    registered: bool
    registrations: int
    error: str


class DevicePlugins:
    """Offers the devices of a driver as extended resources while it is entered.

    Nothing is registered before the first `update`, so that a kubelet never counts devices as gone because of a start.

    Args:
        host: The driver and its node.
        options: Which devices are offered, and how. Without rules, only what foreign plugins gave away is looked for.
        foreign: How devices are recognised that foreign plugins gave away; None: nobody looks for them.
        on_freed: Called after a device was given back; wakes prepare calls that wait for it.
        on_change: Called when `in_use` gives another answer than before.

    Raises:
        ConfigError: A socket's path is too long.
    """

    def __init__(
        self,
        host: PluginHost,
        options: DevicePluginOptions,
        *,
        foreign: ForeignRule | None = None,
        on_freed: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._host, self._options, self._foreign_rule = host, options, foreign
        self._on_freed, self._on_change = on_freed, on_change
        self._grants = Grants(
            driver=host.driver,
            ledger=host.ledger,
            cdi_folder=host.paths.cdi,
            boot_id=host.boot_id,
            meter=host.meter,
            passing=options.passing,
        )
        self._servers = {rule.resource: self._server(rule) for rule in options.rules}
        self._keeper = GrantKeeper(
            self._grants, options=options, kubelet=PodResources(host.paths), executor=host.executor
        )
        self._inventory: Inventory | None = None
        self._offered: Mapping[str, tuple[OfferedDevice, ...]] = {}
        self._is_withdrawn = False
        self._unusable: Mapping[DeviceId, str] = {}
        self._allocated: Mapping[DeviceId, DeviceId] = {}
        self._pods: Mapping[tuple[str, frozenset[str]], PodRef | None] = {}
        self._foreign: tuple[ForeignHolding, ...] = ()
        self._uses: Mapping[DeviceId, DeviceUse] = {}
        self._mark: object = None
        self._earlier = ""
        self._known = asyncio.Event()
        self._soon = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve all resources; they are registered once the devices are known.

        Raises:
            ConfigError: A folder or a socket can't be used, or another process serves a resource.
        """
        async with AsyncExitStack() as stack:
            for folder in (self._host.paths.device_plugins, self._host.paths.cdi):
                make_folder(folder)
            self._grants.report()
            await self._note_earlier()
            for server in self._servers.values():
                await server.start()
                stack.push_async_callback(server.stop)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            name = self._host.driver.name
            tasks = [
                group.create_task(self._register(server), name=f"register {server.resource}")
                for server in self._servers.values()
            ]
            tasks.append(group.create_task(self._keep(), name=f"grants {name}"))
            tasks.append(group.create_task(self._follow_ledger(), name=f"ledger {name}"))
            stack.callback(lambda: [task.cancel() for task in tasks])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving; what containers have stays theirs."""
        await self._stack.__aexit__(kind, error, trace)

    def update(
        self,
        inventory: Inventory,
        *,
        taints: Mapping[DeviceId, Sequence[DeviceTaint]] | None = None,
        allocated: Iterable[DeviceId] = (),
    ) -> None:
        """Take in the devices and how they are. In the event loop only.

        Args:
            inventory: What the driver has found.
            taints: Why devices should not be used, such as their health; not that they are given away.
            allocated: Devices that claims have in the API server, prepared here or not yet.
        """
        host = self._host
        if inventory != self._inventory:
            self._inventory = inventory
            host.ledger.learn(Hardware.of(host.driver.name, inventory, node=host.node_name))
            rules = () if self._is_withdrawn else self._options.rules
            self._offered = plan_offers(host.driver.name, inventory, node=host.node_name, rules=rules)
        self._unusable = self._find_unusable(inventory, taints or {})
        self._allocated = host.ledger.hardware.find_blocked(allocated)
        self._refresh()
        self._known.set()

    def in_use(self) -> Mapping[DeviceId, DeviceUse]:
        """Return the devices that claims must not get now, since containers of device plugins have them."""
        return self._uses

    def states(self) -> tuple[ResourceState, ...]:
        """Return how the resources fare, in the order of their rules."""
        return tuple(
            ResourceState(
                resource=server.resource,
                devices=len(server.service.offers),
                usable=sum(not offer.obstacle for offer in server.service.offers),
                registered=server.registered,
                registrations=server.registrations,
                error=server.error,
            )
            for server in self._servers.values()
        )

    def look_soon(self) -> None:
        """Ask the kubelet soon what containers have, instead of after the usual pause. In the event loop only."""
        self._soon.set()

    async def withdraw(self) -> None:
        """Offer nothing any more, before the driver leaves this node for good: the kubelet then counts none.

        Returns when the kubelet was told; one that is away is not waited for long.
        """
        self._is_withdrawn, self._offered = True, {}
        self._refresh()
        self._known.set()
        await asyncio.gather(*(server.service.wait_told(_TOLD_S) for server in self._servers.values()))

    async def give(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Given:
        """Prepare devices for a container; for the services.

        Raises:
            ClaimsmithError: They can't be had now.
        """
        for offered in wanted:
            if reason := self._find_reason(rule.resource, offered.device, [offered.id]):
                raise GrantRefusedError(
                    rule.resource, f"found {offered.id} {reason}, allowed a usable device", hint="ask again elsewhere"
                )
        given = await self._keeper.give(rule, wanted)
        log_event(
            _log,
            logging.INFO,
            "Devices given to a container",
            resource=rule.resource,
            ids=",".join(given.grant.ids),
            driver=self._host.driver.name,
        )
        self._refresh()
        self.look_soon()
        return given

    async def make_sure(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Grant:
        """Prepare devices again that a container has; for the services.

        Raises:
            ClaimsmithError: It can't be done now.
        """
        return await self._keeper.make_sure(rule, wanted)

    def _server(self, rule: ResourceRule) -> DevicePluginServer:
        options, host = self._options, self._host
        service = ResourceService(
            host.driver.name, rule, passing=options.passing, pre_start=options.pre_start, giver=self
        )
        folder = host.paths.device_plugins
        return DevicePluginServer(service, folder, options=options, instance_uid=host.instance_uid)

    async def _register(self, server: DevicePluginServer) -> None:
        await self._known.wait()
        await server.run()

    # --- what is offered ----------------------------------------------------------------------------------------------

    def _find_unusable(
        self, inventory: Inventory, taints: Mapping[DeviceId, Sequence[DeviceTaint]]
    ) -> Mapping[DeviceId, str]:
        """Return why devices should not be used by anybody."""
        host, found = self._host, dict[DeviceId, str]()
        for pool in inventory.pools:
            for item in pool.devices:
                device = DeviceId(host.driver.name, pool.name or host.node_name, item.name)
                for taint in (*item.taints, *taints.get(device, ())):
                    if taint.effect in _BLOCKING:
                        found[device] = f"tainted {taint}"
        return found

    def _find_reason(self, resource: str, device: DeviceId, ids: Iterable[str]) -> str:
        """Return why a device can't be given away, whatever the ledger says of it; empty when nothing is against it.

        What a container has already is not told to be a claim's: the claim will wait.
        """
        if reason := self._unusable.get(device):
            return reason
        other = self._allocated.get(device)
        given = (grant for grant in self._host.ledger.grants() if grant.resource == resource)
        if other is None or not set(ids).isdisjoint(id_ for grant in given for id_ in grant.ids):
            return ""
        return "allocated to a claim" if other == device else f"of the hardware of {other}, which a claim has"

    def _refresh(self) -> None:
        """Offer what can be given away now, and find out what claims must not get."""
        self._mark = self._host.ledger.mark
        for resource, server in self._servers.items():
            server.service.offer(self._offers(resource))
        uses = self._find_uses()
        if uses != self._uses:
            self._uses = uses
            self._on_change()

    def _offers(self, resource: str) -> list[Offer]:
        offered = self._offered.get(resource, ())
        together: dict[DeviceId, list[OfferedDevice]] = {}
        for item in offered:
            together.setdefault(item.device, []).append(item)
        obstacles = {device: self._find_obstacle(resource, device, items) for device, items in together.items()}
        waiting = f"kept back while {self._earlier} of an earlier version runs" if self._earlier else ""
        return [Offer(device=item, obstacle=waiting or obstacles[item.device]) for item in offered]

    def _find_obstacle(self, resource: str, device: DeviceId, items: Sequence[OfferedDevice]) -> str:
        ids = tuple(item.id for item in items)
        if reason := self._find_reason(resource, device, ids):
            return reason
        held = HeldDevice(id=device, request=REQUEST, share_id=items[0].replica)
        entry = PreparedClaim(claim=grant_key(resource, ids), devices=(held,), boot_id="", finished=False)
        refusal = self._host.ledger.find_refusal(Grant(entry=entry, resource=resource, ids=ids))
        return "" if refusal is None else str(refusal)

    def _find_uses(self) -> Mapping[DeviceId, DeviceUse]:
        ledger = self._host.ledger
        by_device = {holding.device: holding for holding in self._foreign}
        uses = {
            device: DeviceUse(
                device=device, held=held, resource=by_device[held].resource, pod=by_device[held].pod, foreign=True
            )
            for device, held in ledger.hardware.find_blocked(by_device).items()
        }
        granted = {device: grant for grant in ledger.grants() for device in grant.devices}
        for device, held in ledger.hardware.find_blocked(granted).items():
            grant = granted[held]
            pod = self._pods.get((grant.resource, frozenset(grant.ids)))
            uses[device] = DeviceUse(device=device, held=held, resource=grant.resource, pod=pod)
        return uses

    async def _follow_ledger(self) -> None:
        """Notice what the DRA plugin, or another process, has written, and that one of an earlier version has ended."""
        await self._known.wait()
        while True:
            if self._earlier:
                await self._note_earlier()
            if self._host.ledger.is_outdated:
                await self._keeper.refresh()
            if self._host.ledger.mark is not self._mark:
                self._refresh()
            await asyncio.sleep(self._options.poll_s)

    async def _note_earlier(self) -> None:
        """Find out whether a process of an earlier version runs beside this one, which could not read of a grant."""
        before = self._earlier
        try:
            self._earlier = await asyncio.to_thread(self._host.ledger.find_earlier_reader)
        except ConfigError as error:
            log_event(_log, logging.WARNING, "Who else offers the devices can't be read", reason=error)
        if self._earlier == before:
            return
        self._mark = None
        message = (
            "No devices for containers beside an earlier version" if self._earlier else "The earlier version has ended"
        )
        process = self._earlier or before
        log_event(_log, logging.INFO, message, driver=self._host.driver.name, process=process)

    # --- what is given back -------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Look again and again at what containers have."""
        await self._known.wait()
        while True:
            pause_s = self._options.reconcile_s
            if await self.look():
                pause_s = min(pause_s, _SOON_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._soon.wait()
            except TimeoutError:
                continue
            await settle(self._soon, pause_s=min(_SOON_S, self._options.reconcile_s))

    async def look(self) -> bool:
        """Ask the kubelet once what containers have, and do what follows; tell whether to look again soon."""
        await self._note_earlier()
        found = await self._keeper.look(self._offered)
        if found.nudge:
            for server in self._servers.values():
                server.service.tell()
        self._pods = {(item.resource, item.ids): item.pod for item in found.view.listed or ()}
        before = self._foreign
        if found.view.listed is not None:
            # Not the checkpoint: nobody makes the kubelet write it again when a foreign pod has ended.
            self._foreign = self._find_foreign(found.view.listed)
            self._host.ledger.note_foreign({holding.device: holding.resource for holding in self._foreign})
        self._refresh()
        if found.freed or {item.device for item in before} - {item.device for item in self._foreign}:
            self._on_freed()
        return found.soon

    def _find_foreign(self, containers: Iterable[ContainerDevices]) -> tuple[ForeignHolding, ...]:
        if self._foreign_rule is None or self._inventory is None:
            return ()
        offered = {(resource, item.id) for resource, items in self._offered.items() for item in items}
        given = {(grant.resource, id_) for grant in self._host.ledger.grants() for id_ in grant.ids}
        return find_foreign_holdings(
            self._host.driver.name,
            self._inventory,
            node=self._host.node_name,
            containers=containers,
            own=offered | given,
            rule=self._foreign_rule,
        )


async def settle(
    news: asyncio.Event, *, pause_s: float, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Wait until nothing new has come for one pause, and clear the event.

    A kubelet that is asked what pods have while it admits one may forget what it has just given to it, and give that to
    the next pod too: it lists its pods before it takes its lock. So nobody asks right after a grant.

    Args:
        news: Set whenever something new comes.
        pause_s: Seconds.
        sleep: Lets time pass.

    Source: UpdateAllocatedDevices in pkg/kubelet/cm/devicemanager/manager.go of kubernetes v1.37.2.
    """
    for _ in range(_SETTLE_MAX):
        news.clear()
        await sleep(pause_s)
        if not news.is_set():
            return
    news.clear()
