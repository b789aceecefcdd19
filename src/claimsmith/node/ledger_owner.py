"""Which processes offer the devices of a driver: only one may, except while one takes over from another.

Each process holds the lock on a file of its own in the driver's folder. The kernel gives a lock back when a process
ends, however it ends, so that what a killed one has left is known for that.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from claimsmith.errors import ConfigError, DeviceOwnedError
from claimsmith.node.checkpoint import VERSION
from claimsmith.node.durable import build_unwritable, locked
from claimsmith.telemetry import get_logger, log_event

__all__ = ["DEVICE_PLUGIN_WAY", "DRA_WAY", "DriverOwner", "find_earlier_reader"]

DRA_WAY: Final = "dra"
DEVICE_PLUGIN_WAY: Final = "device plugin"
"""The ways in which devices are offered."""
_LOCK: Final = "owners.lock"
_PATTERN: Final = "owner-*.json"
_SHOWN: Final = 8

_log = get_logger("node")


class _Note(msgspec.Struct, frozen=True):
    """What a process says of itself.

    Args:
        reads: Up to which version it reads checkpoints; processes that do not say so are of the first one.
    """

    pid: int
    ways: tuple[str, ...]
    instance: str = ""
    devices: tuple[str, ...] = ()
    reads: int = 1

    def __str__(self) -> str:
        return f"process {self.pid} ({' and '.join(self.ways)})"


class DriverOwner:
    """Holds the right to offer the devices of a driver while it is entered.

    Args:
        folder: The folder that belongs to the driver alone.
        driver: Name of the driver.
        ways: In which ways the devices are offered.
        instance_uid: uid of the driver's pod; two processes that both have one may overlap, as in a rolling update.

    Raises:
        ConfigError: The folder can't be used.
    """

    def __init__(self, folder: Path, *, driver: str, ways: Sequence[str], instance_uid: str = "") -> None:
        self._folder, self._driver = folder, driver
        self._note = _Note(pid=os.getpid(), ways=tuple(ways), instance=instance_uid, reads=VERSION)
        self._path = folder / f"owner-{os.getpid()}-{os.urandom(3).hex()}.json"
        self._descriptor: int | None = None
        self._is_told = False

    def __enter__(self) -> Self:
        """Take the right.

        Raises:
            DeviceOwnedError: Another process has it.
            ConfigError: The folder can't be used.
        """
        with locked(self._folder / _LOCK):
            for other in _living(self._folder):
                if not (other.instance and self._note.instance and other.instance != self._note.instance):
                    raise DeviceOwnedError(
                        self._driver,
                        devices=", ".join(other.devices[:_SHOWN]) or "its devices",
                        owner=str(other),
                        ways=" and ".join(self._note.ways),
                    )
            self._descriptor = self._open()
            try:
                self._write()
            except ConfigError:
                self._give_back()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the right back."""
        self._give_back()

    def _give_back(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _remove(self._path)
            os.close(descriptor)

    def name_devices(self, names: Iterable[str]) -> None:
        """Say which devices are offered, for the message that a second process gets.

        What can't be written is only logged: the right itself is the lock, not what the file says.
        """
        before, devices = self._note, tuple(names)
        if devices == before.devices:
            return
        self._note = msgspec.structs.replace(before, devices=devices)
        try:
            with locked(self._folder / _LOCK):  # Nobody reads half of it, as if an earlier version had written it.
                self._write()
        except ConfigError as error:
            self._note = before  # So that the next call tries again.
            if not self._is_told:
                log_event(_log, logging.WARNING, "Devices can't be named", driver=self._driver, reason=error)
            self._is_told = True
        else:
            self._is_told = False

    def _open(self) -> int:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise build_unwritable(self._path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise build_unwritable(self._path, error) from error
        return descriptor

    def _write(self) -> None:
        """Write in place: a new file would not have the lock.

        Raises:
            ConfigError: The disk is full or read-only.
        """
        if self._descriptor is None:
            return
        data = msgspec.json.encode(self._note)
        try:
            if os.pwrite(self._descriptor, data, 0) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(self._descriptor, len(data))
        except OSError as error:
            raise build_unwritable(self._path, error) from error


def find_earlier_reader(folder: Path, version: int) -> str:
    """Return which process that offers the driver's devices can't read checkpoints of a version; empty: all can.

    Args:
        folder: The folder that belongs to the driver alone.

    Raises:
        ConfigError: The folder can't be used.
    """
    with locked(folder / _LOCK):
        return next((str(note) for note in tuple(_living(folder)) if note.reads < version), "")


def _living(folder: Path) -> Iterator[_Note]:
    """Yield what living processes say of themselves; the files of dead ones are removed."""
    for path in sorted(folder.glob(_PATTERN)):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield _read(path)
        else:
            _remove(path)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file; one that stays since the disk is read-only says nothing: nobody holds its lock."""
    with suppress(OSError):
        path.unlink()


def _read(path: Path) -> _Note:
    """Return what a file says; one that is just being written says little."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return _Note(pid=0, ways=("starting",))
