"""`claimsmith node`: the devices, labels, amounts and troubles of one node."""

from __future__ import annotations

import typer

from claimsmith.cli.node_capacity import set_capacity, show_capacity, unset_capacity
from claimsmith.cli.node_discover import discover, label
from claimsmith.cli.node_doctor import doctor
from claimsmith.cli.node_release import release

__all__ = ["node_app"]

node_app = typer.Typer(
    help="Devices, labels, amounts and troubles of one node.",
    add_completion=False,
    rich_markup_mode=None,
)
_capacity = typer.Typer(help="Extended resources of a node without a device plugin.", rich_markup_mode=None)


@node_app.callback(invoke_without_command=True)
@_capacity.callback(invoke_without_command=True)
def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


node_app.command(short_help="Show what the drivers find on this machine.")(discover)
node_app.command(short_help="Show or set labels that follow from the devices.")(label)
_capacity.command("set", short_help="Give the node amounts, such as nvidia.com/gpu=1.")(set_capacity)
_capacity.command("unset", short_help="Take extended resources away.")(unset_capacity)
_capacity.command("show", short_help="Show amounts, and who keeps them.")(show_capacity)
node_app.command(short_help="Find what keeps devices from pods, and what to do.")(doctor)
node_app.command(short_help="Take failed devices that work again back into use.")(release)
node_app.add_typer(_capacity, name="capacity", short_help="Amounts of extended resources.")
