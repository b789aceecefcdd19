from __future__ import annotations

import msgspec
import pytest

from claimsmith.embedded.kubelet.devices.checkpoint import (
    Entry,
    Snapshot,
    checksum,
    decode_checkpoint,
    encode_checkpoint,
)
from claimsmith.errors import CheckpointError

# Written by Go, with upstream's types, encoding/json and k8s.io/utils/dump.
OF_GO = [
    b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}',
    b'{"Data":{"PodDeviceEntries":[],"RegisteredDevices":null},"Checksum":3252601439}',
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","ContainerName":"main","ResourceName":"vendor.example/gpu",'
    b'"DeviceIDs":{"-1":["a"],"10":["x","y"],"2":["b"]},"AllocResp":"AAEQEf8="},{"PodUID":"uid \\"2\\"\\n",'
    b'"ContainerName":"m","ResourceName":"r","DeviceIDs":{},"AllocResp":""}],'
    b'"RegisteredDevices":{"a/y":[],"a/z":null,"b/x":["1"]}},"Checksum":2300707824}',
    '{"Data":{"PodDeviceEntries":[{"PodUID":"u\\u003c\\u003e\\u0026é","ContainerName":"main",'
    '"ResourceName":"vendor.example/gpu","DeviceIDs":null,'
    '"AllocResp":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJw=="},{"PodUID":"u","ContainerName":"m",'
    '"ResourceName":"r","DeviceIDs":{"0":null,"1":[]},"AllocResp":null}],"RegisteredDevices":null},'
    '"Checksum":197431532}'.encode(),
]
SNAPSHOT = Snapshot(
    pod_device_entries=(
        Entry(
            pod_uid="u",
            container_name="main",
            resource_name="vendor.example/gpu",
            device_ids={-1: ("gpu-1",), 0: ("gpu-0",)},
            alloc_resp=b"\x0a\xff",
        ),
    ),
    registered_devices={"vendor.example/gpu": ("gpu-0", "gpu-1")},
)


@pytest.mark.parametrize("content", OF_GO)
def test_the_checksum_is_the_one_that_go_counts(content: bytes) -> None:
    assert checksum(decode_checkpoint(content, "file")) == msgspec.json.decode(content)["Checksum"]


def test_what_is_written_is_read_again() -> None:
    assert decode_checkpoint(encode_checkpoint(SNAPSHOT), "file") == SNAPSHOT


def test_a_changed_file_is_refused_with_both_checksums() -> None:
    content = encode_checkpoint(SNAPSHOT).replace(b'"gpu-1"]}', b'"gpu-2"]}')

    with pytest.raises(CheckpointError, match=r"checkpoint file: found checksum \d+, allowed \d+; remove it when"):
        decode_checkpoint(content, "file")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"Data":{"PodDeviceEntries":3},"Checksum":1}'])
def test_what_is_no_checkpoint_is_refused(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        decode_checkpoint(content, "file")
