"""`claimsmith controller`: makes kubelets look again at pods that would wait for their next regular sync."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from claimsmith.cli.daemon_options import (
    DaemonContext,
    DaemonKubeconfig,
    LeaseNamespace,
    LogForm,
    LogFormat,
    open_daemon_client,
)
from claimsmith.cli.options import Verbosity

__all__ = ["controller"]


def controller(  # noqa: PLR0913 - each is one option of the command
    kubeconfig: DaemonKubeconfig = None,
    context: DaemonContext = "",
    namespace: LeaseNamespace = "claimsmith-system",
    retry: Annotated[
        bool, typer.Option("--retry/--no-retry", help="Make kubelets try again soon after a failed prepare.")
    ] = True,
    print_manifests: Annotated[
        bool, typer.Option("--print-manifests", help="Instead of running: print account, rights and Deployment.")
    ] = False,
    log_format: LogForm = LogFormat.TEXT,
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

    if print_manifests:
        _print(namespace)
        return
    show_logs(verbosity, usual="info", as_json=log_format is LogFormat.JSON)
    options = ControllerOptions(namespace=namespace, retries=RetryPolicy() if retry else None)
    client = open_daemon_client(kubeconfig, context, manager="claimsmith-controller")
    run_interruptible(run_controller(client, options))


def _print(namespace: str) -> None:
    from claimsmith.cli.manifest_text import render_manifests
    from claimsmith.daemons.controller_rights import plan_controller_manifests

    sys.stdout.write(render_manifests(plan_controller_manifests(namespace=namespace)))
