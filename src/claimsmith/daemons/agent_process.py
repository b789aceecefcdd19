"""An agent as a process: from a configuration to a running agent, until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from claimsmith.daemons.agent import Agent
from claimsmith.daemons.agent_config import AgentConfig, build_agent_options, create_configured
from claimsmith.daemons.agent_options import AgentOptions
from claimsmith.daemons.status_server import ListenAddress, listening
from claimsmith.errors import InputError
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.telemetry import get_logger, log_event
from claimsmith.validate.names import check_subdomain

__all__ = ["AgentPlace", "get_node_name", "run_agent"]

_log = get_logger("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlace:
    """Where an agent works.

    Args:
        node_name: Name of the node in the API.
        paths: The folders of the node.
        instance_uid: uid of the agent's pod; needed only for two at a time, as during a rolling update.
        listen: Where it tells of itself over HTTP; None: nowhere.
    """

    node_name: str
    paths: NodePaths = field(default_factory=NodePaths.of_kubelet)
    instance_uid: str = ""
    listen: ListenAddress | None = None


def get_node_name(given: str, environment: Mapping[str, str]) -> str:
    """Return the name of the node: as given, else NODE_NAME, else the name of this machine in lower case.

    Raises:
        InputError: It is no name that a node can have.
    """
    sources = (("--node-name", given), ("NODE_NAME", environment.get("NODE_NAME", "")))
    source, name = next((item for item in sources if item[1]), ("name of this machine", socket.gethostname().lower()))
    for issue in check_subdomain(name, ""):
        raise InputError(f"{source}: found {name!r}, {issue.detail}; name the node with --node-name")
    return name


async def run_agent(config: AgentConfig, *, client: KubeClient, place: AgentPlace, withdraws: bool = False) -> None:
    """Run the drivers of a node until cancelled, then close the client.

    Args:
        config: The drivers, and how each is offered.
        client: The API server.
        place: Where the agent works.
        withdraws: Whether to take back what was offered and told, and to end when nobody has a device any more.

    Raises:
        InputError: Settings of a driver can't be used.
        ConfigError: A plugin can't be loaded, or a folder or socket can't be used.
    """
    try:
        chosen = await asyncio.to_thread(create_configured, config, node_name=place.node_name)
        names = ",".join(item.driver.name for item in chosen) or "none"
        options = build_agent_options(config, chosen, instance_uid=place.instance_uid)
        agent = Agent(
            tuple(item.driver for item in chosen),
            node_name=place.node_name,
            client=client,
            paths=place.paths,
            options=_plan_withdrawal(options) if withdraws else options,
        )
        async with _listening(place.listen, agent), agent:
            log_event(_log, logging.INFO, "Agent runs", node=place.node_name, drivers=names)
            if withdraws:
                await _withdraw(agent, options, client=client, node=place.node_name)
                return
            await asyncio.Event().wait()
    finally:
        await client.close()


def _plan_withdrawal(options: AgentOptions) -> AgentOptions:
    # Not loaded by an agent that stays.
    from claimsmith.daemons.agent_withdraw import plan_withdrawal

    return plan_withdrawal(options)


async def _withdraw(agent: Agent, options: AgentOptions, *, client: KubeClient, node: str) -> None:
    from claimsmith.daemons.agent_withdraw import withdraw

    await withdraw(agent, options, client=client, node=node)


@contextlib.asynccontextmanager
async def _listening(address: ListenAddress | None, agent: Agent) -> AsyncIterator[None]:
    """Tell of an agent over HTTP while the context is open, if that is wished for."""
    if address is None:
        yield
        return
    async with listening(address, agent.status) as port:
        log_event(_log, logging.INFO, "Agent listens", host=address.host, port=port)
        yield
