"""`claimsmith`: the commands, and what becomes of an error.

Commands import what they need when they run, so that `--help` and completion stay fast.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from claimsmith import __version__
from claimsmith.cli.allocate import allocate
from claimsmith.cli.conformance import conformance
from claimsmith.cli.demo import demo
from claimsmith.cli.devices import devices
from claimsmith.cli.exits import Exit, exit_for
from claimsmith.cli.explain import explain
from claimsmith.cli.up import up

__all__ = ["app", "main"]

app = typer.Typer(
    name="claimsmith",
    help="Gets the right devices to the right pods on Kubernetes, and says why when it can't.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"claimsmith {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version


for _command in (demo, up, allocate, explain, devices, conformance):
    app.command()(_command)


def main() -> None:
    """Run the command line and end the process: 0 done, 1 does not fit, 2 bad input, 3 unreachable, 4 our bug."""
    try:
        app()
    except BrokenPipeError:
        # The reader (`head`, `less`) has seen enough; Python must not complain when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.DONE)
    except Exception as error:
        sys.exit(exit_for(error))


if __name__ == "__main__":
    main()
