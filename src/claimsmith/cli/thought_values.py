"""Decisions that are only thought of, as JSON and as words for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claimsmith.cli.short_reasons import shorten_reason

if TYPE_CHECKING:
    from claimsmith.allocate.whatif.draining import PodMove
    from claimsmith.allocate.whatif.ending import PodEnd
    from claimsmith.allocate.whatif.trial import PodDecision
    from claimsmith.model.claim import ResourceClaim
    from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["decision_value", "describe_devices", "describe_ends", "describe_move", "end_value", "list_devices"]


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


def end_value(end: PodEnd, after: ClusterSnapshot) -> dict[str, Any]:
    """Return a pod that a change ends as JSON; `after` is the cluster with what is made anew of it."""
    value = {"pod": str(end.pod.ref), "node": end.pod.node_name, "ends": end.ends, "causes": list(end.causes)}
    return {**value, "remade": end.ends and end.pod.ref in after.pods}


def describe_ends(ends: tuple[PodEnd, ...], after: ClusterSnapshot) -> list[str]:
    """Return a line for each pod that a change ends or takes devices from."""
    lines = []
    for end in ends:
        again = "" if end.pod.ref in after.pods else "; nothing makes it again"
        what = f"ends{again}" if end.ends else "runs on, until it is made again"
        lines.append(f"pod {end.pod.ref} {what}: {', '.join(end.causes)}")
    return lines
