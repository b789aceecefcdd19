"""The daemons of a real cluster, started and ended by the process that keeps them together."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster import supervisor
from tests.cluster.cgroups import list_processes

__all__ = ["ClusterError", "Daemons"]

_START_S: Final = 180.0
_STOP_S: Final = 60.0
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_DEVICE_PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")
_UNSHARE: Final = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private")


class ClusterError(Exception):
    """A real cluster can't be built, started or asked; the message says what to do."""


class Daemons:
    """The processes of one cluster, in namespaces of their own.

    Args:
        folder: The cluster's folder, which has the logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cgroup = f"claimsmith{str(folder).replace('/', '-')}"
        """The cgroup that is made with the namespaces, and goes with them."""
        self._outer: subprocess.Popen[bytes] | None = None

    @property
    def are_there(self) -> bool:
        """Whether something listens in the folder: a cluster that was left running."""
        try:
            self._ask({"do": "list"})
        except OSError:
            return False
        return True

    def open(self, *, stays: bool) -> None:
        """Make the namespaces.

        Args:
            stays: Whether they outlive this process.

        Raises:
            ClusterError: It doesn't work here.
        """
        _DEVICE_PLUGINS.mkdir(parents=True, exist_ok=True)
        flags = ["--stay"] if stays else []
        with (self._folder / "supervisor.log").open("ab") as log:
            self._outer = subprocess.Popen(
                [*_UNSHARE, sys.executable, "-m", supervisor.__name__, str(self._folder), self.cgroup, *flags],
                cwd=_CHECKOUT,
                stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._outer.stdout is not None
        with self._outer.stdout as said:
            if said.readline() != b"ready\n":
                found = self.tail("supervisor")
                raise ClusterError(f"namespaces of {self._folder}: found {found!r}, allowed root with CAP_SYS_ADMIN")

    def close(self) -> None:
        """End all that runs, containers too, by the hand of the kernel; it takes some 50 ms.

        Raises:
            ClusterError: It doesn't end.
        """
        with contextlib.suppress(OSError):
            self._end()
        if self._outer is not None:
            if self._outer.stdin is not None:
                self._outer.stdin.close()
            self._outer.wait(_STOP_S)
            self._outer = None

    def _end(self) -> None:
        with self._connect() as connection, _watched(_peer(connection)) as ended:
            connection.sendall(b'{"do": "end"}\n')
            if not select.select([ended], [], [], _STOP_S)[0]:
                raise ClusterError(f"{self._folder}: its processes do not end; see {self._folder}/supervisor.log")

    @property
    def keeper_pid(self) -> int:
        """The process that everything ends with, by its id as seen from here."""
        with self._connect() as connection:
            return _peer(connection)

    def start(self, name: str, argv: Sequence[str | Path], *, notifies: bool) -> None:
        """Start a daemon whose output goes to NAME.log.

        Args:
            notifies: It says when it is ready, as to systemd; this returns then.

        Raises:
            ClusterError: It runs already, its program can't be started, or it ends.
        """
        words = [str(word) for word in argv]
        self._ask({"do": "start", "name": name, "argv": words, "notifies": notifies, "patience_s": _START_S})

    def stop(self, name: str, *, kill: bool = False) -> int | None:
        """End a daemon and return its exit status; None if it did not run.

        Args:
            kill: Give it no time to clean up.
        """
        number = signal.SIGKILL if kill else signal.SIGTERM
        status = self._ask({"do": "stop", "name": name, "signal": number, "patience_s": _STOP_S})["status"]
        return None if status is None else int(status)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon."""
        self._ask({"do": "signal", "name": name, "signal": number})

    def running(self) -> dict[str, bool]:
        """Return which of the daemons that were ever started run."""
        return {name: pid is not None for name, pid in self._ask({"do": "list"})["daemons"].items()}

    def find_pid(self, name: str) -> int | None:
        """Return the process id of a daemon as seen from here; None if it does not run."""
        inner = self._ask({"do": "list"})["daemons"].get(name)
        if inner is None:
            return None
        outer = {int(words[-1]): int(words[0]) for words in self._namespaced()}
        return outer.get(inner)

    def kill_others(self) -> None:
        """Kill what daemons have started and is not a daemon itself: containers and their shims, as a reboot does."""
        kept = {1, *(pid for pid in self._ask({"do": "list"})["daemons"].values() if pid is not None)}
        others = {int(words[0]) for words in self._namespaced() if int(words[-1]) not in kept}
        # Processes of containers are in namespaces below this one.
        for pid in others | set(list_processes(self.cgroup)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def tail(self, name: str, lines: int = 30, *, since: int = 0) -> str:
        """Return the end of a daemon's log.

        Args:
            lines: How much of it.
            since: Nothing from before this size in bytes.
        """
        path = self._folder / f"{name}.log"
        if not path.exists():
            return ""
        with path.open("rb") as log:
            log.seek(since)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def log_size(self, name: str) -> int:
        """Return the size of a daemon's log in bytes."""
        path = self._folder / f"{name}.log"
        return path.stat().st_size if path.exists() else 0

    def _namespaced(self) -> list[list[str]]:
        """Return the ids of each process in the namespace, from the outermost to the innermost."""
        namespace = _read_link(Path(f"/proc/{self.keeper_pid}/ns/pid"))
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        mine = [pid for pid in pids if namespace and _read_link(Path(f"/proc/{pid}/ns/pid")) == namespace]
        return [found for pid in mine if (found := _read_ids(pid))]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._connect() as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
            line = connection.makefile("rb").readline()
        if not line:
            raise ClusterError(f"{self._folder}: no answer to {question['do']}; see {self._folder}/supervisor.log")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClusterError(f"{self._folder}: {answer['error']}")
        return answer

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_START_S + 10)
        try:
            connection.connect(str(self._folder / supervisor.SOCKET))
        except OSError:
            connection.close()
            raise
        return connection


def _peer(connection: socket.socket) -> int:
    """Return the process that listens at the other end, by its id as seen from here."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[int]:
    """Give a descriptor that can be read once a process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _read_ids(pid: int) -> list[str]:
    try:
        found = re.search(r"^NSpid:\s+(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return []
    return found[1].split() if found else []
