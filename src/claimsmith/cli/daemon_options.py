"""What the commands that run daemons of a cluster share: the way to the API server, the Lease, the log."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from claimsmith.kube.client import KubeClient

__all__ = ["DaemonContext", "DaemonKubeconfig", "LeaseNamespace", "LogForm", "LogFormat", "open_daemon_client"]


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


DaemonKubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="KUBECONFIG", help="The way to the API server. Default: that of a pod."),
]
"""The kubeconfig; None inside of a pod."""
DaemonContext = Annotated[str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default=False)]
"""Its context; empty for the current one."""
LeaseNamespace = Annotated[str, typer.Option(metavar="NAME", help="Where its Lease is: of several, one works.")]
"""The namespace of a daemon and its Lease."""
LogForm = Annotated[LogFormat, typer.Option(help="How log lines look.")]
"""How log lines look."""


def open_daemon_client(kubeconfig: Path | None, context: str, *, manager: str) -> KubeClient:
    """Return the client that the options describe.

    Args:
        manager: Name under which the server records what the daemon writes.

    Raises:
        KubeconfigError: There is no way to an API server.
    """
    from claimsmith.kube.client import KubeClient

    if kubeconfig is None:
        return KubeClient.from_pod(field_manager=manager)
    return KubeClient.from_kubeconfig(kubeconfig, context=context or None, field_manager=manager)
