"""Which claims are prepared on this node, kept over restarts.

The file is JSON with a version, a checksum and the claims. A damaged one is put aside and the claims are read from
the CDI files again: a start never fails because of it, and no device in use is forgotten.

Order of writes, so that a stop between any two is mended when the kubelet calls again:
    prepare:    entry (begun) → driver → CDI file → entry (finished) → answer
    unprepare:  CDI file removed → driver → entry removed → answer
An entry that was begun already holds its devices. A finished entry counts only while its CDI file describes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.errors import CheckpointError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.durable import move_aside, write_durable
from claimsmith.node.entry import HeldDevice, PreparedClaim
from claimsmith.telemetry import get_logger, log_event

__all__ = ["VERSION", "Checkpoint", "encode_claims", "parse_claims"]

VERSION: Final = 1
"""Version of the file that is written, and the highest `minReader` that is read."""

_log = get_logger("node")


class _Device(msgspec.Struct, frozen=True, omit_defaults=True):
    driver: str
    pool: str
    device: str
    request: str
    share: str = ""
    admin: bool = False
    cdi: tuple[str, ...] = ()


class _Claim(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    boot: str
    finished: bool
    devices: tuple[_Device, ...]


class _File(msgspec.Struct, frozen=True, rename="camel"):
    """A later version raises `minReader` only when older readers would go wrong, so that going back stays possible."""

    version: int
    min_reader: int
    checksum: str
    claims: msgspec.Raw


def encode_claims(claims: Iterable[PreparedClaim]) -> bytes:
    """Return the content of the file."""
    wire = [
        _Claim(
            namespace=entry.claim.namespace,
            name=entry.claim.name,
            uid=entry.claim.uid,
            boot=entry.boot_id,
            finished=entry.finished,
            devices=tuple(
                _Device(
                    driver=device.id.driver,
                    pool=device.id.pool,
                    device=device.id.device,
                    request=device.request,
                    share=device.share_id,
                    admin=device.admin_access,
                    cdi=device.cdi_ids,
                )
                for device in entry.devices
            ),
        )
        for entry in claims
    ]
    raw = msgspec.json.encode(wire)
    file = _File(version=VERSION, min_reader=VERSION, checksum=sha256(raw).hexdigest(), claims=msgspec.Raw(raw))
    return msgspec.json.encode(file)


def parse_claims(data: bytes, path: Path) -> tuple[PreparedClaim, ...] | None:
    """Return the claims in the content of a file; None when it is damaged.

    Raises:
        CheckpointError: It is whole, but a later version wrote it that this one can't read.
    """
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.min_reader <= VERSION:
            if sha256(bytes(file.claims)).hexdigest() != file.checksum:
                return None
            return tuple(_entry(claim) for claim in msgspec.json.decode(file.claims, type=list[_Claim]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    raise CheckpointError(
        path,
        f"found version {file.version}, readable from version {file.min_reader} on, allowed at most {VERSION}",
        hint="start the later claimsmith again, or drain the node and remove the file",
    )


class Checkpoint:
    """The prepared claims of one driver on one node, in memory and in a file.

    Not safe for several threads or processes at once: the caller holds the driver's lock.

    Args:
        path: The file.
        rebuild: Returns the claims as the CDI files tell them, for when the file is damaged or missing.
    """

    def __init__(self, path: Path, rebuild: Callable[[], Iterable[PreparedClaim]]) -> None:
        self._path, self._rebuild = path, rebuild
        self._claims: dict[str, PreparedClaim] = {}
        self._seen: tuple[int, int, int] | None = None
        self.damaged: tuple[Path, ...] = ()
        """Where damaged files were put since the start."""

    def open(self) -> None:
        """Read the file, or make it; puts a damaged one aside.

        Raises:
            CheckpointError: A later version wrote it.
            ConfigError: The folder can't be written, or the CDI folder can't be read.
        """
        self.refresh()
        if self._seen is None:
            self._claims = {entry.claim.uid: entry for entry in self._rebuild()}
        # Also when nothing changed: a folder that can't be written shows at the start, not at the first claim.
        self._write(self._claims)

    def refresh(self) -> None:
        """Read the file again if another process of the driver wrote it.

        Raises:
            CheckpointError: A later version wrote it.
            ConfigError: A damaged file can't be put aside.
        """
        if (found := self._stat()) is None or found == self._seen:
            return
        claims = self._read()
        if claims is None:
            self._recover()
        else:
            self._claims, self._seen = {entry.claim.uid: entry for entry in claims}, found

    def find(self, uid: str) -> PreparedClaim | None:
        """Return the entry of a claim."""
        return self._claims.get(uid)

    def claims(self) -> tuple[PreparedClaim, ...]:
        """Return all entries, in the order in which they came."""
        return tuple(self._claims.values())

    def put(self, entry: PreparedClaim) -> None:
        """Keep an entry; it is on the disk when this returns.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        self._write({**self._claims, entry.claim.uid: entry})

    def remove(self, uid: str) -> None:
        """Forget an entry; an unknown one is no error.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        if uid in self._claims:
            self._write({other: entry for other, entry in self._claims.items() if other != uid})

    def _read(self) -> tuple[PreparedClaim, ...] | None:
        try:
            return parse_claims(self._path.read_bytes(), self._path)
        except OSError:
            return None

    def _recover(self) -> None:
        aside = move_aside(self._path)
        self.damaged += (aside,)
        known = {entry.claim.uid: entry for entry in (*self._rebuild(), *self._claims.values())}
        self._write(known)
        log_event(
            _log,
            logging.WARNING,
            "The checkpoint was damaged, was put aside and is rebuilt from the CDI files",
            path=self._path,
            aside=aside,
            claims=len(known),
        )

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        write_durable(self._path, encode_claims(claims.values()))
        self._claims, self._seen = claims, self._stat()

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)


def _entry(claim: _Claim) -> PreparedClaim:
    devices = tuple(
        HeldDevice(
            id=DeviceId(device.driver, device.pool, device.device),
            request=device.request,
            share_id=device.share,
            admin_access=device.admin,
            cdi_ids=device.cdi,
        )
        for device in claim.devices
    )
    key = ClaimKey(namespace=claim.namespace, name=claim.name, uid=claim.uid)
    return PreparedClaim(claim=key, devices=devices, boot_id=claim.boot, finished=claim.finished)
