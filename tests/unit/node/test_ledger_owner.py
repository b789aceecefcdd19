"""Which processes may offer the devices of a driver at the same time."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimsmith.errors import ConfigError, DeviceOwnedError
from claimsmith.node.durable import locked
from claimsmith.node.ledger_owner import DEVICE_PLUGIN_WAY, DRA_WAY, DriverOwner
from claimsmith.testing import builders as b

CHILD = """
import sys
from pathlib import Path
from claimsmith.node.ledger_owner import DriverOwner

with DriverOwner(Path(sys.argv[1]), driver="gpu.example.test", ways=("dra",)) as owner:
    owner.name_devices(["gpu-0"])
    print("owns", flush=True)
    sys.stdin.read()
"""


def owner(folder: Path, *ways: str, instance: str = "") -> DriverOwner:
    return DriverOwner(folder, driver=b.DRIVER, ways=ways or (DRA_WAY,), instance_uid=instance)


def test_a_second_process_is_told_who_offers_what_in_which_way(tmp_path: Path) -> None:
    with owner(tmp_path, DRA_WAY) as first:
        first.name_devices(["gpu-0", "gpu-1"])
        with pytest.raises(
            DeviceOwnedError,
            match=r"found process \d+ \(dra\), which offers gpu-0, gpu-1 already, .* by device plugin as well",
        ):
            owner(tmp_path, DEVICE_PLUGIN_WAY).__enter__()


def test_the_right_is_free_when_its_owner_has_ended(tmp_path: Path) -> None:
    with owner(tmp_path):
        pass

    with owner(tmp_path):
        assert len(list(tmp_path.glob("owner-*.json"))) == 1


def test_two_instances_of_a_rolling_update_may_overlap(tmp_path: Path) -> None:
    with owner(tmp_path, instance="old"), owner(tmp_path, instance="new"):
        assert len(list(tmp_path.glob("owner-*.json"))) == 2


@pytest.mark.parametrize(("first", "second"), [("old", ""), ("", "new"), ("same", "same")])
def test_others_may_not(tmp_path: Path, first: str, second: str) -> None:
    with owner(tmp_path, instance=first), pytest.raises(DeviceOwnedError):
        owner(tmp_path, instance=second).__enter__()


def test_what_a_killed_process_leaves_owns_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        with pytest.raises(DeviceOwnedError, match=f"process {child.pid} "):
            owner(tmp_path).__enter__()
        child.kill()
        child.wait()

        with owner(tmp_path):
            assert len(list(tmp_path.glob("owner-*.json"))) == 1


def test_a_file_that_says_nothing_yet_counts_as_an_owner(tmp_path: Path) -> None:
    with owner(tmp_path):
        (path,) = tmp_path.glob("owner-*.json")
        path.write_bytes(b"")

        with pytest.raises(DeviceOwnedError, match=r"process 0 \(starting\), which offers its devices"):
            owner(tmp_path).__enter__()


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let the system refuse every byte that this process writes to a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_at_the_start_and_nothing_stays_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ConfigError, match=r"owner-.*: can't be written: File too large"), full_disk():
        owner(tmp_path).__enter__()

    assert os.listdir("/proc/self/fd") == before
    assert not list(tmp_path.glob("owner-*.json"))


def test_a_disk_that_is_full_later_takes_no_right_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with owner(tmp_path) as first:
        with full_disk():
            first.name_devices(["gpu-0"])
            first.name_devices(["gpu-0", "gpu-1"])
        with pytest.raises(DeviceOwnedError, match="which offers its devices already"):
            owner(tmp_path).__enter__()

        assert [record.message.partition(" driver=")[0] for record in caplog.records] == ["Devices can't be named"]


def test_devices_that_could_not_be_named_are_named_when_there_is_room_again(tmp_path: Path) -> None:
    with owner(tmp_path) as first:
        with full_disk():
            first.name_devices(["gpu-0"])
        first.name_devices(["gpu-0"])

        with pytest.raises(DeviceOwnedError, match="which offers gpu-0 already"):
            owner(tmp_path).__enter__()


def test_nobody_reads_what_a_process_says_of_itself_while_it_is_being_written(tmp_path: Path) -> None:
    """Half of it would look like a process of an earlier version, beside which no grant is made."""
    with owner(tmp_path) as first:
        writing = threading.Thread(target=first.name_devices, args=(["gpu-0"],))
        with locked(tmp_path / "owners.lock"):
            writing.start()
            writing.join(timeout=0.1)
            waits = writing.is_alive()
        writing.join()

        assert waits
        with pytest.raises(DeviceOwnedError, match="which offers gpu-0 already"):
            owner(tmp_path).__enter__()
