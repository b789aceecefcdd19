"""`claimsmith conformance`: our answers against recorded upstream answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from claimsmith.cli.exits import Exit
from claimsmith.cli.options import LikeUpstream
from claimsmith.errors import InputError

__all__ = ["conformance"]


def conformance(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Recorded cases: JSON lines, gzip'd or not.")],
    like_upstream: LikeUpstream = False,
) -> None:
    """Compare our answers with recorded upstream answers.

    The names of the differing cases come first, then the slowest case, then `N agree, M differ`. Exit code 1 says that
    some differ.
    """
    from claimsmith.testing.conformance import run_file

    reports = [run_file(path, like_upstream=like_upstream) for path in files]
    for report in reports:
        if not report.agreeing and not report.differing:
            raise InputError(f"{report.source}: found no case, allowed one or more JSON lines; name a recorded file")
    for report in reports:
        for outcome in report.differing:
            typer.echo(f"{report.source}: {outcome.name}: {'; '.join(outcome.differences)}")
        if report.slowest is not None:
            slowest = report.slowest
            typer.echo(f"{report.source}: slowest {slowest.name}, {slowest.seconds:.3f} s, {slowest.steps} steps")
    differing = sum(len(report.differing) for report in reports)
    typer.echo(f"{sum(len(report.agreeing) for report in reports)} agree, {differing} differ")
    if differing:
        raise typer.Exit(Exit.DOES_NOT_FIT)
