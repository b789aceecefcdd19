from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from claimsmith.model.claim import NetworkData
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.prepared import (
    ClaimKey,
    DeviceCondition,
    DeviceMetadata,
    DeviceStatus,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.node.claimfiles import METADATA_FOLDER, STATUS_FOLDER, ClaimFiles
from claimsmith.testing.builders import claim_key, prepare_request

STATUS = DeviceStatus(conditions=(DeviceCondition(type="Ready", status="True", reason="Configured"),))
METADATA = DeviceMetadata(attributes={"model": DeviceAttribute.of("A100")})


@pytest.fixture
def files(tmp_path: Path) -> ClaimFiles:
    return ClaimFiles(tmp_path, "gpu.example.test", now_s=lambda: 0.0)


def ask(name: str = "claim", uid: str = "") -> PrepareRequest:
    return prepare_request("gpu-0", claim=claim_key(name, uid=uid or f"uid-{name}"))


def answer(request: PrepareRequest, *, told: bool = True) -> PreparedDevices:
    device = PreparedDevice(device=request.devices[0])
    return PreparedDevices(devices=(replace(device, status=STATUS, metadata=METADATA) if told else device,))


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_claim_gets_its_files_and_a_mount_for_each_request(files: ClaimFiles, tmp_path: Path) -> None:
    mounts = files.write(ask(), answer(ask()))

    assert found(tmp_path) == [f"{STATUS_FOLDER}/uid-claim.json", f"{METADATA_FOLDER}/default_claim/r/metadata.json"]
    assert Path(mounts["r"].host_path).read_text().startswith('{\n  "kind": "DeviceMetadata"')


def test_a_driver_that_tells_nothing_makes_no_files(files: ClaimFiles, tmp_path: Path) -> None:
    assert files.write(ask(), answer(ask(), told=False)) == {}
    assert found(tmp_path) == []


def test_a_status_that_the_driver_gives_no_more_is_forgotten(files: ClaimFiles) -> None:
    files.write(ask(), answer(ask()))
    before = files.find_status("uid-claim")
    files.write(ask(), answer(ask(), told=False))

    assert before is not None
    assert files.find_status("uid-claim") is None


def test_nothing_is_left_after_a_claim(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask(), answer(ask()))
    files.remove(claim_key())
    files.remove(claim_key())

    assert found(tmp_path) == []
    assert list((tmp_path / METADATA_FOLDER).iterdir()) == []


def test_the_end_of_a_claim_leaves_the_files_of_a_later_one_of_its_name(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask("a", "u1"), answer(ask("a", "u1")))
    files.write(ask("a", "u2"), answer(ask("a", "u2")))
    files.remove(ClaimKey(namespace="default", name="a", uid="u1"))

    assert found(tmp_path) == [f"{STATUS_FOLDER}/u2.json", f"{METADATA_FOLDER}/default_a/r/metadata.json"]


def test_a_start_removes_what_a_stopped_process_left(files: ClaimFiles, tmp_path: Path) -> None:
    for name in ("kept", "lost"):
        files.write(ask(name), answer(ask(name)))
    files.open([claim_key("kept")])

    assert found(tmp_path) == [f"{STATUS_FOLDER}/uid-kept.json", f"{METADATA_FOLDER}/default_kept/r/metadata.json"]


@pytest.mark.parametrize("uid", ["missing", "damaged", "a\0b", "x" * 500])
def test_a_status_that_can_not_be_read_is_none(files: ClaimFiles, tmp_path: Path, uid: str) -> None:
    (tmp_path / STATUS_FOLDER).mkdir()
    (tmp_path / STATUS_FOLDER / "damaged.json").write_text("{")

    assert files.find_status(uid) is None


def read(folder: Path) -> tuple[dict[str, Any], int]:
    """Return the first document of the metadata file, and its inode."""
    path = folder / METADATA_FOLDER / "default_claim" / "r" / "metadata.json"
    found: dict[str, Any] = json.JSONDecoder().raw_decode(path.read_text())[0]
    return found, path.stat().st_ino


def with_address(prepared: PreparedDevices, *ips: str) -> PreparedDevices:
    status = replace(STATUS, network=NetworkData(interface_name="net1", ips=ips))
    return replace(prepared, devices=(replace(prepared.devices[0], status=status),))


def test_news_reach_containers_that_have_mounted_the_file(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask(), answer(ask()))
    before = read(tmp_path)
    is_news = files.update(ask(), with_address(answer(ask()), "10.1.2.3/24"))
    after = read(tmp_path)

    (device,) = after[0]["requests"][0]["devices"]
    assert is_news
    assert device["networkData"] == {"interfaceName": "net1", "ips": ["10.1.2.3/24"]}
    assert (before[0]["metadata"]["generation"], after[0]["metadata"]["generation"]) == (1, 2)
    assert before[1] == after[1]


def test_news_reach_the_status_and_keep_since_when_conditions_are_so(tmp_path: Path) -> None:
    clock = iter((0.0, 3600.0))
    files = ClaimFiles(tmp_path, "gpu.example.test", now_s=lambda: next(clock))
    files.write(ask(), answer(ask()))
    files.update(ask(), with_address(answer(ask()), "10.1.2.3/24"))

    found = files.find_status("uid-claim")
    assert found is not None
    (device,) = found.devices
    assert device.network_data == NetworkData(interface_name="net1", ips=("10.1.2.3/24",))
    assert device.conditions[0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_shorter_news_leave_nothing_of_the_longer_file(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask(), with_address(answer(ask()), *(f"10.1.2.{number}/24" for number in range(9))))
    files.update(ask(), answer(ask()))

    path = tmp_path / METADATA_FOLDER / "default_claim" / "r" / "metadata.json"
    assert path.read_text().endswith("\n}\n")
    assert path.read_text().count("generation") == 2


def test_no_news_change_nothing(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask(), answer(ask()))
    before = read(tmp_path)

    assert not files.update(ask(), answer(ask()))
    assert read(tmp_path) == before


def test_a_request_without_a_file_gets_none_later(files: ClaimFiles, tmp_path: Path) -> None:
    files.write(ask(), answer(ask(), told=False))
    files.update(ask(), answer(ask()))

    assert found(tmp_path) == [f"{STATUS_FOLDER}/uid-claim.json"]
