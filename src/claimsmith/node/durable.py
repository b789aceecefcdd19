"""Files that a kill leaves old or new, never half, and a lock between the processes of one driver."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from claimsmith.errors import ConfigError

__all__ = [
    "build_unwritable",
    "locked",
    "move_aside",
    "remove_durable",
    "remove_whole",
    "write_durable",
    "write_in_place",
    "write_ordered",
    "write_whole",
]


def write_durable(path: Path, data: bytes) -> None:
    """Write a file under a hidden name in its folder, flush it to the disk and give it its name.

    Raises:
        ConfigError: The folder is missing, full or read-only.
    """
    _write(path, data, is_flushed=True, is_named=True)


def write_ordered(path: Path, data: bytes) -> None:
    """Write a file as `write_durable` does, without waiting until its name is on the disk.

    Whoever reads it sees it old or new; after a loss of power too, but which of both is not certain.

    Raises:
        ConfigError: The folder is missing, full or read-only.
    """
    _write(path, data, is_flushed=True, is_named=False)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file as `write_durable` does, without waiting for the disk.

    Whoever reads it sees it old or new, also after a kill. After a loss of power it may be gone or empty: for files
    that are of no use then.

    Raises:
        ConfigError: The folder is missing, full or read-only.
    """
    _write(path, data, is_flushed=False, is_named=False)


def write_in_place(path: Path, data: bytes) -> None:
    """Give a file another content without another inode: a container that has mounted it sees the new one.

    Whoever reads it in the same moment may see parts of both.

    Raises:
        ConfigError: The file is not there, or can't be written.
    """
    try:
        with open(path, "r+b", buffering=0) as file:
            file.write(data)
            file.truncate(len(data))
    except OSError as error:
        raise build_unwritable(path, error) from error


def remove_durable(path: Path) -> bool:
    """Remove a file for good, and what a stopped `write_durable` left of it; return whether there was one.

    Raises:
        ConfigError: The folder is read-only.
    """
    return _remove(path, is_flushed=True)


def remove_whole(path: Path) -> bool:
    """Remove a file as `remove_durable` does, without waiting for the disk: after a loss of power it may be back.

    Raises:
        ConfigError: The folder is read-only.
    """
    return _remove(path, is_flushed=False)


def _remove(path: Path, *, is_flushed: bool) -> bool:
    try:
        _hidden(path).unlink(missing_ok=True)
        path.unlink()
        if is_flushed:
            _sync_folder(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise build_unwritable(path, error) from error
    return True


def move_aside(path: Path) -> Path:
    """Rename a damaged file or folder to the first free of `<name>.damaged-1`, `-2` and so on; return the new path.

    Raises:
        ConfigError: The folder is read-only.
    """
    number = 1
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    try:
        path.rename(target)
        _sync_folder(path.parent)
    except OSError as error:
        raise build_unwritable(path, error) from error
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that all processes of one driver on this node share; waits until it is free.

    Raises:
        ConfigError: The lock file can't be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise build_unwritable(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, *, is_flushed: bool, is_named: bool) -> None:
    hidden = _hidden(path)
    try:
        with open(hidden, "wb") as file:
            file.write(data)
            file.flush()
            if is_flushed:
                os.fsync(file.fileno())
        os.replace(hidden, path)
        if is_named:
            _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            hidden.unlink()
        raise build_unwritable(path, error) from error


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def build_unwritable(path: Path, error: OSError) -> ConfigError:
    """Return what is raised for a file that can't be written."""
    return ConfigError(
        f"file {path}: can't be written: {error.strerror or error}, allowed a writable folder; "
        "correct its permissions or choose another folder"
    )
