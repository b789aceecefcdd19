"""Options that the commands for one node share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.daemons.node_discovery import Discovery
    from claimsmith.kube.client import KubeClient

__all__ = [
    "Config",
    "Context",
    "Kubeconfig",
    "NodeName",
    "Plugins",
    "SettingsFiles",
    "find_client",
    "get_node",
    "open_client",
    "run_drivers",
]

Kubeconfig = Annotated[
    str,
    typer.Option(
        metavar="FILE", show_default=False,
        help="The way to the API server; default: $KUBECONFIG, else the pod's service account, else ~/.kube/config.",
    ),
]  # fmt: skip
"""Where to find the API server."""
Context = Annotated[str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default=False)]
"""Which cluster of the kubeconfig."""
NodeName = Annotated[
    str,
    typer.Option("--node", metavar="NAME", show_default=False, help="The node; default: $NODE_NAME, else this host."),
]
"""The node to work on."""
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", show_default=False, help="AgentConfiguration: the drivers of the node."),
]
"""The agent's configuration."""
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="NAME", show_default=False, help="A driver plugin; may be repeated."),
]
"""Drivers instead of a configuration."""
SettingsFiles = Annotated[
    list[Path] | None,
    typer.Option("--settings", metavar="FILE", show_default=False, help="Settings for --plugin; may be repeated."),
]
"""What the drivers read."""

_USUAL: Path = Path("~/.kube/config")


def get_node(name: str) -> str:
    """Return the name of the node that is meant.

    Raises:
        InputError: It is no name that a node can have.
    """
    from claimsmith.daemons.agent_process import get_node_name

    return get_node_name(name, os.environ)


def run_drivers(
    config: Path | None, plugins: list[str] | None, settings: list[Path] | None, *, node: str
) -> tuple[Discovery, ...]:
    """Return what drivers find: those of a configuration, those that are named, or all that are installed.

    Raises:
        InputError: Options exclude each other, or the configuration or the settings can't be used.
        ConfigError: A plugin can't be loaded.
    """
    from claimsmith.daemons.agent_config import plugin_config, read_agent_config
    from claimsmith.daemons.node_discovery import discover_installed, discover_node

    if config is not None:
        if plugins or settings:
            other = "--plugin" if plugins else "--settings"
            raise InputError(f"{other}: found together with --config, allowed one of them; name it in the file")
        return discover_node(read_agent_config(config), node=node)
    files = tuple(settings or ())
    if plugins:
        return discover_node(plugin_config(tuple(plugins), files), node=node)
    return discover_installed(files, node=node)


def open_client(kubeconfig: str, context: str) -> KubeClient:
    """Return a client of the cluster that is meant.

    Raises:
        KubeconfigError: There is no way to an API server.
    """
    from claimsmith.kube.client import KubeClient

    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not path and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return KubeClient.from_pod(field_manager="claimsmith-node")
    chosen = Path(path).expanduser() if path else _USUAL.expanduser()
    return KubeClient.from_kubeconfig(chosen, context=context or None, field_manager="claimsmith-node")


def find_client(kubeconfig: str, context: str) -> KubeClient | None:
    """Return a client as `open_client` does; None when nothing is named and nothing is found.

    Raises:
        KubeconfigError: What is named can't be used.
    """
    is_named = kubeconfig or os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST")
    return open_client(kubeconfig, context) if is_named or _USUAL.expanduser().is_file() else None
