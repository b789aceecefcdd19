from __future__ import annotations

import msgspec
import pytest

from claimsmith.embedded.kubelet.dra_checkpoint import ClaimState, decode_claims, encode_claims
from claimsmith.embedded.kubelet.plugins import PreparedDevice
from claimsmith.errors import CheckpointError

# As the kubelet v1.37.2 writes it for a claim of one device.
OF_GO = (
    b'{"Data":"{\\"kind\\":\\"DRACheckpoint\\",\\"apiVersion\\":\\"checkpoint.dra.kubelet.k8s.io/v1\\",'
    b'\\"ClaimInfoStateList\\":[{\\"ClaimUID\\":\\"u\\",\\"ClaimName\\":\\"c\\",\\"Namespace\\":\\"default\\",'
    b'\\"PodUIDs\\":{\\"p\\":{}},\\"DriverState\\":{\\"d\\":{\\"Devices\\":[{\\"PoolName\\":\\"n\\",'
    b'\\"DeviceName\\":\\"gpu-0\\",\\"ShareID\\":null,\\"RequestNames\\":[\\"r\\"],\\"CDIDeviceIDs\\":[\\"k=0\\"]}]}}}]}",'
    b'"Checksum":%d}'
)
STATE = ClaimState(
    namespace="default",
    name="c",
    uid="u",
    pods={"p"},
    skips={"d": ()},
    devices={"d": (PreparedDevice(pool="n", device="gpu-0", requests=("r",), cdi_ids=("k=0",)),)},
)


def test_a_claim_is_written_as_a_real_kubelet_writes_it() -> None:
    written = encode_claims([STATE])

    assert written == OF_GO % msgspec.json.decode(written)["Checksum"]


def test_what_is_written_is_read_again_but_for_what_a_restart_ends() -> None:
    skipping = ClaimState(namespace="default", name="s", uid="v", skips={"d": ("All",)}, prepared=True)
    (first, second) = decode_claims(encode_claims([STATE, skipping]), "file")

    assert (first, second.skips, second.undo, second.prepared) == (STATE, {"d": ("All",)}, (), False)


def test_a_changed_file_is_refused() -> None:
    content = encode_claims([STATE]).replace(b"gpu-0", b"gpu-1")

    with pytest.raises(CheckpointError, match=r"found checksum \d+, allowed \d+; drain the node"):
        decode_claims(content, "file")
