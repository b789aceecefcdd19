"""`claimsmith allocate`: decisions on files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.joint_words import encode_joint, list_gang_lines
from claimsmith.cli.options import LikeUpstream, OnlyNode, Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.short_reasons import shorten_reason
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from claimsmith.daemons.offline_decision import OfflineDecision
    from claimsmith.model.claim import DeviceResult

__all__ = ["allocate", "decide_offline", "decision_value", "describe_device", "list_claims"]


@reads_cluster
def allocate(
    source: ClusterSource,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Only pod/NAME or claim/NAME. Default: all that waits.")
    ] = "",
    node: OnlyNode = "",
    like_upstream: LikeUpstream = False,
    output: Output = Format.TABLE,
) -> None:
    """Decide which waiting pods and claims get which devices.

    Nothing is changed: nodes, ResourceSlices (or simulated devices), DeviceClasses, claims and pods come from files,
    a snapshot, or a live cluster that is only read. Exit code 1 says that something does not fit.

    Example: claimsmith allocate -f cluster.yaml -f pod.yaml pod/train
    """
    decisions = decide_offline(source, target, node=node, like_upstream=like_upstream)
    if output is Format.TABLE and not decisions:
        tell("nothing waits")
    elif output is Format.TABLE:
        rows = [(d.target, d.node or "-", list_claims(d), shorten_reason(d.message, d.target)) for d in decisions]
        print_table(("TARGET", "NODE", "DEVICES", "WHY NOT"), rows)
        for line in list_gang_lines(decisions):
            typer.echo(line)
    else:
        print_value({"decisions": [decision_value(decision) for decision in decisions]}, output)
    if any(decision.outcome != "allocated" for decision in decisions):
        raise typer.Exit(Exit.DOES_NOT_FIT)


def decide_offline(
    source: ClusterSource, target: str, *, node: str = "", like_upstream: bool = False
) -> list[OfflineDecision]:
    """Return the decisions for what waits; what decides nothing is named on stderr."""
    return list(source.open(node=node, like_upstream=like_upstream).decide(target))


def decision_value(decision: OfflineDecision) -> dict[str, Any]:
    """Return a decision as JSON; `allocation` is what the API server accepts as a claim's `status.allocation`."""
    from claimsmith.api.resource import encode_allocation_result

    value: dict[str, Any] = {"target": decision.target, "outcome": decision.outcome}
    if decision.outcome == "allocated":
        claims = [
            {"claim": str(ref), "allocation": encode_allocation_result(result)} for ref, result in decision.allocations
        ]
        joint = {"group": decision.group, "joint": encode_joint(decision.joint)} if decision.group else {}
        return {**value, "node": decision.node, "claims": claims, **joint}
    reasons = [
        {
            "kind": reason.kind,
            "text": reason.text,
            "node": reason.node,
            "claim": str(reason.claim) if reason.claim else "",
            "request": reason.request,
            "devices": [str(device) for device in reason.devices],
            "data": dict(reason.data),
        }
        for reason in decision.reasons
    ]
    return {**value, "message": decision.message, "reasons": reasons}


def describe_device(result: DeviceResult) -> str:
    """Return a device without its driver, and what of it is taken by a share: `a/nic-0 (bandwidth 2G)`."""
    amounts = ", ".join(f"{name} {amount}" for name, amount in (result.consumed_capacity or {}).items())
    return f"{result.pool}/{result.device}" + (f" ({amounts})" if amounts else "")


def list_claims(decision: OfflineDecision) -> str:
    """Return the devices of a decision's claims, one in a line with its claim and request."""
    found = [(ref, result) for ref, allocation in decision.allocations for result in allocation.results]
    return "\n".join(f"{ref.name} {result.request}: {describe_device(result)}" for ref, result in found)
