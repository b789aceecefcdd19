"""The checkpoint as version 1 of it was read and written, kept to test that going up and back by one works."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec

from claimsmith.errors import CheckpointError

VERSION = 1


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    driver: str
    pool: str
    device: str
    request: str
    share: str = ""
    admin: bool = False
    cdi: tuple[str, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    boot: str
    finished: bool
    devices: tuple[Device, ...]


class _File(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    min_reader: int
    checksum: str
    claims: msgspec.Raw


def encode(claims: list[Claim]) -> bytes:
    """Return what version 1 writes."""
    raw = msgspec.json.encode(claims)
    file = _File(version=VERSION, min_reader=VERSION, checksum=sha256(raw).hexdigest(), claims=msgspec.Raw(raw))
    return msgspec.json.encode(file)


def parse(data: bytes, path: Path) -> list[Claim] | None:
    """Return what version 1 reads; None for a file that it takes for damaged."""
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.min_reader <= VERSION:
            if sha256(bytes(file.claims)).hexdigest() != file.checksum:
                return None
            return msgspec.json.decode(file.claims, type=list[Claim])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    raise CheckpointError(path, f"found version {file.version}", hint="start the later claimsmith again")
