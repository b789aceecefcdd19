"""`claimsmith demo`: the scripted tour on an embedded cluster, which ends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.output import Format, print_table, print_value

if TYPE_CHECKING:
    from claimsmith.daemons.onlooker import SeenPod
    from claimsmith.daemons.tour import StepReport

__all__ = ["demo"]


def demo(
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print what was seen.")] = Format.TABLE,
) -> None:
    """Show seven ways to share and choose devices on an embedded cluster; ends by itself in less than 30 s."""
    import asyncio
    import time

    started = time.monotonic()
    reports, seen = asyncio.run(_run(quiet=output is not Format.TABLE))
    if output is not Format.TABLE:
        print_value(
            {"steps": [_step_value(report) for report in reports], "pods": [_pod_value(p) for p in seen]}, output
        )
        return
    rows = [(str(pod.pod.name), pod.node, "\n".join(pod.devices), "\n".join(pod.env)) for pod in seen]
    print_table(("POD", "NODE", "DEVICES", "WHAT THE CONTAINER SAW"), rows)
    typer.echo(f"{len(reports)} steps, {len(seen)} pods, {time.monotonic() - started:.1f} s")


async def _run(*, quiet: bool) -> tuple[list[StepReport], list[SeenPod]]:
    """Run the tour with live progress on stderr; return what was seen."""
    import asyncio

    from rich.console import Console

    from claimsmith.daemons.onlooker import Onlooker
    from claimsmith.daemons.playground import Playground
    from claimsmith.daemons.tour import Tour, plan_tour

    console = Console(stderr=True, quiet=quiet, highlight=False)
    reports = []
    with console.status("starting API server, controllers, scheduler, and 5 nodes with their drivers") as status:
        async with Playground(plan_tour()) as playground, asyncio.TaskGroup() as group:
            onlooker = Onlooker(playground.client, playground.logs)
            follower = group.create_task(onlooker.run())
            async for report in Tour(playground, onlooker).steps():
                reports.append(report)
                console.print(f"[bold]{len(reports)}. {report.title}[/bold]")
                for fact in report.facts:
                    console.print(f"   {fact}", markup=False, soft_wrap=True)
                status.update("next step")
            follower.cancel()
            seen = list(onlooker.seen.values())
    return reports, seen


def _step_value(report: StepReport) -> dict[str, object]:
    return {"title": report.title, "facts": list(report.facts)}


def _pod_value(seen: SeenPod) -> dict[str, object]:
    return {"pod": str(seen.pod), "node": seen.node, "devices": list(seen.devices), "env": list(seen.env)}
