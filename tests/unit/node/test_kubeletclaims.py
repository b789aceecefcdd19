from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.kubelet.paths import NodePaths
from claimsmith.node.kubeletclaims import KUBELET_CLAIMS_FILE, parse_kubelet_claims, read_kubelet_claims

UPSTREAM = (
    rb'{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{'
    rb"\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{"
    rb"\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{"
    rb"\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"test request\"],"
    rb'\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":2570581864}'
)
"""A file of upstream's own tests. Source: state/checkpointer_test.go of kubernetes v1.37.2."""
EMPTY = (
    rb'{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",'
    rb'\"ClaimInfoStateList\":[]}","Checksum":2361995144}'
)
"""What a kubelet 1.37.2 without claims writes."""


def test_the_claims_on_the_books_are_read() -> None:
    assert parse_kubelet_claims(UPSTREAM) == frozenset({"067798be-454e-4be4-9047-1aa06aea63f7"})
    assert parse_kubelet_claims(EMPTY) == frozenset()


@pytest.mark.parametrize("size", range(0, len(UPSTREAM), 7))
def test_a_file_that_is_cut_off_tells_nothing(size: int) -> None:
    assert parse_kubelet_claims(UPSTREAM[:size]) is None


@pytest.mark.parametrize(
    "data",
    [
        UPSTREAM.replace(b"2570581864", b"1"),
        UPSTREAM.replace(b"ClaimInfoStateList", b"Entries"),
        b"\xff",
        b"[]",
        b"{}",
    ],
)
def test_a_file_that_is_not_understood_tells_nothing(data: bytes) -> None:
    assert parse_kubelet_claims(data) is None


def test_a_node_without_the_file_tells_nothing(tmp_path: Path) -> None:
    paths = NodePaths.compact(tmp_path)
    paths.make()
    missing = read_kubelet_claims(paths)
    (paths.state / KUBELET_CLAIMS_FILE).write_bytes(EMPTY)

    assert (missing, read_kubelet_claims(paths)) == (None, frozenset())
