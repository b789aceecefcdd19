"""All drivers of one node in one process: found, published, served to the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from claimsmith.api.kinds import NODE
from claimsmith.daemons.agent_claims import AllocationWatch, ApiClaims
from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.daemons.agent_facts import NodeFacts
from claimsmith.daemons.agent_options import AgentOptions, FrontEnds
from claimsmith.daemons.agent_part import DriverPart, DriverState, NodeContext
from claimsmith.daemons.status_server import Status
from claimsmith.errors import ApiError, ConfigError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.warm import keep_warm
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.names import DeviceId
from claimsmith.node.deviceplugins import DeviceUse
from claimsmith.node.plugin import read_boot_id
from claimsmith.publish.releases import ReleaseWatch
from claimsmith.publish.taintrules import TaintRuleKeeper, remove_rules
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import DEVICES_PUBLISHED, Meter, Sample, get_logger, log_event

__all__ = ["Agent", "AgentOptions", "DriverState", "FrontEnds"]

_log = get_logger("agent")


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
        chosen, drivers = options or AgentOptions(), tuple(drivers)
        self._node_name, self._recorder = node_name, EventRecorder(client, "claimsmith-agent")
        self._watch = AllocationWatch(client, node_name, on_change=self._take_allocated)
        self._facts = NodeFacts(
            client,
            node_name,
            drivers=tuple(driver.name for driver in drivers),
            options=chosen,
            marked={driver.name: driver.label_attributes for driver in drivers},
        )
        self._client, self._chosen, self._rules = client, chosen, _make_rules(client, node_name, chosen)
        context = NodeContext(
            node_name=node_name,
            client=client,
            paths=paths,
            claims=ApiClaims(client),
            boot_id=read_boot_id() if chosen.boot_id is None else chosen.boot_id,
            meter=self.meter,
            allocated=self._watch.allocated,
            tell_foreign=self._tell_foreign,
            recorder=self._recorder,
            rules=self._rules,
        )
        self._parts: dict[str, DriverPart] = {}
        for driver in drivers:
            if driver.name in self._parts:
                raise ConfigError(f"agent: found two drivers named {driver.name}, allowed one; remove the second")
            self._parts[driver.name] = DriverPart(driver, context, chosen, on_found=self._facts.take)
            self._parts[driver.name].publisher.subscribe_contests(lambda text: self._warn("SlicesContested", text))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve the drivers to the kubelet and begin to publish.

        Raises:
            ConfigError: A folder or a socket can't be used.
        """
        async with AsyncExitStack() as stack:
            for part in self._parts.values():
                await part.enter(stack)
            self._tell_damage()
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [group.create_task(work, name=name) for work, name in self._works()]
            stack.callback(lambda: [task.cancel() for task in tasks])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving and publishing; slices, CDI files and prepared claims stay."""
        await self._stack.__aexit__(kind, error, trace)

    def _works(self) -> Iterator[tuple[Coroutine[Any, Any, None], str]]:
        """Yield what runs as long as the agent does, with names."""
        for part in self._parts.values():
            yield from part.works()
        yield from self._facts.works()
        yield self._recorder.run(), "agent events"
        yield keep_warm(self._client), "warm connection"
        if any(loop.health.keeps_some_out for loop in _list_loops(self._chosen)):
            yield ReleaseWatch(self._client, self._node_name, self._release).run(), "releases"
        yield (self._remove_rules() if self._rules is None else self._rules.run()), "taint rules"
        if any(part.fronts.dra and part.fronts.device_plugin for part in self._parts.values()):
            yield self._watch.run(), "allocations"

    def _release(self, device: DeviceId) -> bool:
        """Take a device back into use that people ask for."""
        part = self._parts.get(device.driver)
        return part is not None and part.loop.release(device)

    async def _remove_rules(self) -> None:
        """Delete what an agent before this one has left, when taints go elsewhere now; help, not a condition."""
        try:
            count = await remove_rules(self._client, self._node_name)
        except ApiError as error:
            log_event(_log, logging.DEBUG, "DeviceTaintRules can't be looked at", reason=error)
            return
        if count:
            log_event(_log, logging.INFO, "DeviceTaintRules of before were removed", count=count)

    def _tell_damage(self) -> None:
        """Record an event about the node for each checkpoint that was damaged."""
        for part in self._parts.values():
            if not part.plugin.damaged:
                continue
            where, count = ", ".join(map(str, part.plugin.damaged)), len(part.plugin.prepared())
            text = f"The checkpoint of driver {part.driver.name} was damaged and is now {where}; its {count} prepared "
            self._warn("CheckpointDamaged", f"{text}claims were read from the CDI files")

    def _tell_foreign(self, use: DeviceUse) -> None:
        """Say that a device plugin that is not ours has given a device away that we offer too."""
        pod = f"pod {use.pod}" if use.pod is not None else "a pod"
        log_event(_log, logging.WARNING, "Device in use by another plugin", device=use.device, resource=use.resource)
        self._warn(
            "DeviceInUseByOtherPlugin",
            f"Device {use.device} is used by {pod} through {use.resource}, which another device plugin gave away; it "
            "is tainted until it is given back",
        )

    def _warn(self, reason: str, text: str) -> None:
        # Events about nodes have the name in place of the uid, as those of the kubelet do.
        self._recorder.record(
            ObjectReference(kind=NODE, name=self._node_name, uid=self._node_name), "Warning", reason, text
        )

    def _take_allocated(self) -> None:
        for part in self._parts.values():
            part.take_allocated()

    async def withdraw(self) -> None:
        """Return once nothing is offered and nobody has a device: `agent_withdraw` makes the options for it."""
        await asyncio.gather(*(part.withdraw() for part in self._parts.values()))

    async def wait_published(self) -> None:
        """Return once the API server shows the devices of every driver."""
        for part in self._parts.values():
            if part.fronts.dra:
                await part.publisher.wait_published()

    async def wait_registered(self, timeout_s: float) -> bool:
        """Wait until the kubelet has answered to the registration of every driver; tell whether it took them all."""
        waits = [part.plugin.registration.wait(timeout_s) for part in self._parts.values() if part.plugin.is_serving]
        return all(await asyncio.gather(*waits))

    def states(self) -> tuple[DriverState, ...]:
        """Return how the drivers fare, in their order."""
        return tuple(part.state() for part in self._parts.values())

    def status(self) -> Status:
        """Return what is told of the agent over HTTP."""
        missing = [sentence for part in self._parts.values() for sentence in part.missing()]
        gauges: dict[Sample, float] = {
            (DEVICES_PUBLISHED, (("driver", state.driver),)): state.devices for state in self.states()
        }
        return Status(missing=tuple(missing), samples={**self.meter.values(), **gauges})


def _list_loops(options: AgentOptions) -> tuple[LoopOptions, ...]:
    """Return how each driver is asked, and how those that say nothing of it are."""
    return (options.loop, *(front.loop for front in options.fronts.values() if front.loop is not None))


def _make_rules(client: KubeClient, node: str, options: AgentOptions) -> TaintRuleKeeper | None:
    """Return what keeps DeviceTaintRules; None when no policy wants any."""
    is_wanted = any(loop.health.taints == "rules" for loop in _list_loops(options))
    return TaintRuleKeeper(client, node) if is_wanted else None
