"""`claimsmith up`: an embedded cluster that stays until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["up"]


def up(
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--files", help="Manifests: files, folders, or - for standard input. Default: an example."),
    ] = None,
    write_kubeconfig: Annotated[
        Path | None, typer.Option(help="Write a kubeconfig for kubectl there; never over one of somebody else.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="SQLite file that keeps all objects over restarts.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API server on 127.0.0.1; 0: any.")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the nodes' sockets and files. Default: a temporary one.")
    ] = None,
) -> None:
    """Run an embedded cluster with simulated devices on your manifests; kubectl works on it. Ctrl-C ends it."""
    import asyncio

    from claimsmith.cli.inputs import read_manifests
    from claimsmith.cli.kubeconfig import check_kubeconfig
    from claimsmith.daemons.clusterplan import plan_cluster
    from claimsmith.daemons.playground import PlaygroundOptions
    from claimsmith.daemons.tour import plan_tour

    plan = plan_cluster(read_manifests(files)) if files else plan_tour()
    for sentence in plan.left_out:
        typer.echo(f"claimsmith: {sentence}", err=True)
    if write_kubeconfig is not None:
        check_kubeconfig(write_kubeconfig)
    options = PlaygroundOptions(
        port=port, state_file=state, folder=folder, settings_files=tuple(_find_settings_files(plan.settings))
    )
    asyncio.run(_stay(plan, options, write_kubeconfig))


def _find_settings_files(settings: Any) -> list[Path]:
    """Return the files that settings of drivers stand in, which are followed while the cluster runs."""
    return [path for path in dict.fromkeys(Path(item.source) for item in settings if item.text) if path.is_file()]


async def _stay(plan: Any, options: Any, write_kubeconfig: Path | None) -> None:
    """Run the cluster until SIGINT or SIGTERM."""
    import asyncio
    import signal

    from claimsmith.cli.kubeconfig import remove_kubeconfig, save_kubeconfig
    from claimsmith.daemons.playground import Playground

    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    async with Playground(plan, options) as playground:
        if write_kubeconfig is not None:
            save_kubeconfig(write_kubeconfig, playground.url)
            typer.echo(f"kubeconfig {write_kubeconfig}")
        typer.echo(f"API server {playground.url}, {len(plan.nodes)} nodes")
        typer.echo("ready")
        await end.wait()
    if write_kubeconfig is not None:
        remove_kubeconfig(write_kubeconfig)
