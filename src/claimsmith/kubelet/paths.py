"""The folders in which the kubelet and its plugins meet, and the limit on what fits into a socket's address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from claimsmith.errors import ConfigError

__all__ = ["SOCKET_PATH_MAX_BYTES", "NodePaths", "make_folder", "parse_socket_path"]

SOCKET_PATH_MAX_BYTES: Final = 107
"""Longest path of a unix socket; `sun_path` has one byte more for the closing NUL. Source: unix(7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaths:
    """The folders of one node.

    Args:
        plugins: Each plugin has a folder of its own in it, with its service socket and its state.
        plugins_registry: Registration sockets; the kubelet watches it.
        device_plugins: Sockets of the device plugin protocol.
        cdi: CDI files, which the container runtime reads.
        state: The kubelet's own state.
    """

    plugins: Path
    plugins_registry: Path
    device_plugins: Path
    cdi: Path
    state: Path

    @classmethod
    def of_kubelet(cls, root: Path = Path("/var/lib/kubelet"), cdi: Path = Path("/var/run/cdi")) -> NodePaths:
        """Return the folders of a real kubelet with that root folder."""
        return cls(
            plugins=root / "plugins",
            plugins_registry=root / "plugins_registry",
            device_plugins=root / "device-plugins",
            cdi=cdi,
            state=root,
        )

    @classmethod
    def compact(cls, root: Path) -> NodePaths:
        """Return folders below `root` whose names are one letter, so that socket paths stay short.

        The longest driver name (63 bytes) still fits when `root` has at most 32 bytes.
        """
        return cls(
            plugins=root / "p", plugins_registry=root / "r", device_plugins=root / "d", cdi=root / "c", state=root / "k"
        )

    def folder_of(self, driver: str) -> Path:
        """Return the folder that belongs to one driver alone."""
        return self.plugins / driver

    def make(self) -> None:
        """Make the folders that are missing.

        Raises:
            ConfigError: A folder can't be made.
        """
        for folder in (self.plugins, self.plugins_registry, self.device_plugins, self.cdi, self.state):
            make_folder(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if missing.

    Raises:
        ConfigError: It can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"folder {folder}: can't be made: {error.strerror or error}, allowed a writable place; "
            "choose another folder or correct its permissions"
        ) from error


def parse_socket_path(path: Path) -> Path:
    """Return a path that fits into the address of a unix socket, unchanged.

    Raises:
        ConfigError: It has more bytes than an address takes.
    """
    if (length := len(str(path).encode())) > SOCKET_PATH_MAX_BYTES:
        raise ConfigError(
            f"socket path {path}: found {length} bytes, allowed {SOCKET_PATH_MAX_BYTES}; choose a shorter folder"
        )
    return path
