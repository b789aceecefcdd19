"""`claimsmith up`: an embedded cluster that stays until Ctrl-C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.exits import tell
from claimsmith.cli.options import PolicyName, Strict, Verbosity, parse_policy

if TYPE_CHECKING:
    from claimsmith.daemons.clusterplan import ClusterPlan
    from claimsmith.daemons.playground import PlaygroundOptions

__all__ = ["up"]


def up(  # noqa: PLR0913 - each is one option of the command
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--files",
            metavar="PATH",
            help="Manifests: a file, a folder, or - for stdin; may be repeated. Default: the devices of the demo.",
        ),
    ] = None,
    write_kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write a kubeconfig there, removed at the end; never over one of somebody else."
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="PATH", help="SQLite file that keeps all objects over restarts.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1; 0 for any free one.")
    ] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Folder for the nodes' sockets and files. Default: a temporary one."),
    ] = None,
    policy: PolicyName = "",
    strict: Strict = False,
    verbosity: Verbosity = 0,
) -> None:
    """Run an embedded cluster on your manifests until Ctrl-C.

    Nodes come from Node objects and from the `nodes` of SimulatedDevices; ResourceSlices of a node are served by
    stand-ins of their drivers. SimulatedDevices may be edited while the cluster runs. `ready` is printed once nodes,
    devices and all objects are in.

    Example: claimsmith up -f cluster.yaml --write-kubeconfig kc.yaml, then kubectl --kubeconfig kc.yaml get pods
    """
    from claimsmith.cli.inputs import read_manifests
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.kubeconfig import check_kubeconfig
    from claimsmith.cli.logs import show_logs
    from claimsmith.daemons.clusterplan import plan_cluster
    from claimsmith.daemons.playground import PLAYGROUND_SCHEDULER, PlaygroundOptions
    from claimsmith.daemons.tour import plan_tour

    show_logs(verbosity)
    scheduler = replace(PLAYGROUND_SCHEDULER, policy=parse_policy(policy))
    plan = plan_cluster(read_manifests(files), strict=strict) if files else plan_tour()
    for sentence in plan.left_out:
        tell(sentence)
    if write_kubeconfig is not None:
        check_kubeconfig(write_kubeconfig)
    options = PlaygroundOptions(
        port=port, state_file=state, folder=folder, settings_files=_find_settings_files(plan), scheduler=scheduler
    )
    run_interruptible(_stay(plan, options, write_kubeconfig))


def _find_settings_files(plan: ClusterPlan) -> tuple[Path, ...]:
    """Return the files that settings of drivers stand in, which are followed while the cluster runs."""
    sources = dict.fromkeys(Path(item.source) for item in plan.settings if item.text)
    return tuple(path for path in sources if path.is_file())


async def _stay(plan: ClusterPlan, options: PlaygroundOptions, write_kubeconfig: Path | None) -> None:
    """Run the cluster until cancelled."""
    import asyncio
    from contextlib import nullcontext

    from claimsmith.cli.kubeconfig import written_kubeconfig
    from claimsmith.daemons.playground import Playground

    async with Playground(plan, options) as playground:
        with written_kubeconfig(write_kubeconfig, playground.url) if write_kubeconfig else nullcontext():
            if not playground.nodes:
                tell("no node in the files, so no pod can run; name one in a Node or in `nodes` of SimulatedDevices")
            count = len(playground.nodes)
            typer.echo(f"API server {playground.url}, {count} {'node' if count == 1 else 'nodes'}")
            if write_kubeconfig is not None:
                typer.echo(f"kubectl --kubeconfig {write_kubeconfig} get nodes,pods,resourceslices")
            typer.echo("ready")
            await asyncio.Event().wait()
