from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry
from claimsmith.errors import PodStartError


def write(folder: Path, name: str, *devices: str, env: dict[str, str] | None = None, **changes: Any) -> None:
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "k8s.gpu.example.test/claim",
        "devices": [
            {"name": device, "containerEdits": {"env": [f"DEVICE={device}", f"HAS_{device}=a=b"]}} for device in devices
        ],
        "containerEdits": {"env": [f"{key}={value}" for key, value in (env or {}).items()]},
        **changes,
    }
    (folder / name).write_text(json.dumps(spec))


def named(*devices: str) -> list[str]:
    return [f"k8s.gpu.example.test/claim={device}" for device in devices]


def test_only_the_named_devices_are_added_and_what_is_common_to_their_file(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "g0", "g1", env={"COMMON": "1"})

    assert CdiRegistry(tmp_path).resolve(named("g1")).env == {"COMMON": "1", "DEVICE": "g1", "HAS_g1": "a=b"}


def test_edits_come_in_the_order_of_the_ids_and_the_last_value_stays(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "g0", "g1")

    assert CdiRegistry(tmp_path).resolve(named("g1", "g0")).env["DEVICE"] == "g0"


def test_all_ids_that_no_file_defines_are_named(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "g0")

    with pytest.raises(PodStartError, match=r"unresolvable CDI devices k8s\.gpu\.example\.test/claim=g7, .*=g8$"):
        CdiRegistry(tmp_path).resolve(named("g7", "g0", "g8"))


def test_a_damaged_file_hides_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_bytes(b'{"cdiVersion": ')
    write(tmp_path, "a.json", "g0")

    assert "HAS_g0" in CdiRegistry(tmp_path).resolve(named("g0")).env


@pytest.mark.parametrize(
    "changes",
    [
        {"cdiVersion": "9.0.0"},
        {"devices": [{"name": "g0", "containerEdits": {}}]},
        {"devices": [{"name": "g0"}]},
    ],
)
def test_a_file_that_runtimes_refuse_defines_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path, "a.json", "g0", **changes)

    with pytest.raises(PodStartError):
        CdiRegistry(tmp_path).resolve(named("g0"))


def test_a_device_that_two_files_define_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "g0")
    write(tmp_path, "b.json", "g0")

    with pytest.raises(PodStartError, match="conflicting CDI device"):
        CdiRegistry(tmp_path).resolve(named("g0"))


def test_no_ids_need_no_folder(tmp_path: Path) -> None:
    assert CdiRegistry(tmp_path / "missing").resolve([]).env == {}
