"""Which claims the kubelet of this node has on its books: for each of them it will call unprepare itself.

It writes a claim down before it calls prepare for the first time, and strikes it out after unprepare has succeeded.

Source: pkg/kubelet/cm/dra/manager.go and state/checkpoint.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from claimsmith.kubelet.paths import NodePaths

__all__ = ["KUBELET_CLAIMS_FILE", "parse_kubelet_claims", "read_kubelet_claims"]

KUBELET_CLAIMS_FILE: Final = "dra_manager_state"
"""Name of the file in the kubelet's root folder."""


class _File(msgspec.Struct, frozen=True):
    data: str = msgspec.field(name="Data")
    checksum: int = msgspec.field(name="Checksum")


class _Claim(msgspec.Struct, frozen=True):
    uid: str = msgspec.field(name="ClaimUID")


class _Data(msgspec.Struct, frozen=True):
    claims: tuple[_Claim, ...] | None = msgspec.field(name="ClaimInfoStateList")


def parse_kubelet_claims(data: bytes) -> frozenset[str] | None:
    """Return the uids of the claims in the kubelet's file; None when it is damaged, or in a form that is not known."""
    try:
        file = msgspec.json.decode(data, type=_File)
        if crc32(file.data.encode()) != file.checksum:
            return None
        return frozenset(claim.uid for claim in msgspec.json.decode(file.data, type=_Data).claims or ())
    except (msgspec.DecodeError, UnicodeError):
        return None


def read_kubelet_claims(paths: NodePaths) -> frozenset[str] | None:
    """Return the uids of the claims on the kubelet's books; None when they can't be told."""
    path: Path = paths.state / KUBELET_CLAIMS_FILE
    try:
        return parse_kubelet_claims(path.read_bytes())
    except OSError:
        return None
