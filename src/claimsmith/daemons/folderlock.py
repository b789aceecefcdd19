"""A folder that one process at a time works in."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import make_folder

__all__ = ["find_temporary_place", "hold_folder", "open_temporary_folder"]

_PREFIX: Final = "cs-"
_RANDOM: Final = "12345678"
"""As long as what `tempfile` puts behind a prefix."""


def find_temporary_place() -> Path:
    """Return a path as long as that of a temporary folder.

    Raises:
        ConfigError: There is no place for temporary files.
    """
    try:
        return Path(tempfile.gettempdir()) / f"{_PREFIX}{_RANDOM}"
    except OSError as error:
        raise ConfigError(f"temporary folder: {error.strerror}; set TMPDIR to a writable folder") from error


@contextmanager
def open_temporary_folder() -> Iterator[Path]:
    """Make a folder of its own that goes, with all that is in it, when the context closes.

    Raises:
        ConfigError: It can't be made.
    """
    place = find_temporary_place().parent
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise ConfigError(
            f"temporary folder in {place}: can't be made ({error.strerror}); set TMPDIR to a writable folder"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def hold_folder(folder: Path) -> Iterator[Path]:
    """Hold a folder, made if missing, for this process while the context is open.

    Raises:
        ConfigError: It can't be made, or another process holds it.
    """
    make_folder(folder)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            f"folder {folder}: can't be opened ({error.strerror}), allowed a writable folder; name another folder"
        ) from error
    try:
        _lock(handle, folder)
        yield folder
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(
            f"folder {folder}: another process works in it, allowed one; stop that process or name another folder"
        ) from error
