"""`claimsmith scheduler`: nodes and devices for the pods that name it, decided together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from claimsmith.cli.daemon_options import (
    DaemonContext,
    DaemonKubeconfig,
    LeaseNamespace,
    LogForm,
    LogFormat,
    open_daemon_client,
)
from claimsmith.cli.options import PolicyName, Verbosity, parse_policy
from claimsmith.errors import FieldError, InputError

if TYPE_CHECKING:
    from claimsmith.daemons.scheduler import SchedulerOptions
    from claimsmith.daemons.status_server import ListenAddress

__all__ = ["PlacementName", "scheduler"]

_NAME: Final = "claimsmith"
_PORT: Final = "10269"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_NODE_ALLOCATABLE: Final = "DRANodeAllocatableResources"
"""The gate that is the scheduler's own, beside those of the allocator."""


_Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        show_default=False,
        help=f"Take pods with this spec.schedulerName; may be repeated. Default: {_NAME}.",
    ),
]
_Gates = Annotated[
    str,
    typer.Option(
        metavar="GATE=BOOL,…",
        show_default=False,
        help="Gates of kube-scheduler that concern devices, where the cluster's are not those of a stock 1.37.",
    ),
]


class PlacementName(StrEnum):
    """Which nodes are preferred."""

    SPREAD = "spread"
    PACK = "pack"


def scheduler(  # noqa: PLR0913 - each is one option of the command
    kubeconfig: DaemonKubeconfig = None,
    context: DaemonContext = "",
    names: _Names = None,
    policy: PolicyName = "",
    placement: Annotated[
        PlacementName, typer.Option(help="Which nodes are preferred: those with the most room, or the least.")
    ] = PlacementName.SPREAD,
    feature_gates: _Gates = "",
    namespace: LeaseNamespace = "claimsmith-system",
    listen: Annotated[
        str,
        typer.Option(
            metavar="PORT", help="Port on 127.0.0.1, or HOST:PORT, for /healthz, /readyz and /metrics; '' for none."
        ),
    ] = _PORT,
    print_manifests: Annotated[
        bool,
        typer.Option("--print-manifests", help="Instead of running: print account, rights and Deployment."),
    ] = False,
    image: Annotated[
        str, typer.Option(metavar="IMAGE", show_default=False, help="For --print-manifests: image with claimsmith.")
    ] = "",
    log_format: LogForm = LogFormat.TEXT,
    verbosity: Verbosity = 0,
) -> None:
    """Run a scheduler until Ctrl-C or SIGTERM.

    It decides node and devices of a pod together, and those of a gang or of pods that are due at the same moment
    jointly. Of several schedulers one decides, by a Lease; another one takes over when it ends.

    Example: claimsmith scheduler --kubeconfig admin.conf --namespace kube-system --policy pack
    """
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs
    from claimsmith.daemons.scheduler_process import SCHEDULER_ACCOUNT, SchedulerProcess, run_scheduler
    from claimsmith.daemons.status_server import parse_listen_address

    options = _build_options(names or [], policy, placement, feature_gates)
    address = parse_listen_address(listen) if listen else None
    if print_manifests:
        arguments = tuple(_repeat(options, feature_gates, listen))
        _print(arguments, names=options.names, namespace=namespace, image=image, address=address)
        return
    show_logs(verbosity, usual="info", as_json=log_format is LogFormat.JSON)
    process = SchedulerProcess(scheduler=options, namespace=namespace, listen=address)
    client = open_daemon_client(kubeconfig, context, manager=SCHEDULER_ACCOUNT)
    run_interruptible(run_scheduler(client, process))


def _build_options(names: list[str], policy: str, placement: PlacementName, gates: str) -> SchedulerOptions:
    """Return the options of the scheduler.

    Raises:
        InputError: A name is empty, or a policy or gate is not known.
    """
    from claimsmith.daemons.scheduler import SchedulerOptions
    from claimsmith.model.features import Features

    if not all(names):
        raise InputError("--name: found nothing, allowed a name that pods have in spec.schedulerName; name it")
    chosen = _parse_gates(gates)
    node_allocatable = chosen.pop(_NODE_ALLOCATABLE, False)
    try:
        features = Features.parse(chosen, base=Features()) if chosen else None
    except FieldError as error:
        raise InputError(
            f"--feature-gates: found {error.found!r}, allowed {_NODE_ALLOCATABLE}, {error.allowed}; correct the name"
        ) from error
    return SchedulerOptions(
        names=frozenset(names or [_NAME]),
        policy=parse_policy(policy),
        placement=placement.value,
        features=features,
        node_allocatable=node_allocatable,
    )


def _parse_gates(text: str) -> dict[str, bool]:
    """Return gates as Kubernetes writes them.

    Raises:
        InputError: The text has another form.
    """
    gates = {}
    for part in filter(None, text.split(",")):
        gate, sign, value = part.strip().partition("=")
        if not sign or value.lower() not in ("true", "false"):
            raise InputError(f"--feature-gates: found {part!r}, allowed GATE=true or GATE=false; correct it")
        gates[gate] = value.lower() == "true"
    return gates


def _repeat(options: SchedulerOptions, gates: str, listen: str) -> Iterator[str]:
    """Yield the arguments that make a scheduler like this one, as far as they are not the usual ones."""
    for name in sorted(options.names - {_NAME}) if len(options.names) == 1 else sorted(options.names):
        yield f"--name={name}"
    if options.policy is not None:
        yield f"--policy={options.policy.name}"
    if options.placement != "spread":
        yield f"--placement={options.placement}"
    if gates:
        yield f"--feature-gates={gates}"
    if listen != _PORT:
        yield f"--listen={listen}"


def _print(
    arguments: tuple[str, ...], *, names: frozenset[str], namespace: str, image: str, address: ListenAddress | None
) -> None:
    from claimsmith.cli.manifest_text import render_manifests
    from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE
    from claimsmith.daemons.scheduler_rights import plan_scheduler_manifests

    port = address.port if address is not None and address.host not in _LOOPBACK else None
    manifests = plan_scheduler_manifests(
        names=names, arguments=arguments, namespace=namespace, image=image or DEFAULT_IMAGE, port=port
    )
    sys.stdout.write(render_manifests(manifests))
