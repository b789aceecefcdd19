"""Which claims are prepared on this node, and what the device plugin has given away, kept over restarts.

The file is JSON with a version, a checksum, the claims and the grants. A damaged one is put aside and both are read
from the CDI files again: a start never fails because of it, and no device in use is forgotten.

Version 1 had no grants. It reads and writes a file of version 2 as long as there are none, and refuses to start while
there are some, since it would give the same devices away again. One that runs already would refuse to go on: the first
grant waits until it has ended, so that an update can be taken back.

Order of writes, so that a stop between any two is mended when the kubelet calls again:
    prepare:    entry → driver → metadata and status → CDI file → answer
    unprepare:  CDI file removed → driver → metadata and status removed → entry removed → answer
An entry holds its devices from the moment it is written. It counts as prepared only while its CDI file describes it, so
that it need not be written again for that. Grants, which may have no CDI file, have two: one begun, one finished.

What is written before the driver is called is flushed, and outlives the process under its name at once; after a loss of
power the file may be the one before, as with the kubelet's own checkpoints. Devices are reset by that, and the kubelet,
which has the claim on its own books, calls again. Finished grants, and what is removed, are on the disk for good.

Source of the comparison: writeFile in pkg/kubelet/util/store/filestore.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from claimsmith.errors import CheckpointError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.durable import move_aside, write_durable, write_ordered
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, is_grant
from claimsmith.telemetry import get_logger, log_event

__all__ = ["GRANTS_READER", "VERSION", "Checkpoint", "Content", "encode_content", "parse_content"]

VERSION: Final = 2
"""Version of the file that is written, and the highest `minReader` that is read."""
GRANTS_READER: Final = 2
"""The lowest version that reads a file with grants."""
_WITHOUT_GRANTS: Final = 1
"""The version that reads a file as well as long as there are no grants."""

_log = get_logger("node")
_Entry = TypeVar("_Entry")


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


class _Grant(msgspec.Struct, frozen=True):
    resource: str
    ids: tuple[str, ...]
    granted: float
    entry: _Claim


class _File(msgspec.Struct, frozen=True, rename="camel"):
    """A later version raises `minReader` only when older readers would go wrong, so that going back stays possible."""

    version: int
    min_reader: int
    checksum: str
    claims: msgspec.Raw
    grants_checksum: str = ""
    grants: msgspec.Raw = msgspec.Raw(b"[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a checkpoint holds, each by uid in the order in which it came."""

    claims: Mapping[str, PreparedClaim] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[PreparedClaim] = (), grants: Iterable[Grant] = ()) -> Content:
        """Return the content with these claims and grants; of several with one uid the last one."""
        return cls(
            claims={entry.claim.uid: entry for entry in claims},
            grants={grant.uid: grant for grant in grants},
        )

    @classmethod
    def described(cls, entries: Iterable[PreparedClaim]) -> Content:
        """Return what CDI files describe; the ids of grants do not stand there."""
        entries = tuple(entries)
        grants = (Grant(entry=entry, resource=entry.claim.name, ids=()) for entry in entries if is_grant(entry.claim))
        return cls.of((entry for entry in entries if not is_grant(entry.claim)), grants)

    def over(self, other: Content) -> Content:
        """Return all of both; this one's where both know of something."""
        return Content(claims={**other.claims, **self.claims}, grants={**other.grants, **self.grants})


def encode_content(content: Content) -> bytes:
    """Return the content of the file."""
    claims = msgspec.json.encode([_encode_entry(entry) for entry in content.claims.values()])
    grants = msgspec.json.encode(
        [
            _Grant(resource=grant.resource, ids=grant.ids, granted=grant.granted_s, entry=_encode_entry(grant.entry))
            for grant in content.grants.values()
        ]
    )
    file = _File(
        version=VERSION,
        min_reader=GRANTS_READER if content.grants else _WITHOUT_GRANTS,
        checksum=sha256(claims).hexdigest(),
        claims=msgspec.Raw(claims),
        grants_checksum=sha256(grants).hexdigest(),
        grants=msgspec.Raw(grants),
    )
    return msgspec.json.encode(file)


def parse_content(data: bytes, path: Path) -> Content | None:
    """Return what the content of a file says; None when it is damaged.

    Raises:
        CheckpointError: It is whole, but a later version wrote it that this one can't read.
    """
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.min_reader <= VERSION:
            if not _is_whole(file):
                return None
            claims = msgspec.json.decode(file.claims, type=list[_Claim])
            grants = msgspec.json.decode(file.grants, type=list[_Grant])
            return Content.of(map(_parse_entry, claims), map(_parse_grant, grants))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    raise CheckpointError(
        path,
        f"found version {file.version}, readable from version {file.min_reader} on, allowed at most {VERSION}",
        hint="start the later claimsmith again, or drain the node and remove the file",
    )


