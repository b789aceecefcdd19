"""What is proven of a decision for a gang, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claimsmith.allocate.batch import JointDecision
    from claimsmith.daemons.offline_decision import OfflineDecision

__all__ = ["describe_joint", "encode_joint", "list_gang_lines"]


def describe_joint(answer: JointDecision | None) -> str:
    """Return what is proven of a decision for a gang; None: its pods were tried one after the other."""
    if answer is None:
        return "its pods were tried one after the other, so that nothing is proven of it"
    reached = _format_terms(answer.objective)
    match answer.status:
        case "optimal":
            return f"proven to be the best: {reached}"
        case "feasible":
            return f"not proven to be the best: {reached}; the best that there could be: {_format_terms(answer.bound)}"
        case _:
            return f"found by search alone, nothing is proven of it: {reached}; {answer.reason}"


def encode_joint(answer: JointDecision | None) -> dict[str, Any]:
    """Return the same as JSON."""
    if answer is None:
        return {"status": "in-turn", "objective": {}, "bound": {}, "reason": "its pods were tried one after the other"}
    return {
        "status": answer.status,
        "objective": dict(answer.objective),
        "bound": dict(answer.bound),
        "reason": answer.reason,
    }


def list_gang_lines(decisions: Iterable[OfflineDecision]) -> list[str]:
    """Return a line for each gang that has got its nodes."""
    placed = {item.group: item.joint for item in decisions if item.group and item.outcome == "allocated"}
    return [f"{group}: {describe_joint(answer)}" for group, answer in placed.items()]


def _format_terms(terms: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in terms) or "unknown"
