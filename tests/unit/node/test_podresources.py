from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.model.inventory import Inventory
from claimsmith.model.names import PodRef
from claimsmith.node.podresources import (
    ContainerDevices,
    ForeignRule,
    find_foreign_holdings,
    parse_device_checkpoint,
    read_device_checkpoint,
)
from claimsmith.testing import builders as b

ENTRY = {
    "PodUID": "u1",
    "ContainerName": "c",
    "ResourceName": "x.test/gpu",
    "DeviceIDs": {"-1": ["gpu-2"], "0": ["gpu-0", "gpu-1"], "1": ["gpu-1"]},
    "AllocResp": "CgA=",
}


def checkpoint(*entries: object) -> bytes:
    data = {"PodDeviceEntries": list(entries), "RegisteredDevices": {"x.test/gpu": ["gpu-0"]}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


def test_the_kubelets_checkpoint_tells_the_devices_of_each_container() -> None:
    assert parse_device_checkpoint(checkpoint(ENTRY)) == (
        ContainerDevices(
            resource="x.test/gpu", ids=frozenset({"gpu-0", "gpu-1", "gpu-2"}), container="c", pod_uid="u1"
        ),
    )


def test_ids_as_a_plain_list_are_read() -> None:
    found = parse_device_checkpoint(checkpoint({**ENTRY, "DeviceIDs": ["gpu-0"]}))

    assert found is not None
    assert found[0].ids == {"gpu-0"}


def test_a_checkpoint_without_devices_is_empty() -> None:
    assert parse_device_checkpoint(b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}') == ()


@given(st.integers(0, 400))
def test_a_cut_checkpoint_tells_nothing_rather_than_too_little(length: int) -> None:
    data = checkpoint(ENTRY)

    assert parse_device_checkpoint(data[: min(length, len(data) - 1)]) is None


def test_a_missing_checkpoint_tells_nothing(tmp_path: Path) -> None:
    assert read_device_checkpoint(tmp_path / "kubelet_internal_checkpoint") is None


INVENTORY = Inventory.of(b.gpu("gpu-0"), b.gpu("gpu-1"))
POD = PodRef("default", "p")


def has(*ids: str, resource: str = "nvidia.com/gpu") -> ContainerDevices:
    return ContainerDevices(resource=resource, ids=frozenset(ids), container="c", pod=POD)


def foreign(
    *containers: ContainerDevices, rule: ForeignRule | None = None, own: tuple[tuple[str, str], ...] = ()
) -> list[str]:
    found = find_foreign_holdings(b.DRIVER, INVENTORY, node=b.NODE, containers=containers, own=own, rule=rule)
    return [holding.device.device for holding in found]


@pytest.mark.parametrize("id_", ["GPU-gpu-0", "gpu-0", "GPU-gpu-0::3"])
def test_a_device_that_another_plugin_gave_away_is_known_by_uuid_or_name(id_: str) -> None:
    assert foreign(has(id_)) == ["gpu-0"]


def test_the_holding_tells_whose_it_is() -> None:
    (found,) = find_foreign_holdings(b.DRIVER, INVENTORY, node=b.NODE, containers=[has("gpu-1")])

    assert (found.device, found.resource, found.pod) == (b.device_id("gpu-1"), "nvidia.com/gpu", POD)


def test_what_we_gave_away_ourselves_is_not_foreign() -> None:
    assert foreign(has("gpu-0"), own=(("nvidia.com/gpu", "gpu-0"),)) == []


def test_what_a_plugin_before_us_gave_away_under_the_same_name_is_foreign() -> None:
    assert foreign(has("GPU-gpu-0"), own=(("nvidia.com/gpu", "gpu-0"),)) == ["gpu-0"]


def test_other_ids_and_resources_are_nobodys_business() -> None:
    rule = ForeignRule(resources=("nvidia.com/*",), attributes=("uuid",), names=False)

    assert foreign(has("gpu-0"), has("GPU-gpu-0", resource="amd.com/gpu"), has("GPU-other"), rule=rule) == []


def test_a_device_that_two_lists_name_is_told_once() -> None:
    assert foreign(has("gpu-0"), has("GPU-gpu-0")) == ["gpu-0"]