class Checkpoint:
    """The prepared claims and the grants of one driver on one node, in memory and in a file.

    Not safe for several threads or processes at once: the caller holds the driver's lock.

    Args:
        path: The file.
        rebuild: Returns claims and grants as the CDI files tell them, for when the file is damaged or missing.
        write: Writes a file so that it is on the disk, whole, when this returns.
        write_begun: Writes a file so that it is old or new, whole, whatever happens.
    """

    def __init__(
        self,
        path: Path,
        rebuild: Callable[[], Iterable[PreparedClaim]],
        *,
        write: Callable[[Path, bytes], None] = write_durable,
        write_begun: Callable[[Path, bytes], None] = write_ordered,
    ) -> None:
        self._path, self._rebuild = path, rebuild
        self._write_file, self._write_begun = write, write_begun
        self._content = Content()
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
            self._content = Content.described(self._rebuild())
        # Also when nothing changed: a folder that can't be written shows at the start, not at the first claim.
        self._write(self._content)

    @property
    def is_outdated(self) -> bool:
        """Whether another process of the driver has written the file since it was read; needs no lock."""
        return (found := self._stat()) is not None and found != self._seen

    def refresh(self) -> None:
        """Read the file again if another process of the driver wrote it.

        Raises:
            CheckpointError: A later version wrote it.
            ConfigError: A damaged file can't be put aside.
        """
        if (found := self._stat()) is None or found == self._seen:
            return
        content = self._read()
        if content is None:
            self._recover()
        else:
            self._content, self._seen = content, found

    @property
    def content(self) -> Content:
        """All that is known, in one value that never changes."""
        return self._content

    def find(self, uid: str) -> PreparedClaim | None:
        """Return the entry of a claim."""
        return self._content.claims.get(uid)

    def claims(self) -> tuple[PreparedClaim, ...]:
        """Return the entries of all claims, in the order in which they came."""
        return tuple(self._content.claims.values())

    def find_grant(self, uid: str) -> Grant | None:
        """Return a grant."""
        return self._content.grants.get(uid)

    def grants(self) -> tuple[Grant, ...]:
        """Return all grants, in the order in which they came."""
        return tuple(self._content.grants.values())

    def put(self, *entries: PreparedClaim | Grant) -> None:
        """Keep entries; they are on the disk when this returns, all of them or none.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        self._write(self._with(entries))

    def begin(self, entry: PreparedClaim | Grant) -> None:
        """Keep an entry before the driver is called: no process forgets it, and a loss of power leaves a whole file.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        self._write(self._with([entry]), is_begun=True)

    def _with(self, entries: Iterable[PreparedClaim | Grant]) -> Content:
        entries = tuple(entries)
        new = Content.of(
            (entry for entry in entries if isinstance(entry, PreparedClaim)),
            (entry for entry in entries if isinstance(entry, Grant)),
        )
        return new.over(self._content)

    def remove(self, uid: str) -> None:
        """Forget a claim; an unknown one is no error.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        if uid in self._content.claims:
            self._write(replace(self._content, claims=_without(self._content.claims, uid)))

    def remove_grant(self, uid: str) -> None:
        """Forget a grant; an unknown one is no error.

        Raises:
            ConfigError: The file can't be written; memory is then unchanged too.
        """
        if uid in self._content.grants:
            self._write(replace(self._content, grants=_without(self._content.grants, uid)))

    def _read(self) -> Content | None:
        try:
            return parse_content(self._path.read_bytes(), self._path)
        except OSError:
            return None

    def _recover(self) -> None:
        aside = move_aside(self._path)
        self.damaged += (aside,)
        known = self._content.over(Content.described(self._rebuild()))
        self._write(known)
        log_event(
            _log,
            logging.WARNING,
            "The checkpoint was damaged, was put aside and is rebuilt from the CDI files",
            path=self._path,
            aside=aside,
            claims=len(known.claims),
            grants=len(known.grants),
        )

    def _write(self, content: Content, *, is_begun: bool = False) -> None:
        write = self._write_begun if is_begun else self._write_file
        write(self._path, encode_content(content))
        self._content, self._seen = content, self._stat()

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)


def _without(entries: Mapping[str, _Entry], uid: str) -> dict[str, _Entry]:
    return {other: entry for other, entry in entries.items() if other != uid}


def _is_whole(file: _File) -> bool:
    if sha256(bytes(file.claims)).hexdigest() != file.checksum:
        return False
    if file.version < VERSION:
        return True
    return sha256(bytes(file.grants)).hexdigest() == file.grants_checksum


def _encode_entry(entry: PreparedClaim) -> _Claim:
    return _Claim(
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


def _parse_entry(claim: _Claim) -> PreparedClaim:
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


def _parse_grant(grant: _Grant) -> Grant:
    return Grant(entry=_parse_entry(grant.entry), resource=grant.resource, ids=grant.ids, granted_s=grant.granted)
