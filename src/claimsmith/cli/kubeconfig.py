"""Writing a kubeconfig for the embedded cluster, and never over somebody else's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from claimsmith.errors import ConfigError

__all__ = ["check_kubeconfig", "written_kubeconfig"]

_MARK: Final = "# Written by claimsmith up; it may be overwritten and removed by it."


def check_kubeconfig(path: Path) -> None:
    """Make sure that a kubeconfig may be written there.

    Raises:
        ConfigError: There is a file that claimsmith did not write, or the place can't be written to.
    """
    parent = path.absolute().parent
    try:
        if path.is_symlink() or path.exists():
            if not path.is_file() or not _is_ours(path):
                raise ConfigError(
                    f"kubeconfig {path}: found something that claimsmith did not write, allowed a new file; "
                    "name another path"
                )
        elif not parent.is_dir():
            raise ConfigError(f"kubeconfig {path}: found no folder {parent}, allowed an existing one; make it first")
        if not os.access(parent, os.W_OK):
            raise ConfigError(f"kubeconfig {path}: can't be written, allowed a writable folder; name another path")
    except OSError as error:
        raise _unusable(path, error) from error


@contextmanager
def written_kubeconfig(path: Path, url: str) -> Iterator[None]:
    """Write a kubeconfig for a server, readable by its owner alone, and remove it when the context closes.

    It is not removed when somebody has written another one there in the meantime.

    Raises:
        ConfigError: It can't be written, or the file there is somebody else's.
    """
    import yaml

    from claimsmith.embedded.api.server import kubeconfig_for

    check_kubeconfig(path)
    text = f"{_MARK}\n{yaml.safe_dump(kubeconfig_for(url), sort_keys=False)}"
    try:
        _replace(path, text)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        yield
    finally:
        with suppress(OSError, UnicodeDecodeError):
            if path.read_text(encoding="utf-8") == text:
                path.unlink()


def _replace(path: Path, text: str) -> None:
    """Write a file at once."""
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}."[:100])
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline().strip() == _MARK.encode()


def _unusable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"kubeconfig {path}: can't be used ({error.strerror or error}), allowed a writable place; name another path"
    )
