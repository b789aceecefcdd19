r"""First process of a real cluster's own namespaces of processes and mounts: starts daemons, ends with the tests.

It runs as process 1 of a pid namespace, so that nothing it started can outlive it: containers, their shims and mounts
go when it goes, also after `kill -9` of whoever started it, whose death closes its standard input. Orphans become its
children, and it reaps them.

    unshare --mount --pid --fork --mount-proc --kill-child --propagation private \
        python -m tests.cluster.supervisor FOLDER CGROUP [--stay]

It says "ready" and listens on FOLDER/s.sock; one line of JSON is a question, and so is the answer:

    {"do": "start", "name": "etcd", "argv": ["etcd"], "notifies": true, "patience_s": 60}
                                                           {}, once the daemon says READY=1 as to systemd, or at once
    {"do": "stop", "name": "etcd", "signal": 15, "patience_s": 10}
                                                           {"status": 0}, once it has ended; killed when that is late
    {"do": "signal", "name": "etcd", "signal": 19}         {}
    {"do": "list"}                                         {"daemons": {"etcd": 7, "kubelet": null}}
    {"do": "end"}                                          none: everything ends

Source: sd_notify(3).

When it ends it removes the cgroup CGROUP, in which the kubelet makes those of its pods.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster.cgroups import make_cgroup, remove_cgroup

SOCKET: Final = "s.sock"
"""Name of the socket in the folder."""
_OWN_FOLDERS: Final = ("/run", "/var/log")
"""Where daemons keep things at fixed places: each cluster gets empty ones of its own."""
_DEVICE_PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")
"""The kubelet's folder of device plugins, which no setting moves. Source: k8s.io/kubelet pluginapi.DevicePluginPath."""

_FOREVER_S: Final = 1e6

Answer = dict[str, Any]


@dataclass(slots=True)
class _Wait:
    """Somebody waits for a daemon to be ready, or to end."""

    name: str
    pid: int
    until_s: float
    answer: Callable[[Answer], None]
    notify: socket.socket | None = None


