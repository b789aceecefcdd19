"""`claimsmith explain`: why something waits, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.allocate import decision_value
from claimsmith.cli.exits import Exit
from claimsmith.cli.options import OnlyNode, Output
from claimsmith.cli.output import Format, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from claimsmith.daemons.offline import OfflineDecision

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

    Exit code 0 says that it fits, and on which devices; 1 that it does not.

    Example: claimsmith explain pod/train -f cluster.yaml -f pod.yaml
    """
    decision = source.open(node=node).explain(target)
    if output is not Format.TABLE:
        from claimsmith.allocate.explain.report import encode_explanation

        value = decision_value(decision)
        if decision.explanation is not None:
            value["explanation"] = encode_explanation(decision.explanation)
        print_value(value, output)
    else:
        _print(decision)
    if decision.outcome != "allocated":
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _print(decision: OfflineDecision) -> None:
    """Print what a decision comes to, for people."""
    if decision.outcome == "allocated":
        devices = [f"{r.pool}/{r.device}" for _, allocation in decision.allocations for r in allocation.results]
        place = f" on node {decision.node}" if decision.node else ""
        typer.echo(f"{decision.target} fits{place}: {', '.join(devices) or 'no devices wanted'}")
    elif decision.explanation is None:
        typer.echo(f"{decision.target}: {decision.message}")
    else:
        from claimsmith.allocate.explain.report import format_explanation

        where = f"fits on none of {decision.explanation.node_count} nodes"
        is_everywhere = all(group.nodes for group in decision.explanation.groups)
        typer.echo(f"{decision.target} {where if is_everywhere else 'can not be tried'}")
        typer.echo(format_explanation(decision.explanation))
