"""`claimsmith whatif`: what would be after a change, on a live cluster, a snapshot, or files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.object_names import parse_node_name
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.short_reasons import shorten_reason
from claimsmith.cli.sources import ClusterSource, reads_cluster
from claimsmith.cli.thought import ChangeTexts
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.whatif import FitCount, NodePurchase, NodeTemplate
    from claimsmith.allocate.whatif.trial import PlacePod
    from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["whatif"]

Many = list[str] | None


def _option(name: str, metavar: str, text: str, *, parser: Callable[[str], Any] | None = None) -> Any:
    return typer.Option(name, metavar=metavar, help=text, show_default=False, parser=parser)


RemovedNodes = Annotated[Many, _option("--remove-node", "NAME", "Remove a node with its pods.", parser=parse_node_name)]
CordonedNodes = Annotated[Many, _option("--cordon", "NAME", "Let a node take no more pods.", parser=parse_node_name)]


@reads_cluster
def whatif(  # noqa: PLR0913 - each is one option of the command
    source: ClusterSource,
    add_node: Annotated[Many, _option("--add-node", "TEMPLATE=N", "Add nodes like a node, or a template.")] = None,
    remove_node: RemovedNodes = None,
    cordon: CordonedNodes = None,
    taint: Annotated[
        Many,
        _option("--taint", "WHAT", "node/NAME:KEY=VALUE:EFFECT, or device/DRIVER/POOL/DEVICE:KEY=VALUE:EFFECT."),
    ] = None,
    remove_pod: Annotated[Many, _option("--remove-pod", "NAMESPACE/NAME", "Let a pod end.")] = None,
    remove_driver: Annotated[Many, _option("--remove-driver", "DRIVER", "Take a driver's devices away.")] = None,
    remove_device: Annotated[Many, _option("--remove-device", "DRIVER/POOL/DEVICE", "Take a device away.")] = None,
    templates: Annotated[
        str,
        _option("--templates", "FILE", "Nodes to choose from; without --add-node: which are the cheapest that do?"),
    ] = "",
    fill: Annotated[str, _option("--fill", "FILE", "How many more of the file's pod fit?")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Say what becomes of the pods that wait, after changes that are only thought of.

    Pods, devices, classes and quotas come by -f, on top of what the cluster has; the other changes by their options,
    each of which may be repeated. Nothing is written. Exit code 1 says that something would not fit.

    Example: claimsmith whatif --kubeconfig admin.conf --add-node gpu-node-1=2 --remove-node old
    """
    from claimsmith.allocate.whatif import change_snapshot, count_fitting, find_cheapest_nodes
    from claimsmith.allocate.whatif.draining import find_waiting
    from claimsmith.cli.thought import parse_changes, read_templates, read_thought_pod
    from claimsmith.daemons.trial import SchedulerTrial

    texts = ChangeTexts(
        add_node=tuple(add_node or ()),
        remove_node=tuple(remove_node or ()),
        cordon=tuple(cordon or ()),
        taint=tuple(taint or ()),
        remove_pod=tuple(remove_pod or ()),
        remove_driver=tuple(remove_driver or ()),
        remove_device=tuple(remove_device or ()),
    )
    if fill and templates and not add_node:
        raise InputError(
            "--fill: found --templates without --add-node too, allowed one question; leave one of them out"
        )
    known: dict[str, NodeTemplate] = read_templates(templates) if templates else {}
    thought = read_thought_pod(source, fill) if fill else None
    before = source.open().snapshot if thought is None else thought.snapshot
    after, place = change_snapshot(before, parse_changes(texts, before, known)), SchedulerTrial()
    if thought is not None:
        found = count_fitting(after, thought.pod, place=place)
        _finish(_show_fill(thought.name, found, output, queue=len(find_waiting(after))))
    elif templates and not add_node:
        _finish(_show_purchase(find_cheapest_nodes(after, tuple(known.values()), place=place), output))
    else:
        _finish(_show_queue(before, after, place, output))


