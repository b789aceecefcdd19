"""What docs/scheduler.md says of the scheduler is what the scheduler knows: each flag, each number, each time."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from claimsmith import telemetry
from claimsmith.cli.commands import app
from claimsmith.kube.lease import LeaseTimes

PAGE = (Path(__file__).parents[3] / "docs" / "scheduler.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> str:
    """Return the first cells of the table with a heading."""
    rows = PAGE[PAGE.index(heading) :].split("\n\n", 1)[0].splitlines()[2:]
    return " ".join(row.split("|")[1] for row in rows)


def test_the_page_has_every_flag_and_no_other() -> None:
    command = typer.main.get_command(app).commands["scheduler"]  # type: ignore[attr-defined]
    known = {"-v" if item.name == "verbosity" else item.opts[0] for item in command.params}

    assert set(re.findall(r"`(--?[a-z-]+)`", first_cells("| flag |"))) == known - {"--help"}


def test_the_page_has_every_number_and_no_other() -> None:
    known = {value for name, value in vars(telemetry).items() if name.startswith("SCHEDULER_")}

    assert set(re.findall(r"`(\w+)`", first_cells("| metric |"))) == known


def test_the_page_tells_the_times_of_the_lease() -> None:
    times = LeaseTimes()

    assert (times.retry_s, times.renew_deadline_s, times.duration_s) == (2, 10, 15)
    assert "every two seconds" in PAGE
    assert "ten seconds after its last renewal" in PAGE
    assert "another one begins after fifteen" in PAGE
