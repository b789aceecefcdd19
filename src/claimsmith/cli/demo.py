"""`claimsmith demo`: the scripted tour on an embedded cluster, which ends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from claimsmith.cli.options import Output, Verbosity
from claimsmith.cli.output import Format, print_table, print_value

if TYPE_CHECKING:
    from rich.console import Console

    from claimsmith.daemons.onlooker import SeenPod
    from claimsmith.daemons.tour import Fact, StepReport

__all__ = ["demo"]

_INTERRUPTED = 128
"""A command that a signal has ended exits with this plus the signal's number, as a shell would say."""


def demo(output: Output = Format.TABLE, verbosity: Verbosity = 0) -> None:
    """Show eight ways to choose and share devices on an embedded cluster; it ends by itself in less than 30 s.

    Progress goes to stderr, the result to stdout: a table pod → node → devices → what the container saw.
    The manifests of the tour are in the package, in examples/mixed-gpus.
    """
    import signal
    import time

    from rich.console import Console

    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs

    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    show_logs(verbosity, usual="error", write=lambda line: console.print(line, markup=False, soft_wrap=True))
    result = run_interruptible(_run(console, quiet=output is not Format.TABLE))
    if isinstance(result, signal.Signals):
        raise typer.Exit(_INTERRUPTED + result)
    reports, seen = result
    if output is not Format.TABLE:
        print_value(
            {"steps": [_step_value(report) for report in reports], "pods": [_pod_value(p) for p in seen]}, output
        )
        return
    _print_result(reports, seen, seconds=time.monotonic() - started)


def _print_result(reports: list[StepReport], seen: list[SeenPod], *, seconds: float) -> None:
    from claimsmith.cli.demo_table import COLUMNS, find_rows

    print_table(COLUMNS, find_rows(seen))
    ran = {str(pod.pod.name) for pod in seen}
    waiting = {fact.pod for report in reports for fact in report.facts if fact.what == "waits"} - ran
    typer.echo(f"{len(reports)} steps, {len(ran)} pods ran, {len(waiting)} still waits, {seconds:.1f} s")


async def _run(console: Console, *, quiet: bool) -> tuple[list[StepReport], list[SeenPod]]:
    """Run the tour with live progress; return what was seen."""
    import asyncio

    from claimsmith.daemons.onlooker import Onlooker
    from claimsmith.daemons.playground import Playground
    from claimsmith.daemons.tour import TOUR_OPTIONS, Tour, plan_tour

    plan = plan_tour()
    reports: list[StepReport] = []
    told = _Progress(console, quiet=quiet)
    with told.status(f"starting API server, controllers, scheduler, and {len(plan.nodes)} nodes with their drivers"):
        async with Playground(plan, TOUR_OPTIONS) as playground, asyncio.TaskGroup() as group:
            onlooker = Onlooker(playground.client, playground.logs)
            follower = group.create_task(onlooker.run())
            tour = Tour(playground, onlooker)
            told.begin(tour.titles, 0)
            async for report in tour.steps():
                reports.append(report)
                told.show(report, len(reports))
                told.begin(tour.titles, len(reports))
            follower.cancel()
            return reports, list(onlooker.seen.values())


class _Progress:
    """Live progress on stderr."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._status: Any = None

    def status(self, text: str) -> Any:
        """Return the live line as a context."""
        from contextlib import nullcontext

        self._status = None if self._quiet else self._console.status(text)
        return self._status or nullcontext()

    def begin(self, titles: tuple[str, ...], done: int) -> None:
        """Show what comes next in the live line."""
        if self._status is not None:
            text = f"{done + 1}/{len(titles)} {titles[done]}" if done < len(titles) else "ending the cluster"
            self._status.update(text)

    def show(self, report: StepReport, number: int) -> None:
        """Print a step that is done."""
        from rich.padding import Padding
        from rich.text import Text

        if self._quiet:
            return
        self._console.print(Text(f"{number}. {report.title}", style="bold"))
        for fact in report.facts:
            if self._console.is_terminal:
                self._console.print(Padding(Text(fact.text), (0, 0, 0, 3)))
            else:
                self._console.print(Text(f"   {fact.text}"), soft_wrap=True)


def _step_value(report: StepReport) -> dict[str, object]:
    return {"title": report.title, "facts": [_fact_value(fact) for fact in report.facts]}


def _fact_value(fact: Fact) -> dict[str, object]:
    value = {
        "what": fact.what,
        "pod": fact.pod,
        "node": fact.node,
        "devices": list(fact.devices),
        "reason": fact.reason,
        "text": fact.text,
    }
    return {key: found for key, found in value.items() if found}


def _pod_value(seen: SeenPod) -> dict[str, object]:
    return {"pod": str(seen.pod), "node": seen.node, "devices": list(seen.devices), "env": list(seen.env)}
