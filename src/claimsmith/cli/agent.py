"""`claimsmith agent`: the drivers of one node, offered to the cluster."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from claimsmith.cli.options import Verbosity
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.daemons.agent_config import AgentConfig
    from claimsmith.kube.client import KubeClient

__all__ = ["LogFormat", "agent"]

_ROOT: Final = Path("/var/lib/kubelet")


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def agent(  # noqa: PLR0913 - each is one option of the command
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="AgentConfiguration: the drivers, and how each is offered.")
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Instead of a configuration: a driver plugin; may be repeated."),
    ] = None,
    settings: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Settings for --plugin; may be repeated.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="KUBECONFIG", help="The way to the API server. Default: that of a pod."),
    ] = None,
    context: Annotated[str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default=False)] = "",
    node_name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the node. Default: NODE_NAME, else the host's.", show_default=False),
    ] = "",
    kubelet_root: Annotated[Path, typer.Option(metavar="DIR", help="The kubelet's --root-dir.")] = _ROOT,
    device_plugin_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the kubelet looks for device plugins.")
    ] = _ROOT / "device-plugins",
    cdi_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where CDI files go.")] = Path("/var/run/cdi"),
    pod_uid: Annotated[
        str,
        typer.Option(
            metavar="UID",
            envvar="POD_UID",
            show_default=False,
            help="uid of this pod, for two agents at a time during an update.",
        ),
    ] = "",
    log_format: Annotated[LogFormat, typer.Option(help="How log lines look.")] = LogFormat.TEXT,
    verbosity: Verbosity = 0,
) -> None:
    """Run the drivers of this node until Ctrl-C or SIGTERM: publish devices, prepare claims.

    What is prepared and published stays when it ends, so that an update goes unnoticed.

    Example: claimsmith agent --config agent.yaml --kubeconfig admin.conf --node-name node-a
    """
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs
    from claimsmith.daemons.agent_process import AgentPlace, get_node_name, run_agent
    from claimsmith.kubelet.paths import NodePaths

    show_logs(verbosity, usual="info", as_json=log_format is LogFormat.JSON)
    chosen = _read_config(config, tuple(plugin or ()), tuple(settings or ()))
    root = kubelet_root.absolute()
    paths = NodePaths(
        plugins=root / "plugins",
        plugins_registry=root / "plugins_registry",
        device_plugins=device_plugin_dir.absolute(),
        cdi=cdi_dir.absolute(),
        state=root,
    )
    place = AgentPlace(node_name=get_node_name(node_name, os.environ), paths=paths, instance_uid=pod_uid)
    run_interruptible(run_agent(chosen, client=_open_client(kubeconfig, context), place=place))


def _read_config(config: Path | None, plugins: tuple[str, ...], settings: tuple[Path, ...]) -> AgentConfig:
    """Return the configuration that the options name.

    Raises:
        InputError: They name none or two, or it can't be used.
    """
    from claimsmith.daemons.agent_config import plugin_config, read_agent_config

    if (config is None) == (not plugins):
        found = "neither --config nor --plugin" if config is None else "both --config and --plugin"
        raise InputError(f"claimsmith agent: found {found}, allowed one of them; see `claimsmith agent --help`")
    if config is None:
        return plugin_config(plugins, settings)
    if settings:
        raise InputError("--settings: found together with --config, allowed with --plugin; name them in the file")
    return read_agent_config(config)


def _open_client(kubeconfig: Path | None, context: str) -> KubeClient:
    """Return the client that the options describe.

    Raises:
        KubeconfigError: There is no way to an API server.
    """
    from claimsmith.kube.client import KubeClient

    if kubeconfig is None:
        return KubeClient.from_pod(field_manager="claimsmith-agent")
    return KubeClient.from_kubeconfig(kubeconfig, context=context or None, field_manager="claimsmith-agent")
