"""What keeps the place of a plan free while it is carried out: cordoned nodes, and taints on devices."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Collection
from typing import Any, Final

from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE
from claimsmith.daemons.plan_checks import HOLD_LABEL
from claimsmith.errors import ApiError, NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.model.names import DeviceId
from claimsmith.telemetry import get_logger, log_event

__all__ = ["cordon_nodes", "kept_free"]

_log = get_logger("plan")
_TAINT: Final = {"key": HOLD_LABEL, "effect": "NoSchedule"}


async def cordon_nodes(client: KubeClient, names: Collection[str]) -> tuple[str, ...]:
    """Let nodes take no more pods; returns those that did until now.

    Raises:
        ApiError: A node is not there, or may not be changed.
    """
    changed = []
    for name in names:
        node = await client.get(NODE, name)
        if not (node.get("spec") or {}).get("unschedulable"):
            await client.patch(NODE, name, {"spec": {"unschedulable": True}}, patch_type="strategic")
            changed.append(name)
    return tuple(changed)


@contextlib.asynccontextmanager
async def kept_free(client: KubeClient, devices: Collection[DeviceId]) -> AsyncIterator[None]:
    """Let nobody take devices while the context is open, by a DeviceTaintRule for each; their holders keep them.

    Rules that can't be deleted again are logged; they have the label `HOLD_LABEL`.

    Raises:
        ApiError: A rule can't be made, such as on a server that does not serve them.
    """
    plan, made = uuid.uuid4().hex[:8], list[str]()
    try:
        for number, device in enumerate(sorted(devices)):
            name = f"claimsmith-hold-{plan}-{number}"
            await client.create(DEVICE_TAINT_RULE, _build_rule(name, device, plan))
            made.append(name)
        yield
    finally:
        for name in made:
            await _remove(client, name)


def _build_rule(name: str, device: DeviceId, plan: str) -> dict[str, Any]:
    return {
        "apiVersion": DEVICE_TAINT_RULE.api_version,
        "kind": DEVICE_TAINT_RULE.kind,
        "metadata": {"name": name, "labels": {HOLD_LABEL: plan}},
        "spec": {
            "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
            "taint": _TAINT,
        },
    }


async def _remove(client: KubeClient, name: str) -> None:
    try:
        await client.delete(DEVICE_TAINT_RULE, name)
    except NotFoundError:
        return
    except ApiError as error:
        log_event(_log, logging.WARNING, "taint rule stays; delete it", name=name, error=error)
