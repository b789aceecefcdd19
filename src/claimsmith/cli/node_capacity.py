"""`claimsmith node capacity`: amounts of extended resources on nodes without a device plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.exits import tell
from claimsmith.cli.node_options import Context, Kubeconfig, NodeName, get_node, open_client
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.kube.client import KubeClient, KubeObject
    from claimsmith.publish.nodestatus import CapacityChange

__all__ = ["set_capacity", "show_capacity", "unset_capacity"]


def set_capacity(
    amounts: Annotated[list[str], typer.Argument(metavar="NAME=AMOUNT...", help="Such as nvidia.com/gpu=1.")],
    node: NodeName = "",
    keep: Annotated[
        bool, typer.Option("--keep", help="Stay, and set them again whenever they are reset, as by the kubelet.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:  # fmt: skip
    """Give a node amounts of extended resources. An agent of the node keeps them, or --keep does.

    Example: claimsmith node capacity set nvidia.com/gpu=1 --node node-a
    """
    from claimsmith.publish.nodestatus import CapacityChange, parse_amount

    pairs = [parse_amount(text) for text in amounts]
    if len({name for name, _ in pairs}) < len(pairs):
        raise InputError(f"amounts: found a resource twice in {' '.join(amounts)}, allowed each once; remove one")
    name = get_node(node)
    _change(CapacityChange(amounts=dict(pairs)), node=name, client=open_client(kubeconfig, context), keep=keep)


def unset_capacity(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Such as nvidia.com/gpu.")],
    node: NodeName = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Take extended resources away from a node; nobody sets them again.

    Example: claimsmith node capacity unset nvidia.com/gpu --node node-a
    """
    from claimsmith.publish.nodestatus import CapacityChange, parse_resource_name

    gone = frozenset(parse_resource_name(name) for name in names)
    name = get_node(node)
    _change(CapacityChange(gone=gone), node=name, client=open_client(kubeconfig, context), keep=False)


def show_capacity(
    node: NodeName = "", kubeconfig: Kubeconfig = "", context: Context = "", output: Output = Format.TABLE
) -> None:
    """Show the extended resources of a node, and who keeps their amounts.

    Example: claimsmith node capacity show --node node-a -o json
    """
    name = get_node(node)
    import asyncio

    obj = asyncio.run(_read(open_client(kubeconfig, context), name))
    rows = _list_resources(obj)
    if output is not Format.TABLE:
        print_value({"node": name, "resources": rows}, output)
    elif not rows:
        tell(f"node {name} has no extended resources")
    else:
        columns = ("resource", "capacity", "allocatable", "wanted", "keptBy")
        table = [[str(row[column]) if row[column] is not None else "-" for column in columns] for row in rows]
        print_table(("RESOURCE", "CAPACITY", "ALLOCATABLE", "WANTED", "KEPT BY"), table)


def _change(change: CapacityChange, *, node: str, client: KubeClient, keep: bool) -> None:
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs

    show_logs(0, usual="info" if keep else "warning")
    run_interruptible(_write(client, node, change, keep=keep))


async def _write(client: KubeClient, node: str, change: CapacityChange, *, keep: bool) -> None:
    from claimsmith.api.kinds import DEVICE_CLASS, NODE
    from claimsmith.errors import ApiError
    from claimsmith.publish.nodestatus import apply_capacity, find_rivals
    from claimsmith.publish.nodestatus_keeper import CapacityKeeper

    try:
        obj = await client.get(NODE, node)
        try:
            classes = (await client.list(DEVICE_CLASS)).items
        except ApiError:
            # The warning is help, not a condition: who may patch nodes need not be able to list classes.
            classes = []
        for name in change.amounts:
            for rival in find_rivals(name, node=obj, classes=classes):
                tell(rival)
        done = await apply_capacity(client, node, change)
        for name, amount in change.amounts.items():
            typer.echo(f"node {node}: {name}={amount} {'set' if not done.is_empty else 'is set already'}")
        for name in sorted(change.gone):
            typer.echo(f"node {node}: {name} {'taken away' if not done.is_empty else 'is not there'}")
        if keep:
            typer.echo("keeping it until Ctrl-C")
            await CapacityKeeper(client, node, change=change).run()
    finally:
        await client.close()


async def _read(client: KubeClient, node: str) -> KubeObject:
    from claimsmith.api.kinds import NODE

    try:
        return await client.get(NODE, node)
    finally:
        await client.close()


def _list_resources(node: KubeObject) -> list[dict[str, Any]]:
    from claimsmith.publish.nodestatus import CONFIGURED_ANNOTATION, read_wishes
    from claimsmith.validate.names import is_extended_resource_name

    status = node.get("status") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    wishes, configured = read_wishes(node), read_wishes(node, CONFIGURED_ANNOTATION)
    names = {name for name in (*capacity, *allocatable) if is_extended_resource_name(name)}
    return [
        {
            "resource": name,
            "capacity": capacity.get(name),
            "allocatable": allocatable.get(name),
            "wanted": wishes.get(name, configured.get(name)),
            "keptBy": "hand" if name in wishes else "agent" if name in configured else None,
        }
        for name in sorted(names | wishes.keys() | configured.keys())
    ]
