"""Which processes may offer the devices of a driver at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from claimsmith.errors import DeviceOwnedError
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
