"""`claimsmith drain`: where the pods of nodes go, in which order; with `--yes`, they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.carrying import Order, carry_out, done_value, find_lost, refuse_plan, show_done, tell_lost
from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.object_names import parse_node_name
from claimsmith.cli.options import Force, Output, Patience, Yes
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from claimsmith.allocate.whatif import DrainOutcome
    from claimsmith.daemons.carryout import CarriedOut
    from claimsmith.daemons.trial import SchedulerTrial
    from claimsmith.kube.client import KubeClient

__all__ = ["drain"]


@reads_cluster
def drain(
    nodes: Annotated[
        list[str],
        typer.Argument(metavar="NODE…", help="Nodes to be drained: NAME or node/NAME.", parser=parse_node_name),
    ],
    source: ClusterSource,
    yes: Yes = False,
    force: Force = False,
    timeout: Patience = 300.0,
    output: Output = Format.TABLE,
) -> None:
    """Plan how nodes are drained: which pods find another place, in which order, and which do not.

    With --yes the nodes are cordoned and the pods evicted in that order, provided that all of them find a place and
    something makes them again (unless --force is named); else nothing is done. Without it nothing is written. Exit
    code 1 says that some pod would wait, or that the plan could not be carried out.

    Example: claimsmith drain gpu-node-1 --kubeconfig admin.conf --yes
    """
    from claimsmith.allocate.whatif import drain_nodes
    from claimsmith.daemons.trial import SchedulerTrial

    if yes:
        source.check_live()
    place = SchedulerTrial()
    found = drain_nodes(source.open().snapshot, tuple(dict.fromkeys(nodes)), place=place)
    if output is Format.TABLE:
        _show(found)
    done = None
    if yes:
        if problem := _find_problem(found, force=force):
            refuse_plan(problem, lambda: _value(found), output)
        tell_lost(move.pod for move in found.moves)
        done = _carry_out(source, found, place, timeout, output)
    if output is not Format.TABLE:
        value = _value(found)
        print_value(value if done is None else {**value, "carriedOut": done_value(done)}, output)
    elif done is not None:
        show_done(done)
    if found.pending or found.displaced or (done is not None and done.stopped):
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _find_problem(found: DrainOutcome, *, force: bool) -> str:
    """Return why a drain must not be carried out; empty when it may."""
    for item in found.pending:
        return f"pod {item.pod.ref} would wait"
    for ref in found.displaced:
        return f"pod {ref}, which waits, would lose the place that it could have now"
    for ref in () if force else find_lost(move.pod for move in found.moves):
        return f"nothing makes pod {ref} again; name --force too if it may end for good"
    return ""


def _carry_out(
    source: ClusterSource, found: DrainOutcome, place: SchedulerTrial, patience_s: float, output: Format
) -> CarriedOut:
    from contextlib import asynccontextmanager

    from claimsmith.allocate.whatif.draining import group_by_claims
    from claimsmith.daemons.holding import cordon_nodes
    from claimsmith.daemons.plan_checks import check_drain

    @asynccontextmanager
    async def cordoned(client: KubeClient) -> AsyncIterator[None]:
        for name in await cordon_nodes(client, found.nodes):
            tell(f"cordoned {name}, which stays so; `kubectl uncordon {name}` lets it take pods again")
        yield

    order = Order(
        steps=group_by_claims(move.pod for move in found.moves),
        check=check_drain(found.nodes, place=place),
        view=lambda live: live.open().snapshot,
        around=cordoned,
        patience_s=patience_s,
    )
    return carry_out(source, order, output)


def _value(found: DrainOutcome) -> dict[str, Any]:
    from claimsmith.cli.thought_values import decision_value

    moves = [
        {
            **decision_value(move.decision),
            "from": move.pod.node_name,
            "remade": move.is_remade,
            "budgets": list(move.budgets),
        }
        for move in found.moves
    ]
    value = {"question": "drain", "nodes": list(found.nodes), "moves": moves}
    value |= {"staying": [str(ref) for ref in found.staying], "displaced": [str(ref) for ref in found.displaced]}
    return {**value, "queue": [decision_value(item) for item in found.queue]}


def _show(found: DrainOutcome) -> None:
    """Show where the pods of drained nodes go."""
    from claimsmith.cli.thought_values import describe_move

    if not found.moves:
        tell(f"nothing to evict on {', '.join(found.nodes)}")
    else:
        rows = [(str(n + 1), str(m.pod.ref), m.pod.node_name, *describe_move(m)) for n, m in enumerate(found.moves)]
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES", "NOTE"), rows)
    for ref in found.displaced:
        typer.echo(f"pod {ref}, which waits, would lose the place that it could have now")
