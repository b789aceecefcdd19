"""The commands. Each imports what it needs when it runs, so that `--help` and completion stay fast."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from claimsmith import __version__
from claimsmith.cli.agent import run_agent_command
from claimsmith.cli.allocate import allocate
from claimsmith.cli.conformance import conformance
from claimsmith.cli.controller import controller
from claimsmith.cli.defrag import defrag
from claimsmith.cli.demo import demo
from claimsmith.cli.devices import devices
from claimsmith.cli.drain import drain
from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.explain import explain
from claimsmith.cli.lint import lint
from claimsmith.cli.node import node_app
from claimsmith.cli.preempt import preempt
from claimsmith.cli.replay import replay
from claimsmith.cli.scheduler import scheduler
from claimsmith.cli.snapshot import snapshot_app
from claimsmith.cli.up import up
from claimsmith.cli.whatif import whatif

__all__ = ["app", "run_command"]

app = typer.Typer(
    name="claimsmith",
    help="Gets the right devices to the right pods on Kubernetes, and says why when it can't.",
    epilog="Start with `claimsmith demo`. Exit codes: 0 done, 1 does not fit, 2 bad input, 3 unreachable, 4 our bug.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take longer to load than all else together
)


_MEANT: Final = {
    "check": "lint",
    "validate": "lint",
    "verify": "lint",
    "why": "explain",
    "simulate": "whatif",
    "schedule": "allocate",
    "defragment": "defrag",
}
"""Commands as other programs call them."""


def run_command() -> int | None:
    """Run the command that the arguments name; return its exit code, None for done."""
    try:
        code: int | None = app(standalone_mode=False, prog_name="claimsmith")
    except typer.TyperException as error:
        return _refuse_usage(error)
    return code


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"claimsmith {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _agent(context: typer.Context) -> None:
    """Stand in the list of commands; `main` runs it without coming here when it is the first argument."""
    run_agent_command(context.args)


app.command(short_help="A tour of eight steps on an embedded cluster.")(demo)
app.command(short_help="An embedded cluster that stays; kubectl works on it.")(up)
app.command(short_help="Decide who gets which devices; nothing is changed.")(allocate)
app.command(short_help="Say why a pod or claim gets no devices.")(explain)
app.command(short_help="List devices, their holders and taints.")(devices)
app.command(short_help="Find faults in selectors and requests, and correct them.")(lint)
app.command(short_help="Say what would be: nodes added, drained, bought; pods that still fit.")(whatif)
app.command(short_help="Say who would have to go so that a pod or gang gets a place; with --yes, evict them.")(preempt)
app.command(short_help="Plan a few moves that free a larger piece; with --yes, do them.")(defrag)
app.command(short_help="Plan where the pods of a node go; with --yes, let them.")(drain)
app.add_typer(snapshot_app, name="snapshot", short_help="A cluster's device state in a file, without secrets.")
app.command(short_help="Replay a workload trace: how much gets allocated.")(replay)
app.command(short_help="Compare answers with recorded upstream ones.")(conformance)
app.command(
    "agent",
    short_help="The drivers of one node, offered to the cluster.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(_agent)
app.command(short_help="Makes kubelets look again at pods that wait.")(controller)
app.command(short_help="Nodes and devices for the pods that name it.")(scheduler)
app.add_typer(node_app, name="node", short_help="Devices, labels, amounts and troubles of one node.")


def _refuse_usage(error: typer.TyperException) -> Exit:
    """Say in one line what is wrong with the arguments."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "claimsmith"
    sentence = error.format_message().replace("Value error, ", "").rstrip(".")
    named = re.match(r"No such command '([a-z-]+)'", sentence)
    if named is not None and named[1] in _MEANT:
        sentence = f"{named[0]}. Did you mean {_MEANT[named[1]]!r}?"
    tell(f"{sentence[:1].lower()}{sentence[1:]}; see `{command} --help`")
    return Exit.BAD_INPUT
