"""Takes back what an agent has told the cluster of its node, before it leaves the node for good.

What is in use stays in use: claims and containers are served until the last one has given its devices back.

    slices, labels, amounts, taint rules   deleted at once
    extended resources of device plugins   none is offered any more, so that the kubelet counts 0
    claims and containers with devices     waited for; drain the node to hurry
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from claimsmith.daemons.agent import Agent
from claimsmith.daemons.agent_options import AgentOptions, FrontEnds
from claimsmith.errors import ApiError, ForbiddenError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient
from claimsmith.node.durable import remove_durable
from claimsmith.publish.labels_write import apply_labels
from claimsmith.publish.nodestatus import apply_capacity, configured_amounts
from claimsmith.publish.taintrules import remove_rules
from claimsmith.telemetry import get_logger, log_event

__all__ = ["plan_withdrawal", "withdraw"]

_log = get_logger("agent")


def plan_withdrawal(options: AgentOptions) -> AgentOptions:
    """Return the options of an agent that offers nothing, and serves what is in use.

    Args:
        options: How the agent worked until now, with the ways in which each of its drivers is offered.
    """
    return replace(
        options,
        fronts={
            name: FrontEnds(dra=False, device_plugin=front.device_plugin) for name, front in options.fronts.items()
        },
        keeps_capacity=False,
    )


async def withdraw(agent: Agent, options: AgentOptions, *, client: KubeClient, node: str) -> None:
    """Return once nothing of the node is offered, told or in use.

    Args:
        agent: A running agent with the options of `plan_withdrawal`.
        options: How the agent worked before.
        client: The API server; it is waited for.
        node: Name of the node.

    Raises:
        ConfigError: The file with labels can't be removed.
    """
    fronts = options.fronts.values()
    if any(front.labels for front in fronts) and options.labels.place == "node":
        await _insist("labels", lambda: apply_labels(client, node, {}))
    if any(front.labels for front in fronts) and options.labels.place == "file":
        await asyncio.to_thread(remove_durable, Path(options.labels.file))
    if any(front.amounts for front in fronts):
        await _insist("amounts", lambda: apply_capacity(client, node, configured_amounts({})))
    await _insist("taint rules", lambda: remove_rules(client, node))
    await agent.withdraw()
    log_event(_log, logging.INFO, "Agent has withdrawn", node=node)


async def _insist(what: str, step: Callable[[], Awaitable[object]]) -> None:
    """Do something until the API server has done it; what it forbids, and what is gone, is nothing to be done."""
    backoff = Backoff(initial_s=0.5, max_s=30.0)
    while True:
        try:
            await step()
            return
        except (ForbiddenError, NotFoundError) as error:
            log_event(_log, logging.INFO, "Nothing is taken back", what=what, reason=error)
            return
        except ApiError as error:
            log_event(_log, logging.WARNING, "Something can't be taken back now", what=what, reason=error)
            await backoff.wait()
