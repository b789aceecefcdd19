"""Decisions that are only thought of, as JSON and as words for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claimsmith.cli.short_reasons import shorten_reason

if TYPE_CHECKING:
    from claimsmith.allocate.whatif.draining import PodMove
    from claimsmith.allocate.whatif.trial import PodDecision
    from claimsmith.model.claim import ResourceClaim

__all__ = ["decision_value", "describe_devices", "describe_move", "list_devices"]


def decision_value(decision: PodDecision) -> dict[str, Any]:
    """Return what becomes of a pod as JSON: `node` is empty when it waits, and `message` says why."""
    from claimsmith.allocate.whatif.trial import Placement

    pod = str(decision.pod.ref)
    if isinstance(decision, Placement):
        return {"pod": pod, "node": decision.node, "devices": list_devices(decision.claims), "message": ""}
    return {"pod": pod, "node": "", "devices": [], "message": decision.message}


def list_devices(claims: tuple[ResourceClaim, ...]) -> list[str]:
    """Return the devices that claims have, as `driver/pool/device`."""
    return [str(item.device_id) for claim in claims if claim.allocation for item in claim.allocation.results]


def describe_devices(claims: tuple[ResourceClaim, ...]) -> str:
    """Return the devices that claims have, without their drivers."""
    return ", ".join(device.partition("/")[2] for device in list_devices(claims)) or "-"


def describe_move(move: PodMove) -> tuple[str, str, str]:
    """Return node, devices and what there is to say of a pod that leaves its node."""
    from claimsmith.allocate.whatif.trial import Placement

    notes = [] if move.is_remade else ["nothing makes it again: create it yourself"]
    notes += [f"budget {name} forbids it now" for name in move.budgets]
    if isinstance(move.decision, Placement):
        return move.decision.node, describe_devices(move.decision.claims), "; ".join(notes)
    message = shorten_reason(move.decision.message, f"pod/{move.pod.ref}", when="once it waits")
    return "-", "-", "; ".join([f"waits: {message}", *notes])
