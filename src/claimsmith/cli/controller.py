"""`claimsmith controller`: makes kubelets look again at pods that would wait for their next regular sync."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.options import Verbosity

if TYPE_CHECKING:
    from claimsmith.kube.client import KubeClient

__all__ = ["LogFormat", "PrintedRights", "controller"]


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class PrintedRights(StrEnum):
    """Whose manifests are printed."""

    CONTROLLER = "controller"
    SCHEDULER = "scheduler"


def controller(  # noqa: PLR0913 - each is one option of the command
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="KUBECONFIG", help="The way to the API server. Default: that of a pod."),
    ] = None,
    context: Annotated[str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default=False)] = "",
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where its Lease is: of several controllers one works.")
    ] = "claimsmith-system",
    retry: Annotated[
        bool, typer.Option("--retry/--no-retry", help="Make kubelets try again soon after a failed prepare.")
    ] = True,
    print_manifests: Annotated[
        PrintedRights | None,
        typer.Option(help="Instead of running: print account, rights and Deployment, or the scheduler's rights."),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines look.")] = LogFormat.TEXT,
    verbosity: Verbosity = 0,
) -> None:
    """Run a controller until Ctrl-C or SIGTERM.

    After a driver's return, and after a failed prepare, it changes an annotation of the pods that wait, so that their
    kubelets look at them at once and not a minute later.

    Example: claimsmith controller --kubeconfig admin.conf --namespace kube-system
    """
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs
    from claimsmith.daemons.controller import ControllerOptions, run_controller
    from claimsmith.daemons.controller_retries import RetryPolicy

    if print_manifests is not None:
        _print(print_manifests, namespace)
        return
    show_logs(verbosity, usual="info", as_json=log_format is LogFormat.JSON)
    options = ControllerOptions(namespace=namespace, retries=RetryPolicy() if retry else None)
    run_interruptible(run_controller(_open_client(kubeconfig, context), options))


def _print(whose: PrintedRights, namespace: str) -> None:
    from claimsmith.cli.manifest_text import render_manifests
    from claimsmith.daemons.controller_rights import plan_controller_manifests, plan_scheduler_manifests

    plan = plan_controller_manifests if whose is PrintedRights.CONTROLLER else plan_scheduler_manifests
    sys.stdout.write(render_manifests(plan(namespace=namespace)))


def _open_client(kubeconfig: Path | None, context: str) -> KubeClient:
    """Return the client that the options describe.

    Raises:
        KubeconfigError: There is no way to an API server.
    """
    from claimsmith.kube.client import KubeClient

    manager = "claimsmith-controller"
    if kubeconfig is None:
        return KubeClient.from_pod(field_manager=manager)
    return KubeClient.from_kubeconfig(kubeconfig, context=context or None, field_manager=manager)
