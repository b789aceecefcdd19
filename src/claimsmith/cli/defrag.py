"""`claimsmith defrag`: a few moves that free a larger piece; with `--yes`, they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.carrying import Order, carry_out, done_value, find_lost, refuse_plan, show_done
from claimsmith.cli.exits import Exit
from claimsmith.cli.options import Output, Patience, Yes
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from claimsmith.allocate.replan.defrag import DefragPlan
    from claimsmith.daemons.trial import SchedulerTrial

__all__ = ["defrag"]


@reads_cluster
def defrag(
    source: ClusterSource,
    goal: Annotated[
        list[str],
        typer.Option(
            metavar="GOAL",
            help="profile: the largest free partition. nodes=COUNT:CLASS: nodes with so many free devices. "
            "FILE or FILE=N: room for N pods like that of the file; may be repeated.",
        ),
    ],
    moves: Annotated[int, typer.Option(metavar="K", min=0, help="Most pods to move.")] = 5,
    yes: Yes = False,
    timeout: Patience = 300.0,
    output: Output = Format.TABLE,
) -> None:
    """Plan moves of pods that raise a goal; each step can be done when the steps before it are.

    With --yes the pods are evicted step by step, and taints keep the devices free meanwhile, provided that something
    makes the pods again; else nothing is done. Without it nothing is written. Exit code 1 says that the goal can't be
    raised with so many moves, or that the plan could not be carried out.

    Example: claimsmith defrag --goal nodes=8:gpu --moves 3 --kubeconfig admin.conf --yes
    """
    from claimsmith.allocate.replan.defrag import plan_defrag
    from claimsmith.cli.thought import parse_goal
    from claimsmith.daemons.trial import SchedulerTrial

    if yes:
        source.check_live()
    snapshot, wanted = parse_goal(goal, source)
    place = SchedulerTrial()
    found = plan_defrag(snapshot, wanted, moves=moves, place=place)
    if output is Format.TABLE:
        _show(found)
    done = None
    if yes and found.steps:
        _check_steps(found, output)
        done = carry_out(source, _order(found, goal, place, timeout), output)
    if output is not Format.TABLE:
        value = _value(found)
        print_value(value if done is None else {**value, "carriedOut": done_value(done)}, output)
    elif done is not None:
        show_done(done)
    if (not found.steps and found.stopped != "reached") or (done is not None and done.stopped):
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _check_steps(found: DefragPlan, output: Format) -> None:
    """End the command when moves must not be carried out."""
    lost = find_lost(pod for step in found.steps for pod in step.pods)
    if lost:
        refuse_plan(f"nothing makes pod {lost[0]} again; move it yourself", lambda: _value(found), output)


def _order(found: DefragPlan, goal: list[str], place: SchedulerTrial, patience_s: float) -> Order:
    from claimsmith.cli.thought import parse_goal
    from claimsmith.daemons.holding import kept_free
    from claimsmith.daemons.plan_checks import check_defrag

    return Order(
        steps=[step.pods for step in found.steps],
        check=check_defrag(found, place=place),
        view=lambda live: parse_goal(goal, live)[0],
        around=lambda client: kept_free(client, found.kept_free),
        patience_s=patience_s,
    )


def _show(found: DefragPlan) -> None:
    rows = _rows(found)
    if rows:
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES", "NOTE"), rows)
    for name, before, after in _gains(found):
        typer.echo(f"{name}: {before} → {after}")
    if found.kept_free:
        typer.echo(f"keep free while you move: {', '.join(str(device) for device in found.kept_free)}")
    moved = f"{found.moves} move{'' if found.moves == 1 else 's'}"
    match found.stopped:
        case "reached":
            typer.echo(f"reached with {moved}")
        case "moves":
            typer.echo(f"{moved}, as many as are allowed")
        case "stuck":
            typer.echo(f"{moved}; no further set of moves helps")


def _rows(found: DefragPlan) -> list[tuple[str, ...]]:
    from claimsmith.allocate.whatif.draining import is_remade
    from claimsmith.cli.thought_values import describe_devices

    return [
        (
            str(number + 1),
            str(pod.ref),
            pod.node_name,
            placement.node,
            describe_devices(placement.claims),
            "" if is_remade(pod) else "nothing makes it again: create it yourself",
        )
        for number, step in enumerate(found.steps)
        for pod, placement in zip(step.pods, step.placements, strict=True)
    ]


def _gains(found: DefragPlan) -> list[tuple[str, str, str]]:
    """Return name, value before and value after of all that the goal is about."""
    shapes = found.goal.shapes
    if found.goal.kind == "largest":
        before, after = (
            shapes[len(shapes) - rank].name if rank else "none" for rank in (found.before[0], found.after[0])
        )
        return [(found.goal.name, before, after)]
    return [
        (f"room for {shape.name}", str(before), str(after))
        for shape, before, after in zip(shapes, found.before, found.after, strict=True)
    ]


def _value(found: DefragPlan) -> dict[str, Any]:
    from claimsmith.cli.thought_values import list_devices

    steps = [
        [
            {
                "pod": str(pod.ref),
                "from": pod.node_name,
                "to": placement.node,
                "devices": list_devices(placement.claims),
                "remade": step.is_remade,
            }
            for pod, placement in zip(step.pods, step.placements, strict=True)
        ]
        for step in found.steps
    ]
    gains = [{"name": name, "before": before, "after": after} for name, before, after in _gains(found)]
    kept = [str(device) for device in found.kept_free]
    return {"goal": found.goal.name, "steps": steps, "moves": found.moves, "gains": gains, "keptFree": kept,
            "stopped": found.stopped}  # fmt: skip
