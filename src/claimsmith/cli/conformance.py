"""`claimsmith conformance`: our answers against recorded upstream answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.exits import Exit
from claimsmith.cli.options import LikeUpstream

if TYPE_CHECKING:
    from claimsmith.testing.conformance import FileReport

__all__ = ["conformance"]


def conformance(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Recorded cases: JSON lines, gzip'd or not.")],
    like_upstream: LikeUpstream = False,
) -> None:
    """Compare our answers with recorded upstream answers.

    Each case that is not as recorded is named: what differs and should not, what differs on purpose with the heading
    of docs/deviations.md, and records that are not whole. Then come the slowest case, and how many agree and differ.
    Exit code 1 says that some differ and should not.
    """
    from claimsmith.testing.conformance import run_file

    reports = [run_file(path, like_upstream=like_upstream) for path in files]
    for report in reports:
        for line in _describe(report):
            typer.echo(f"{report.source}: {line}")
    typer.echo(_sum_up(reports))
    if any(report.differing for report in reports):
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _describe(report: FileReport) -> Iterator[str]:
    for outcome in report.differing:
        yield f"{outcome.name}: {'; '.join(outcome.differences)}"
    for outcome in report.lacking:
        yield f"{outcome.name}: the record lacks {outcome.lacks}"
    for outcome in report.deviating:
        yield f"{outcome.name}: {'; '.join(map(str, outcome.deviations))}"
    if report.slowest is not None:
        yield f"slowest {report.slowest.name}, {report.slowest.seconds:.3f} s, {report.slowest.steps} steps"


def _sum_up(reports: list[FileReport]) -> str:
    """Return how many cases came to what; what never happened is left out."""
    deviating = sum(len(report.deviating) for report in reports)
    agreeing = sum(len(report.agreeing) for report in reports) - deviating
    lacking = sum(len(report.lacking) for report in reports)
    parts = [f"{agreeing} agree", f"{deviating} deviate on purpose" if deviating else ""]
    parts += [f"{lacking} can't be judged" if lacking else "", f"{sum(len(r.differing) for r in reports)} differ"]
    return ", ".join(filter(None, parts))
