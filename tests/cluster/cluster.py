"""A real Kubernetes on this machine: one node with kubelet, containerd and runc, and what tests do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import random
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from tests.cluster.cgroups import find_cgroups
from tests.cluster.daemons import ClusterError, Daemons
from tests.cluster.image import write_image
from tests.cluster.recipe import NODE, GateSet, Layout, kubeconfig

__all__ = ["RealCluster"]

_READY_S: Final = 180.0
_PRINTED_S: Final = 120.0
_LOOK_S: Final = 0.05
_FOLDERS: Final = ("containerd", "cdi", "cni", "podlogs", "kubelet", "kubelet/plugins", "kubelet/plugins_registry")
_NOTIFYING: Final = frozenset({"etcd", "apiserver", "containerd", "kubelet"})
"""Those that tell systemd when they are ready."""
_CONTROL_PLANE: Final = ("etcd", "apiserver", "controller-manager")
_TOLD: Final = ("etcd", "apiserver", "controller-manager", "scheduler", "containerd", "kubelet")


@dataclass(frozen=True, slots=True)
class Output:
    """What kubectl has said."""

    status: int
    out: str
    err: str


class RealCluster:
    """One cluster; `start` it, use it, `stop` it.

    Args:
        folder: Its own folder: absolute, and short, since sockets are in it.
        binaries: The folder of the programs.
        gates: Which feature gates all programs have.
    """

    def __init__(self, folder: Path, *, binaries: Path, gates: GateSet) -> None:
        self.folder, self.gates = folder, gates
        self.binaries = binaries
        self.daemons = Daemons(folder)
        self.layout = self._read_layout()

    # --- what a test needs to know ------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that may do everything."""
        return self.folder / "admin.conf"

    @property
    def node_kubeconfig(self) -> Path:
        """The kubelet's own kubeconfig: user system:node:node-a."""
        return self.folder / "node.conf"

    @property
    def paths(self) -> NodePaths:
        """The folders of the node, as an agent on it sees them."""
        return NodePaths.of_kubelet(self.folder / "kubelet", self.folder / "cdi")

    def client(self) -> KubeClient:
        """Return a client that may do everything; the caller closes it."""
        return KubeClient.from_kubeconfig(self.kubeconfig)

    def container_log(self, pod: Mapping[str, Any], container: str = "main") -> str:
        """Return what a container of a pod has printed so far, without the runtime's stamps."""
        metadata = pod["metadata"]
        folder = self.folder / "podlogs" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container
        texts = (path.read_text(errors="replace") for path in sorted(folder.glob("*.log")))
        # What comes behind the last line's end is still being written.
        lines = [line for text in texts for line in text.split("\n")[:-1]]
        return "\n".join(line.split(" ", 3)[3] for line in lines)

    async def wait_printed(self, pod: Mapping[str, Any], text: str, *, container: str = "main") -> str:
        """Return what a container of a pod has printed once some text is in it.

        Raises:
            AssertionError: It is not; shows what is.
        """
        deadline_s = time.monotonic() + _PRINTED_S
        while text not in (log := self.container_log(pod, container)):
            assert time.monotonic() < deadline_s, f"no {text!r} in {_PRINTED_S:g} s, found:\n{log}"
            await asyncio.sleep(_LOOK_S)
        return log

    def list_cdi_files(self) -> list[Path]:
        """Return the CDI files that containerd reads."""
        return sorted((self.folder / "cdi").iterdir())

    # --- asking -------------------------------------------------------------------------------------------------------

    def kubectl(self, *words: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Run kubectl and return what it printed.

        Raises:
            ClusterError: It failed.
        """
        said = self.try_kubectl(*words, stdin=stdin, kubeconfig=kubeconfig)
        if said.status:
            raise ClusterError(f"kubectl {' '.join(words)}: {said.err.strip()}")
        return said.out

    def try_kubectl(self, *words: str, stdin: str = "", kubeconfig: Path | None = None) -> Output:
        """Run kubectl and return what it said, also when it failed."""
        argv = ["kubectl", "--kubeconfig", str(kubeconfig or self.kubeconfig), "--cache-dir", f"{self.folder}/kc"]
        run = subprocess.run([*argv, *words], input=stdin, capture_output=True, text=True, check=False, timeout=240)
        return Output(run.returncode, run.stdout, run.stderr)

    def get_json(self, *words: str) -> Any:
        """Return what `kubectl get WORDS -o json` says."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def service_account(self, name: str, *, namespace: str = "default", bound_to_node: str = "") -> Path:
        """Return a kubeconfig with a token of a ServiceAccount, which is made if there is none.

        Args:
            bound_to_node: The token says that it is used on this node, as that of a pod there does.
        """
        if self.try_kubectl("-n", namespace, "get", "sa", name).status:
            self.kubectl("-n", namespace, "create", "sa", name)
        bound = ["--bound-object-kind", "Node", "--bound-object-name", bound_to_node] if bound_to_node else []
        token = self.kubectl("-n", namespace, "create", "token", name, "--duration", "24h", *bound).strip()
        path = self.folder / f"{namespace}-{name}{'-bound' if bound else ''}.conf"
        path.write_text(kubeconfig(self.layout.server, self.folder, token=token))
        return path

    # --- faults -------------------------------------------------------------------------------------------------------

    async def restart(self, daemon: str, *, kill: bool = False) -> None:
        """End a daemon and start it again; return when it says that it is ready, if it is one that does.

        Args:
            daemon: etcd, apiserver, controller-manager, scheduler, containerd or kubelet.
            kill: Give it no time to clean up.
        """
        async with self.stopped(daemon, kill=kill):
            pass

    @contextlib.asynccontextmanager
    async def stopped(self, daemon: str, *, kill: bool = False) -> AsyncIterator[None]:
        """Have a daemon not run while the block runs.

        Clients of an absent API server wait longer and longer: restart the scheduler, the controller manager and the
        kubelet rather than wait a minute for them.
        """
        # An API server that is asked to end waits for its watches.
        await asyncio.to_thread(self.daemons.stop, daemon, kill=kill or daemon == "apiserver")
        try:
            yield
        finally:
            await asyncio.to_thread(self._start, daemon)
            if daemon == "apiserver":
                await asyncio.to_thread(self._wait_apiserver)

    async def restart_kubelet(self, *, kill: bool = False) -> None:
        """End the kubelet and start it again; its plugins register a moment later."""
        await self.restart("kubelet", kill=kill)

    async def restart_containerd(self, *, kill: bool = False) -> None:
        """End containerd and start it again; containers go on."""
        await self.restart("containerd", kill=kill)

    async def reboot(self) -> None:
        """Do to the node what a reboot does: kubelet, containerd and containers end at once, and /run is empty.

        The agent is a process of the tests: end it before, and start it with another boot id.
        """
        async with self.stopped("kubelet", kill=True), self.stopped("containerd", kill=True):
            await asyncio.to_thread(self.daemons.kill_others)
            for path in self.list_cdi_files():
                path.unlink()

    def add_node(self, name: str, *, labels: Mapping[str, str] | None = None) -> None:
        """Create a node that is ready and has no kubelet."""
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "250"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "exists in the API only"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(node))

    # --- start and stop -----------------------------------------------------------------------------------------------

    def start(self, *, stays: bool = False) -> None:
        """Start everything; return when the node is ready.

        Args:
            stays: Whether it goes on running when this process ends.

        Raises:
            ClusterError: Something doesn't start; the message has the ends of the logs.
        """
        with self._told(_TOLD):
            self._write_files()
            self.daemons.open(stays=stays)
            for name in ("etcd", "apiserver", "containerd"):
                self._start(name)
            self._wait_apiserver()
            for name in ("controller-manager", "scheduler"):
                self._start(name)
            self._import_image()
            self._start("kubelet")
            self.kubectl("wait", "--for=create", f"node/{NODE}", f"--timeout={_READY_S:.0f}s")
            self.kubectl("wait", "--for=condition=Ready", f"node/{NODE}", f"--timeout={_READY_S:.0f}s")
            self.kubectl("wait", "--for=create", "serviceaccount/default", f"--timeout={_READY_S:.0f}s")

    def start_control_plane(self, *, stays: bool = False) -> None:
        """Start etcd, the API server and the controllers alone: no node, so that any number of them runs beside others.

        Args:
            stays: Whether they go on running when this process ends.

        Raises:
            ClusterError: Something doesn't start; the message has the ends of the logs.
        """
        with self._told(_CONTROL_PLANE):
            self._write_files()
            self.daemons.open(stays=stays)
            for name in ("etcd", "apiserver"):
                self._start(name)
            self._wait_apiserver()
            self._start("controller-manager")

    def stop(self) -> None:
        """End every process and container, their mounts and cgroups; the folder and its logs stay."""
        self.daemons.close()

    def find_leaks(self) -> list[str]:
        """Return what a stopped cluster has left on the machine."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        found = [f"mount {place}" for place in mounts if place.startswith(f"{self.folder}/")]
        words = _commands()
        found += [f"process {pid}: {command}" for pid, command in words if f"{self.folder}/" in command]
        return found + [f"cgroup {path}" for path in find_cgroups(self.daemons.cgroup)]

    @contextlib.contextmanager
    def _told(self, daemons: Sequence[str]) -> Iterator[None]:
        """Say what the logs of some daemons say if the block, which starts them, fails."""
        try:
            yield
        except Exception as error:
            logs = "\n".join(f"--- {name}.log\n{self.daemons.tail(name)}" for name in ("supervisor", *daemons))
            self.stop()
            raise ClusterError(f"cluster in {self.folder} does not start: {error}\n{logs}") from error

    def _read_layout(self) -> Layout:
        """Return where things are; a folder that was used before tells its ports."""
        path = self.folder / "ports.json"
        ports = json.loads(path.read_text()) if path.exists() else _choose_ports()
        return Layout(
            folder=self.folder,
            binaries=self.binaries,
            gates=self.gates,
            ports=ports,
            cgroup=self.daemons.cgroup,
        )

    def _write_files(self) -> None:
        for name in _FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "ports.json").write_text(json.dumps(self.layout.ports))
        for name, text in self.layout.files().items():
            (self.folder / name).write_text(text)
        key = self.folder / "sa.key"
        if not key.exists():
            subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)

    def _start(self, name: str) -> None:
        self.daemons.start(name, self.layout.commands()[name], notifies=name in _NOTIFYING)

    def _wait_apiserver(self) -> None:
        """Wait until the server that listens says that it is ready, which takes it some 100 ms more."""
        deadline_s = time.monotonic() + _READY_S
        while (said := self.try_kubectl("get", "--raw", "/readyz")).status:
            if not self.daemons.running()["apiserver"] or time.monotonic() > deadline_s:
                raise ClusterError(f"apiserver does not become ready: {said.err.strip()}")

    def _import_image(self) -> None:
        path = self.folder / "image.tar"
        write_image(path, machine=platform.machine())
        run = self._ctr("-n", "k8s.io", "images", "import", str(path))
        if run.returncode:
            raise ClusterError(f"containerd does not take the image: {run.stderr.strip()}")

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(self.binaries / "ctr"), "-a", str(self.layout.containerd_socket), *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)


def _choose_ports() -> dict[str, int]:
    """Return free ports below those that outgoing connections get, so that a daemon finds its own again."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    numbers = random.SystemRandom()
    found: list[int] = []
    while len(found) < len(Layout.PORTS):
        port = numbers.randrange(10_000, first)
        if port not in found and _is_free(port):
            found.append(port)
    return dict(zip(Layout.PORTS, found, strict=True))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _commands() -> Iterator[tuple[int, str]]:
    """Yield the command line of every process."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(path.name), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
