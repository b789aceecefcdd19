"""One node of the embedded cluster: a kubelet and an agent that meet on real sockets."""

from __future__ import annotations

import asyncio
import uuid

from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.embedded.kubelet.node import ClusterServices, EmbeddedKubelet, NodeConfig
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers

__all__ = ["run_node"]

_PLUGIN = "simulated"


async def run_node(
    config: NodeConfig,
    *,
    paths: NodePaths,
    client: KubeClient,
    services: ClusterServices,
    context: DriverContext,
    ready: asyncio.Future[tuple[Driver, ...]],
) -> None:
    """Run a node until cancelled.

    Args:
        context: Settings of its drivers.
        ready: Gets the drivers once the node is in the API server and its devices are published.

    Raises:
        InputError: Settings of a driver can't be used.
        ConfigError: A socket or folder can't be used.
    """
    drivers = create_drivers(_PLUGIN, context) if context.settings_files or context.documents else ()
    kubelet = EmbeddedKubelet(config, paths=paths, client=client, services=services)
    async with asyncio.TaskGroup() as group:
        group.create_task(kubelet.run(), name=f"kubelet {config.name}")
        await kubelet.wait_ready()
        options = AgentOptions(boot_id=str(uuid.uuid4()))
        async with Agent(drivers, node_name=config.name, client=client, paths=paths, options=options) as agent:
            await agent.wait_published()
            ready.set_result(drivers)
            await asyncio.Event().wait()