class Supervisor:
    """Starts and ends daemons.

    Args:
        folder: Where the socket and the logs are.
        cgroup: The cgroup that goes with it.
        stays: Whether it goes on when its standard input ends.
    """

    def __init__(self, folder: Path, *, cgroup: str, stays: bool) -> None:
        self._folder, self._cgroup = folder, cgroup
        self._pids: dict[str, int | None] = {}
        self._starts: list[_Wait] = []
        self._endings: list[_Wait] = []
        self._selector = selectors.DefaultSelector()
        self._wakeup, wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        wakeup.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        self._written = wakeup
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._drain)
        self._server = socket.socket(socket.AF_UNIX)
        (folder / SOCKET).unlink(missing_ok=True)
        self._server.bind(str(folder / SOCKET))
        self._server.listen()
        self._selector.register(self._server, selectors.EVENT_READ, self._accept)
        if not stays:
            self._selector.register(sys.stdin, selectors.EVENT_READ, self._end)

    def run(self) -> None:
        """Serve until told to end."""
        while True:
            until_s = min((item.until_s for item in (*self._starts, *self._endings)), default=None)
            timeout_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            for key, _ in self._selector.select(timeout_s):
                key.data()
            self._reap()
            self._end_patience()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(4096)

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        lines = connection.makefile("rwb")
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(connection, lines))

    def _read(self, connection: socket.socket, lines: Any) -> None:
        line = lines.readline()
        if not line:
            self._selector.unregister(connection)
            lines.close()
            connection.close()
            return

        def answer(value: Answer) -> None:
            with contextlib.suppress(OSError):
                lines.write(json.dumps(value).encode() + b"\n")
                lines.flush()

        self._obey(json.loads(line), answer)

    def _obey(self, question: Answer, answer: Callable[[Answer], None]) -> None:
        name = question.get("name", "")
        match question["do"]:
            case "start":
                self._start(question, answer)
            case "stop":
                self._stop(question, answer)
            case "signal":
                if (pid := self._pids.get(name)) is not None:
                    os.kill(pid, question["signal"])
                answer({})
            case "list":
                answer({"daemons": self._pids})
            case "end":
                self._end()
            case other:
                answer({"error": f"found {other!r}, allowed start, stop, signal, list, end"})

    def _start(self, question: Answer, answer: Callable[[Answer], None]) -> None:
        name = question["name"]
        if self._pids.get(name) is not None:
            answer({"error": f"{name} runs already"})
            return
        notify = self._open_notify(name) if question["notifies"] else None
        try:
            pid = self._spawn(name, question["argv"])
        except OSError as error:
            answer({"error": f"{name} can't be started: {error}"})
            return
        self._pids[name] = pid
        if notify is None:
            answer({})
            return
        until_s = time.monotonic() + float(question["patience_s"])
        wait = _Wait(name=name, pid=pid, until_s=until_s, answer=answer, notify=notify)
        self._starts.append(wait)
        self._selector.register(notify, selectors.EVENT_READ, lambda: self._hear(wait))

    def _spawn(self, name: str, argv: list[str]) -> int:
        with (self._folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "NOTIFY_SOCKET": str(self._folder / f"{name}.notify")},
                start_new_session=True,
            )
        # Its end is seen by _reap; Popen must not wait for it, nor complain that nobody did.
        child.returncode = 0
        return child.pid

    def _open_notify(self, name: str) -> socket.socket:
        path = self._folder / f"{name}.notify"
        path.unlink(missing_ok=True)
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(path))
        return notify

    def _hear(self, wait: _Wait) -> None:
        assert wait.notify is not None
        if b"READY=1" in wait.notify.recv(4096).split(b"\n"):
            self._finish_start(wait, {})

    def _finish_start(self, wait: _Wait, answer: Answer) -> None:
        assert wait.notify is not None
        self._starts.remove(wait)
        self._selector.unregister(wait.notify)
        wait.notify.close()
        wait.answer(answer)

    def _stop(self, question: Answer, answer: Callable[[Answer], None]) -> None:
        pid = self._pids.get(question["name"])
        if pid is None:
            answer({"status": None})
            return
        os.kill(pid, question["signal"])
        os.kill(pid, signal.SIGCONT)
        until_s = time.monotonic() + float(question["patience_s"])
        self._endings.append(_Wait(name=question["name"], pid=pid, until_s=until_s, answer=answer))

    def _end(self) -> None:
        """Kill all there is but itself, and remove their cgroups, which must be empty for it."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(-1, signal.SIGKILL)
            while True:
                os.waitpid(-1, 0)
        remove_cgroup(self._cgroup)
        sys.exit(0)

    def _reap(self) -> None:
        """Take in all children that have ended, orphans of daemons included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._take_end(pid, os.waitstatus_to_exitcode(status))

    def _take_end(self, pid: int, status: int) -> None:
        for name, running in self._pids.items():
            if running == pid:
                self._pids[name] = None
        for wait in [wait for wait in self._starts if wait.pid == pid]:
            self._finish_start(wait, {"error": f"{wait.name} has ended with status {status}"})
        ended = [wait for wait in self._endings if wait.pid == pid]
        self._endings = [wait for wait in self._endings if wait.pid != pid]
        for wait in ended:
            wait.answer({"status": status})

    def _end_patience(self) -> None:
        """Give up on daemons that aren't ready in time, and kill those that don't end in time."""
        now_s = time.monotonic()
        for wait in [wait for wait in self._starts if wait.until_s <= now_s]:
            self._finish_start(wait, {"error": f"{wait.name} is not ready in time"})
        for wait in self._endings:
            if wait.until_s <= now_s:
                wait.until_s = now_s + _FOREVER_S
                with contextlib.suppress(ProcessLookupError):
                    os.kill(wait.pid, signal.SIGKILL)


def own_folders(folder: Path) -> None:
    """Hide the places that daemons can't be talked out of behind folders of this cluster, in this namespace alone."""
    for place in _OWN_FOLDERS:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    plugins = folder / "kubelet" / "device-plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", plugins, _DEVICE_PLUGINS], check=True)


if __name__ == "__main__":
    where, group = Path(sys.argv[1]), sys.argv[2]
    own_folders(where)
    make_cgroup(group)
    supervisor = Supervisor(where, cgroup=group, stays="--stay" in sys.argv[3:])
    print("ready", flush=True)
    supervisor.run()
