from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
