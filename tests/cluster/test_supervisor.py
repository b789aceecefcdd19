"""What keeps a cluster's processes together ends them all, whatever happens to the tests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cgroups import find_cgroups, make_cgroup, remove_cgroup
from tests.cluster.daemons import ClusterError, Daemons

STARTER = """
import sys
from pathlib import Path
from tests.cluster.daemons import Daemons

daemons = Daemons(Path(sys.argv[1]))
daemons.open(stays=False)
script = "mount -t tmpfs tmpfs mnt; setsid sh -c 'sleep 1000; :' $0 & sleep 1000"
daemons.start("parent", ["sh", "-c", script, sys.argv[1]], notifies=False)
print(daemons.keeper_pid, flush=True)
sys.stdin.read()
"""
NOTIFY = """
import os, socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"STATUS=up\\nREADY=1\\n", os.environ["NOTIFY_SOCKET"])
print("told", flush=True)
sys.stdin.read()
import signal
signal.pause()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cs") as found:
        yield Path(found)


@pytest.fixture
def daemons(folder: Path) -> Iterator[Daemons]:
    made = Daemons(folder)
    made.open(stays=False)
    try:
        yield made
    finally:
        made.close()
    assert not find_cgroups(made.cgroup)


def wait_end(pid: int) -> None:
    """Wait until a process has ended, by its own word."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)


def parent_of(pid: int) -> int:
    """Return the parent of a process: for a keeper, who made its namespaces and waits for it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_everything_ends_with_a_killed_starter(folder: Path) -> None:
    (folder / "mnt").mkdir()
    command = [sys.executable, "-c", STARTER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        keeper = int(starter.stdout.readline())
        parent = parent_of(keeper)
        starter.kill()
        wait_end(keeper)
        wait_end(parent)

    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _read(path)]
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert not find_cgroups(Daemons(folder).cgroup)


def test_a_daemon_is_ready_when_it_says_so(daemons: Daemons, folder: Path) -> None:
    daemons.start("told", [sys.executable, "-c", NOTIFY], notifies=True)

    assert daemons.running() == {"told": True}


def test_a_daemon_that_ends_before_it_is_ready_is_an_error(daemons: Daemons) -> None:
    with pytest.raises(ClusterError, match="brief has ended with status 7"):
        daemons.start("brief", ["sh", "-c", "exit 7"], notifies=True)


def test_a_program_that_is_missing_is_an_error(daemons: Daemons) -> None:
    with pytest.raises(ClusterError, match=r"absent can't be started: .*No such file"):
        daemons.start("absent", ["/nowhere/absent"], notifies=False)


def test_a_daemon_runs_once(daemons: Daemons) -> None:
    daemons.start("twin", ["sleep", "1000"], notifies=False)

    with pytest.raises(ClusterError, match="twin runs already"):
        daemons.start("twin", ["sleep", "1000"], notifies=False)


def test_a_stopped_daemon_tells_its_status(daemons: Daemons) -> None:
    daemons.start("slow", ["sleep", "1000"], notifies=False)

    assert daemons.stop("slow") == -signal.SIGTERM
    assert daemons.running() == {"slow": False}


def test_a_frozen_daemon_ends_too(daemons: Daemons) -> None:
    daemons.start("frozen", ["sleep", "1000"], notifies=False)
    daemons.signal("frozen", signal.SIGSTOP)

    assert daemons.stop("frozen") == -signal.SIGTERM


def test_a_daemon_is_found_by_its_id_outside(daemons: Daemons) -> None:
    daemons.start("named", ["sleep", "1000"], notifies=False)
    pid = daemons.find_pid("named")

    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_the_folder_of_device_plugins_is_its_own(daemons: Daemons, folder: Path) -> None:
    with pytest.raises(ClusterError, match="status 0"):
        daemons.start("writer", ["touch", "/var/lib/kubelet/device-plugins/mine"], notifies=True)

    assert (folder / "kubelet" / "device-plugins" / "mine").exists()
    assert not Path("/var/lib/kubelet/device-plugins/mine").exists()


def test_a_cgroup_with_children_is_removed() -> None:
    make_cgroup("claimsmith-test")
    for found in find_cgroups("claimsmith-test"):
        (found / "child" / "grandchild").mkdir(parents=True)
    remove_cgroup("claimsmith-test")

    assert not find_cgroups("claimsmith-test")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
