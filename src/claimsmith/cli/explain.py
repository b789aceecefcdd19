"""`claimsmith explain`: why something waits, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.allocate import decision_value, describe_device, list_claims
from claimsmith.cli.exits import Exit
from claimsmith.cli.joint_words import describe_joint
from claimsmith.cli.options import OnlyNode, Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from claimsmith.daemons.offline_decision import OfflineDecision

__all__ = ["explain"]


@reads_cluster
def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="pod/NAME, claim/NAME or podgroup/NAME; with a namespace pod/NAMESPACE/NAME."
        ),
    ],
    source: ClusterSource,
    node: OnlyNode = "",
    output: Output = Format.TABLE,
) -> None:
    """Say why a pod, claim or pod group gets no devices, and what would help.

    The reasons of each group of equal nodes are irreducible: together they are enough, and without any one of them it
    would fit if nothing else stood in the way. What would help was found out by solving again.

    Exit code 0 says that it fits, or runs already, and on which devices; 1 that it does not.

    Example: claimsmith explain pod/train -f cluster.yaml -f pod.yaml
    """
    decision = source.open(node=node).explain(target)
    if output is not Format.TABLE:
        from claimsmith.allocate.explain.report import encode_explanation

        value = decision_value(decision)
        if decision.members:
            value["pods"] = [decision_value(member) for member in decision.members]
        if decision.explanation is not None:
            value["explanation"] = encode_explanation(decision.explanation)
        print_value(value, output)
    else:
        _print(decision)
    if decision.outcome != "allocated":
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _describe(decision: OfflineDecision) -> str:
    """Return what a target has or gets in one line."""
    if decision.members:
        nodes = list(dict.fromkeys(member.node for member in decision.members))
        verb = "runs" if decision.was_there else "fits"
        places = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes ({', '.join(nodes)})"
        return f"{decision.target} {verb}: {_count(len(decision.members))} on {places}"
    devices = [describe_device(r) for _, allocation in decision.allocations for r in allocation.results]
    verb = "fits" if not decision.was_there else "runs" if decision.node else "has its devices"
    place = f" on node {decision.node}" if decision.node else ""
    return f"{decision.target} {verb}{place}: {', '.join(devices) or 'no devices wanted'}"


def _count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def _print(decision: OfflineDecision) -> None:
    """Print what a decision comes to, for people."""
    if decision.outcome == "allocated":
        typer.echo(_describe(decision))
        if decision.members:
            rows = [(member.target, member.node or "-", list_claims(member)) for member in decision.members]
            print_table(("TARGET", "NODE", "DEVICES"), rows)
            if not decision.was_there:
                typer.echo(describe_joint(decision.joint))
    elif decision.explanation is None:
        typer.echo(f"{decision.target}: {decision.message}")
    else:
        from claimsmith.allocate.explain.report import format_explanation

        where = f"fits on none of {decision.explanation.node_count} nodes"
        is_everywhere = all(group.nodes for group in decision.explanation.groups)
        typer.echo(f"{decision.target} {where if is_everywhere else 'can not be tried'}")
        typer.echo(format_explanation(decision.explanation))
