"""`claimsmith node doctor`: why devices of a node do not get to pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.exits import Exit
from claimsmith.cli.node_options import Context, Kubeconfig, NodeName, find_client, get_node
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value

if TYPE_CHECKING:
    from claimsmith.kube.client import KubeClient
    from claimsmith.kubelet.paths import NodePaths
    from claimsmith.node.doctor_facts import ApiFacts
    from claimsmith.node.doctor_findings import Finding

__all__ = ["doctor"]

_ROOT = Path("/var/lib/kubelet")


def doctor(  # noqa: PLR0913 - what a command takes are its options
    node: NodeName = "",
    kubelet_root: Annotated[Path, typer.Option(metavar="DIR", help="The kubelet's --root-dir.")] = _ROOT,
    device_plugin_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the kubelet looks for device plugins.")
    ] = _ROOT / "device-plugins",
    cdi_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where CDI files go.")] = Path("/var/run/cdi"),
    host_root: Annotated[
        Path, typer.Option(metavar="DIR", help="Where /proc, /sys and /etc of the host are, from within a pod.")
    ] = Path("/"),
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    no_api: Annotated[bool, typer.Option("--no-api", help="Do not ask an API server.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Leave out what is well.")] = False,
    output: Output = Format.TABLE,
) -> int:
    """Look for what keeps the devices of this node from pods, and say what to do.

    Nothing is changed. Exit codes: 0 nothing found, 1 something found, 2 bad input, 3 the API server does not answer.

    Example: claimsmith node doctor --kubeconfig admin.conf
    """
    import asyncio

    from claimsmith.node.doctor import examine, is_sick, is_unreachable
    from claimsmith.node.doctor_local import Machine, collect_local

    name = get_node(node)
    client = None if no_api else find_client(kubeconfig, context)
    paths = _build_paths(kubelet_root, device_plugin_dir, cdi_dir)
    api = asyncio.run(_ask(client, name)) if client is not None else None
    findings = examine(collect_local(Machine(paths=paths, root=host_root)), api)
    _print(name, findings, output, quiet=quiet)
    if is_unreachable(api):
        return Exit.UNREACHABLE
    return Exit.DOES_NOT_FIT if is_sick(findings) else Exit.DONE


def _build_paths(root: Path, device_plugins: Path, cdi: Path) -> NodePaths:
    from claimsmith.kubelet.paths import NodePaths

    absolute = root.absolute()
    return NodePaths(
        plugins=absolute / "plugins",
        plugins_registry=absolute / "plugins_registry",
        device_plugins=device_plugins.absolute(),
        cdi=cdi.absolute(),
        state=absolute,
    )


async def _ask(client: KubeClient, node: str) -> ApiFacts:
    from claimsmith.node.doctor_api import collect_api

    try:
        return await collect_api(client, node)
    finally:
        await client.close()


def _print(node: str, findings: tuple[Finding, ...], output: Format, *, quiet: bool) -> None:
    shown = [finding for finding in findings if not quiet or finding.severity != "good"]
    if output is not Format.TABLE:
        fields = ("check", "severity", "found", "allowed", "hint")
        values = [{name: getattr(finding, name) for name in fields} for finding in shown]
        print_value({"node": node, "findings": values}, output)
        return
    rows = [(finding.severity, finding.check, finding.found, finding.allowed, finding.hint) for finding in shown]
    if rows:
        print_table(("", "CHECK", "FOUND", "ALLOWED", "WHAT TO DO"), rows)
    count = sum(finding.severity == "problem" for finding in findings)
    typer.echo(f"node {node}: {count} {'problem' if count == 1 else 'problems'} in {len(findings)} findings")
