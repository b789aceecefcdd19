"""Command lines and configuration files of a one-node cluster on loopback: pure.

Source: `--help` of the programs of Kubernetes v1.37.2; KubeletConfiguration v1beta1; containerd's configuration of
version 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.cluster.image import IMAGE

__all__ = ["GATE_SETS", "NODE", "GateSet", "Layout", "kubeconfig"]

NODE: Final = "node-a"
"""The node that has a kubelet."""

GateSet = Literal["defaults", "beta", "all"]

GATE_SETS: Final[Mapping[GateSet, Mapping[str, bool]]] = {
    "defaults": {},
    "beta": {"AllBeta": True},
    "all": {"AllAlpha": True, "AllBeta": True},
}
"""Feature gates of all programs; the API server serves what belongs to them."""
_SERVED: Final[Mapping[GateSet, tuple[str, ...]]] = {
    "defaults": (),
    "beta": ("api/beta=true",),
    "all": ("api/all=true",),
}
_CONTROLLERS: Final = "*,-node-lifecycle-controller,-taint-eviction-controller"
"""Without those that would take nodes for dead that exist in the API only. Nobody would then remove the taint that new
nodes get until they are ready, so that its admission plugin is off too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where things are.

    Args:
        folder: The cluster's folder, absolute and short.
        binaries: The folder of the programs.
        gates: Which feature gates.
        ports: Free ports of the loopback address, by what listens there.
        cgroup: The cgroup below which the kubelet makes those of its pods.
    """

    folder: Path
    binaries: Path
    gates: GateSet
    ports: Mapping[str, int]
    cgroup: str

    PORTS = ("etcd", "etcd-peer", "apiserver", "controller-manager", "scheduler", "kubelet", "kubelet-healthz")

    @property
    def server(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.ports['apiserver']}"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens."""
        return self.folder / "containerd" / "containerd.sock"

    @property
    def _gate_words(self) -> str:
        return ",".join(f"{name}={str(value).lower()}" for name, value in GATE_SETS[self.gates].items())

    def _gate_flags(self) -> list[str]:
        return [f"--feature-gates={self._gate_words}"] if GATE_SETS[self.gates] else []

    def commands(self) -> dict[str, list[str]]:
        """Return the command line of each daemon, in the order of their starts."""
        return {
            "etcd": self._etcd(),
            "apiserver": self._apiserver(),
            "controller-manager": self._controller_manager(),
            "scheduler": self._scheduler(),
            "containerd": [self._program("containerd"), "--config", str(self.folder / "containerd.toml")],
            "kubelet": self._kubelet(),
        }

    def files(self) -> dict[str, str]:
        """Return the content of each configuration file."""
        tokens = 'admin,admin,admin,"system:masters"\nnode,system:node:{0},{0},"system:nodes"\n'
        return {
            "tokens.csv": tokens.format(NODE),
            "admin.conf": kubeconfig(self.server, self.folder, token="admin"),
            "node.conf": kubeconfig(self.server, self.folder, token="node"),
            "containerd.toml": _toml(self._containerd_config()),
            "cni/10-loopback.conflist": '{"cniVersion":"1.0.0","name":"loopback","plugins":[{"type":"loopback"}]}',
            "kubelet.yaml": json.dumps(self._kubelet_config(), indent=1),
        }

    def _program(self, name: str) -> str:
        return str(self.binaries / name)

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self.ports['etcd']}"
        peer = f"http://127.0.0.1:{self.ports['etcd-peer']}"
        return [
            self._program("etcd"), "--data-dir", "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        ]  # fmt: skip

    def _apiserver(self) -> list[str]:
        served = [f"--runtime-config={','.join(words)}"] if (words := _SERVED[self.gates]) else []
        return [
            self._program("kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{self.ports['etcd']}",
            "--bind-address", "127.0.0.1", "--secure-port", str(self.ports["apiserver"]),
            "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--cert-dir", "certs",
            "--token-auth-file", "tokens.csv", "--authorization-mode", "Node,RBAC",
            "--enable-admission-plugins", "NodeRestriction",
            "--disable-admission-plugins", "TaintNodesByCondition",
            "--service-account-key-file", "sa.key", "--service-account-signing-key-file", "sa.key",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-cluster-ip-range", "10.96.0.0/16", *served, *self._gate_flags(),
        ]  # fmt: skip

    def _controller_manager(self) -> list[str]:
        return [
            self._program("kube-controller-manager"), *self._client_flags("controller-manager"),
            "--service-account-private-key-file", "sa.key", "--root-ca-file", "certs/apiserver.crt",
            "--controllers", _CONTROLLERS, *self._gate_flags(),
        ]  # fmt: skip

    def _scheduler(self) -> list[str]:
        return [self._program("kube-scheduler"), *self._client_flags("scheduler"), *self._gate_flags()]

    def _client_flags(self, name: str) -> list[str]:
        # Without limits: by default they cap the scheduler at some 13 pods a second.
        return [
            "--kubeconfig", "admin.conf", "--authentication-skip-lookup",
            "--authorization-always-allow-paths", "/healthz,/metrics", "--leader-elect=false", "--kube-api-qps", "5000",
            "--kube-api-burst", "10000", "--bind-address", "127.0.0.1", "--secure-port", str(self.ports[name]),
            "--cert-dir", f"certs-{name}",
        ]  # fmt: skip

    def _kubelet(self) -> list[str]:
        return [
            self._program("kubelet"), "--config", "kubelet.yaml", "--kubeconfig", "node.conf",
            "--root-dir", str(self.folder / "kubelet"), "--cert-dir", "certs-kubelet",
            "--hostname-override", NODE, "--v=2",
        ]  # fmt: skip

    def _kubelet_config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "address": "127.0.0.1",
            "port": self.ports["kubelet"],
            "healthzPort": self.ports["kubelet-healthz"],
            "readOnlyPort": 0,
            "podLogsDir": str(self.folder / "podlogs"),
            "resolvConf": "",
            # A test must not depend on how full the disk of the machine is.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "featureGates": dict(GATE_SETS[self.gates]),
        }

    def _containerd_config(self) -> dict[str, Any]:
        place = self.folder / "containerd"
        return {
            "version": 3,
            "root": str(place / "root"),
            "state": str(place / "state"),
            # It would make /opt/containerd on the machine.
            "disabled_plugins": ["io.containerd.internal.v1.opt"],
            "grpc": {"address": str(self.containerd_socket)},
            "plugins": {
                "io.containerd.cri.v1.images": {
                    "snapshotter": "overlayfs",
                    "pinned_images": {"sandbox": IMAGE},
                },
                "io.containerd.cri.v1.runtime": {
                    "cdi_spec_dirs": [str(self.folder / "cdi")],
                    # Without CAP_SYS_RESOURCE runc could not lower it, and would say nothing but EOF.
                    "restrict_oom_score_adj": True,
                    "cni": {"bin_dirs": ["/usr/lib/cni"], "conf_dir": str(self.folder / "cni")},
                    "containerd": {"runtimes": {"runc": {"runtime_type": "io.containerd.runc.v2"}}},
                },
            },
        }


def kubeconfig(server: str, folder: Path, *, token: str) -> str:
    """Return a kubeconfig for a bearer token.

    Args:
        server: Address of the API server.
        folder: The cluster's folder.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority": f"{folder}/certs/apiserver.crt"}}
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(config, indent=1)


def _toml(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return values as TOML; JSON's strings, lists and numbers are TOML's."""
    plain = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(json.dumps, path))}]"] if path and plain else []
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in plain.items()]
    tables = [_toml(value, (*path, key)) for key, value in tree.items() if isinstance(value, Mapping)]
    return "\n".join([*lines, *tables])
