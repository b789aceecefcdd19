"""`claimsmith agent`: the drivers of one node, offered to the cluster.

The standard library parses its options: what parses those of the other commands takes 10 MB, on every node.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.daemons.agent_config import AgentConfig
    from claimsmith.kube.client import KubeClient
    from claimsmith.kubelet.paths import NodePaths

__all__ = ["build_agent_parser", "run_agent_command"]

_ROOT: Final = Path("/var/lib/kubelet")
_CDI: Final = Path("/var/run/cdi")
_ABOUT: Final = """Run the drivers of this node until Ctrl-C or SIGTERM: publish their devices, prepare claims.

What is prepared and published stays when it ends, so that an update goes unnoticed."""
_EXAMPLE: Final = "example: claimsmith agent --config agent.yaml --kubeconfig admin.conf --node-name node-a"


class _Parser(argparse.ArgumentParser):
    """Refuses arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage.

        Raises:
            InputError: Always.
        """
        raise InputError(f"{message}; see `{self.prog} --help`")


def run_agent_command(arguments: Sequence[str]) -> None:
    """Run the agent that the arguments describe until a signal ends it.

    Raises:
        InputError: The arguments or the configuration can't be used.
        ConfigError: The surroundings are not as they must be.
    """
    given = build_agent_parser().parse_args(arguments)
    if given.print_manifests:
        _print_manifests(given)
        return
    from claimsmith.cli.interrupts import run_interruptible
    from claimsmith.cli.logs import show_logs
    from claimsmith.daemons.agent_process import AgentPlace, get_node_name, run_agent
    from claimsmith.daemons.status_server import parse_listen_address

    show_logs(given.verbose, usual="info", as_json=given.log_format == "json")
    config = _read_config(given)
    node_name = get_node_name(given.node_name, os.environ)
    listen = parse_listen_address(given.listen) if given.listen else None
    place = AgentPlace(node_name=node_name, paths=_build_paths(given), instance_uid=given.pod_uid, listen=listen)
    run_interruptible(run_agent(config, client=_open_client(given), place=place, withdraws=given.withdraw))


def build_agent_parser() -> argparse.ArgumentParser:
    """Return what parses the arguments."""
    parser = _Parser(
        prog="claimsmith agent",
        description=_ABOUT,
        epilog=_EXAMPLE,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="AgentConfiguration: the drivers, and how each is offered")
    add(
        "--plugin", action="append", default=[], metavar="NAME", help="instead of --config: a driver plugin; repeatable"
    )
    add("--settings", action="append", default=[], type=Path, metavar="FILE", help="settings for --plugin; repeatable")
    add(
        "--kubeconfig", metavar="FILE", default=os.environ.get("KUBECONFIG", ""),
        help="the way to the API server; default: $KUBECONFIG, else the service account of the pod",
    )  # fmt: skip
    add("--context", metavar="NAME", default="", help="context of the kubeconfig; default: the current one")
    add("--node-name", metavar="NAME", default="", help="name of the node; default: $NODE_NAME, else the host's")
    add(
        "--pod-uid", metavar="UID", default=os.environ.get("POD_UID", ""),
        help="uid of this pod, for two agents at a time during an update; default: $POD_UID",
    )  # fmt: skip
    add(
        "--kubelet-root", type=Path, metavar="DIR", default=_ROOT, help="the kubelet's --root-dir; default: %(default)s"
    )
    add(
        "--device-plugin-dir", type=Path, metavar="DIR", default=_ROOT / "device-plugins",
        help="where the kubelet looks for device plugins, whatever its root; default: %(default)s",
    )  # fmt: skip
    add("--cdi-dir", type=Path, metavar="DIR", default=_CDI, help="where CDI files go; default: %(default)s")
    add(
        "--listen", metavar="PORT", default="",
        help="port on 127.0.0.1, or HOST:PORT, for /healthz, /readyz and /metrics; default: none",
    )  # fmt: skip
    add(
        "--withdraw", action="store_true",
        help="instead of offering devices: take back slices, labels and amounts of this node, serve what is in use, "
        "and end when nothing is; before the agent leaves the node for good",
    )  # fmt: skip
    add("--log-format", choices=("text", "json"), default="text", help="how log lines look; default: %(default)s")
    add(
        "--print-manifests", action="store_true",
        help="instead of running: print account, rights, policy and DaemonSet for this configuration",
    )  # fmt: skip
    add("--namespace", metavar="NAME", default="claimsmith-system", help="for --print-manifests; default: %(default)s")
    add("--image", metavar="IMAGE", default="", help="for --print-manifests: image with claimsmith and your drivers")
    add("-v", "--verbose", action="count", default=0, help="show more of the log")
    return parser


def _build_paths(given: argparse.Namespace) -> NodePaths:
    from claimsmith.kubelet.paths import NodePaths

    root = given.kubelet_root.absolute()
    return NodePaths(
        plugins=root / "plugins",
        plugins_registry=root / "plugins_registry",
        device_plugins=given.device_plugin_dir.absolute(),
        cdi=given.cdi_dir.absolute(),
        state=root,
    )


def _read_config(given: argparse.Namespace) -> AgentConfig:
    """Return the configuration that the options name.

    Raises:
        InputError: They name none or two, or it can't be used.
    """
    from claimsmith.daemons.agent_config import plugin_config, read_agent_config

    if (given.config is None) == (not given.plugin):
        found = "neither --config nor --plugin" if given.config is None else "both --config and --plugin"
        raise InputError(f"claimsmith agent: found {found}, allowed one of them; see `claimsmith agent --help`")
    if given.config is None:
        return plugin_config(tuple(given.plugin), tuple(given.settings))
    if given.settings:
        raise InputError("--settings: found together with --config, allowed with --plugin; name them in the file")
    return read_agent_config(given.config)


def _print_manifests(given: argparse.Namespace) -> None:
    """Print what an operator applies, as YAML.

    Raises:
        InputError, ConfigError: The configuration can't be used here.
    """
    from claimsmith.cli.manifest_text import render_manifests
    from claimsmith.daemons.agent_config import build_agent_options, create_configured, read_config_files
    from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, plan_agent_manifests
    from claimsmith.daemons.agent_pools import read_pools

    config = _read_config(given)
    chosen = create_configured(config, node_name=given.node_name)
    manifests = plan_agent_manifests(
        build_agent_options(config, chosen),
        [item.driver.name for item in chosen],
        pools=read_pools(config),
        files=read_config_files(config),
        namespace=given.namespace,
        image=given.image or DEFAULT_IMAGE,
    )
    sys.stdout.write(render_manifests(manifests))


def _open_client(given: argparse.Namespace) -> KubeClient:
    """Return the client that the options describe.

    Raises:
        KubeconfigError: There is no way to an API server.
    """
    from claimsmith.kube.client import KubeClient

    if not given.kubeconfig:
        return KubeClient.from_pod(field_manager="claimsmith-agent")
    return KubeClient.from_kubeconfig(
        Path(given.kubeconfig), context=given.context or None, field_manager="claimsmith-agent"
    )
