"""Writing a kubeconfig for the embedded cluster, and never over somebody else's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from claimsmith.errors import ConfigError

__all__ = ["check_kubeconfig", "remove_kubeconfig", "save_kubeconfig"]

_MARK: Final = "# Written by claimsmith up; it may be overwritten and removed by it."


def check_kubeconfig(path: Path) -> None:
    """Make sure that a kubeconfig may be written there.

    Raises:
        ConfigError: There is a file that claimsmith did not write, or the place can't be written to.
    """
    try:
        if path.exists() and not _is_ours(path):
            raise ConfigError(
                f"kubeconfig {path}: found a file that claimsmith did not write, allowed a new file; name another path"
            )
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise ConfigError(f"kubeconfig {path}: can't be written, allowed a writable folder; name another path")
    except OSError as error:
        raise _unusable(path, error) from error


def save_kubeconfig(path: Path, url: str) -> None:
    """Write a kubeconfig for a server, at once and readable by its owner alone.

    Raises:
        ConfigError: It can't be written, or the file there is somebody else's.
    """
    import yaml

    from claimsmith.embedded.api.server import kubeconfig_for

    check_kubeconfig(path)
    text = f"{_MARK}\n{yaml.safe_dump(kubeconfig_for(url), sort_keys=False)}"
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unusable(path, error) from error


def remove_kubeconfig(path: Path) -> None:
    """Remove the kubeconfig of a cluster that has ended, if it is still ours."""
    try:
        if path.exists() and _is_ours(path):
            path.unlink()
    except OSError:
        return


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline().strip() == _MARK.encode()


def _unusable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"kubeconfig {path}: can't be used ({error.strerror or error}), allowed a writable place; name another path"
    )
