"""All drivers of one node in one process: found, published, served to the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from claimsmith.api.kinds import NODE
from claimsmith.daemons.agent_claims import ApiClaims
from claimsmith.daemons.agent_options import AgentOptions
from claimsmith.daemons.agent_part import DriverPart, DriverState, NodeContext
from claimsmith.errors import ConfigError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kubelet.paths import NodePaths
from claimsmith.node.plugin import read_boot_id
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter

__all__ = ["Agent", "AgentOptions", "DriverState"]


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
        self._client, self._node_name = client, node_name
        context = NodeContext(
            node_name=node_name,
            client=client,
            paths=paths,
            claims=ApiClaims(client),
            boot_id=read_boot_id() if chosen.boot_id is None else chosen.boot_id,
            meter=self.meter,
        )
        self._parts: dict[str, DriverPart] = {}
        for driver in drivers:
            if driver.name in self._parts:
                raise ConfigError(f"agent: found two drivers named {driver.name}, allowed one; remove the second")
            self._parts[driver.name] = DriverPart(driver, context, chosen)
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
