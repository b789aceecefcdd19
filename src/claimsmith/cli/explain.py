"""`claimsmith explain`: why something waits."""

from __future__ import annotations

from typing import Annotated

import typer

from claimsmith.cli.allocate import decide_offline, decision_value
from claimsmith.cli.exits import Exit
from claimsmith.cli.options import OnlyNode, Output
from claimsmith.cli.output import Format, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

__all__ = ["explain"]


@reads_cluster
def explain(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="pod/NAME or claim/NAME; with a namespace pod/NAMESPACE/NAME.")
    ],
    source: ClusterSource,
    node: OnlyNode = "",
    output: Output = Format.TABLE,
) -> None:
    """Say why a pod or claim gets no devices, node by node.

    Exit code 0 says that it fits, and on which devices; 1 that it does not.

    Example: claimsmith explain pod/train -f cluster.yaml -f pod.yaml
    """
    from claimsmith.allocate.explain.text import format_reasons

    decision = decide_offline(source, target, node=node)[0]
    if output is not Format.TABLE:
        print_value(decision_value(decision), output)
    elif decision.outcome == "allocated":
        devices = [f"{r.pool}/{r.device}" for _, allocation in decision.allocations for r in allocation.results]
        place = f" on node {decision.node}" if decision.node else ""
        typer.echo(f"{decision.target} fits{place}: {', '.join(devices) or 'no devices wanted'}")
    else:
        typer.echo(f"{decision.target}: {decision.message}")
        typer.echo(format_reasons(decision.reasons))
    if decision.outcome != "allocated":
        raise typer.Exit(Exit.DOES_NOT_FIT)