def _finish(is_done: bool) -> None:
    if not is_done:
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _show_queue(before: ClusterSnapshot, after: ClusterSnapshot, place: PlacePod, output: Format) -> bool:
    """Show what becomes of the pods that wait or end, before and after; tell whether all of them run."""
    from claimsmith.allocate.whatif.draining import find_waiting
    from claimsmith.allocate.whatif.ending import find_ends, take_ended
    from claimsmith.allocate.whatif.trial import Placement, place_all
    from claimsmith.cli.thought_values import decision_value, describe_ends, end_value

    ends = find_ends(before, after)
    after = take_ended(after, ends)
    _, was = place_all(before, find_waiting(before), place=place, explain=False)
    _, now = place_all(after, find_waiting(after), place=place)
    earlier = {item.pod.ref: item.node for item in was if isinstance(item, Placement)}
    earlier |= {end.pod.ref: end.pod.node_name for end in ends}
    values = [{**decision_value(item), "before": earlier.get(item.pod.ref, "")} for item in now]
    if output is not Format.TABLE:
        print_value({"question": "queue", "pods": values, "ends": [end_value(end, after) for end in ends]}, output)
    else:
        for line in describe_ends(ends, after):
            typer.echo(line)
        _print_queue(values)
    return all(isinstance(item, Placement) for item in now)


def _print_queue(values: list[dict[str, Any]]) -> None:
    if not values:
        tell("nothing waits")
        return
    why = [shorten_reason(v["message"], "") for v in values]
    rows = [(v["pod"], v["before"] or "-", v["node"] or "-", text) for v, text in zip(values, why, strict=True)]
    print_table(("POD", "NOW", "THEN", "WHY NOT"), rows)


def _show_fill(name: str, found: FitCount, output: Format, *, queue: int) -> bool:
    """Show how many copies fit beside what runs, and how many pods wait besides; tell whether one fits."""
    message = "" if found.stopped is None else found.stopped.message
    if output is not Format.TABLE:
        quota = None
        if found.quota is not None:
            limit = found.quota
            quota = {"quota": limit.quota, "resource": limit.resource, "copies": limit.copies}
        value = {"question": "fill", "pod": name, "fit": found.total, "roomFor": found.on_nodes, "waiting": queue}
        print_value({**value, "byNode": dict(found.by_node), "quota": quota, "next": message}, output)
        return found.total > 0
    ends = found.quota is not None and found.quota.copies <= found.on_nodes
    why = f", as {found.quota.text}; there is room for {found.on_nodes}" if found.quota is not None and ends else ""
    typer.echo(f"pod {name}: {found.total} more fit{why}")
    for count, nodes in found.groups.items():
        shown = ", ".join(nodes[:10]) + (f" and {len(nodes) - 10} more" if len(nodes) > 10 else "")
        typer.echo(f"  {count} on {'each of ' if len(nodes) > 1 else ''}{shown}")
    if message and not ends:
        typer.echo(f"the next one waits: {shorten_reason(message, '')}")
    if queue:
        typer.echo(f"{queue} pod{'s wait' if queue > 1 else ' waits'} already and may take that room first")
    return found.total > 0


def _show_purchase(found: NodePurchase, output: Format) -> bool:
    """Show which nodes to add; tell whether the whole queue runs then."""
    from claimsmith.allocate.whatif.trial import NoPlace
    from claimsmith.cli.thought_values import decision_value

    pending = [item for item in (*found.decisions, *found.hopeless) if isinstance(item, NoPlace)]
    if output is not Format.TABLE:
        value: dict[str, Any] = {"question": "nodes", "status": found.status, "nodes": dict(found.counts)}
        value |= {"cost": found.cost, "bound": found.bound, "trials": found.trials}
        print_value({**value, "pods": [decision_value(item) for item in (*found.decisions, *found.hopeless)]}, output)
        return not pending
    needed = ", ".join(f"{count} × {name}" for name, count in found.counts.items())
    match found.status:
        case "needless":
            typer.echo("no node is needed: everything that can run does")
        case "optimal":
            typer.echo(f"{needed}: cost {found.cost:g}, and nothing cheaper does")
        case "feasible":
            typer.echo(f"{needed}: cost {found.cost:g}; less than {found.bound:g} can't do, between them is unknown")
        case "impossible":
            typer.echo(f"not even {needed or 'all templates'} do")
    for item in pending:
        message = shorten_reason(item.message, "")
        typer.echo(f"pod {item.pod.ref} waits whatever is added: {message}")
    return not pending
