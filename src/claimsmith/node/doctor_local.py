"""Collects what the doctor wants to know of this machine. Reads only; a fact that can't be had is told as such."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from claimsmith.errors import CheckpointError
from claimsmith.kubelet.paths import NodePaths
from claimsmith.node.cdi import cdi_kind, find_described_claim
from claimsmith.node.checkpoint import Content, parse_content
from claimsmith.node.doctor_facts import (
    CheckpointState,
    DriverFact,
    FolderFact,
    LocalFacts,
    ProcessFact,
    SocketFact,
)
from claimsmith.node.doctor_runtime import find_runtimes, name_folder, obeys_environment
from claimsmith.node.ledger import CHECKPOINT_FILE
from claimsmith.node.podresources import device_checkpoint_path

__all__ = ["Machine", "collect_local"]

_PROGRAMS: Final = ("kubelet", "containerd", "crio")
_CONNECT_S: Final = 0.5
_KUBELET_SOCKET: Final = "kubelet.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where to look.

    Args:
        paths: The folders of the node.
        root: The machine's file system: `/`, or where it is mounted.
        now_s: Seconds since 1970.
    """

    paths: NodePaths
    root: Path = Path("/")
    now_s: Callable[[], float] = time.time


def collect_local(machine: Machine) -> LocalFacts:
    """Return what is found on a machine; nothing is changed."""
    paths, root = machine.paths, machine.root
    processes = tuple(_iter_processes(root / "proc"))
    return LocalFacts(
        system=os.uname().sysname,
        user_id=os.geteuid(),
        boot_id=_read_text(root / "proc/sys/kernel/random/boot_id"),
        cgroup_version=_find_cgroup_version(root / "sys/fs/cgroup"),
        now_s=machine.now_s(),
        kubelet_root=str(paths.state),
        cdi_folder=name_folder(paths.cdi, root),
        folders=tuple(_describe_folder(path, purpose) for path, purpose in _list_folders(paths)),
        sockets=tuple(map(_try_socket, _list_sockets(paths))),
        kubelet_socket=_find_socket(paths.device_plugins / _KUBELET_SOCKET),
        processes=processes,
        runtimes=find_runtimes(root, processes),
        drivers=tuple(_iter_drivers(paths)),
        registered=_read_registered(device_checkpoint_path(paths)),
        obeys_environment=obeys_environment(root),
        broken_cdi=tuple(str(path) for path in _list_files(paths.cdi) if not _is_readable_cdi(path)),
    )


def _list_folders(paths: NodePaths) -> Iterator[tuple[Path, str]]:
    yield paths.state, "the kubelet's state"
    yield paths.plugins, "state and sockets of drivers"
    yield paths.plugins_registry, "registration sockets of drivers, watched by the kubelet"
    yield paths.device_plugins, "sockets of device plugins"
    yield paths.cdi, "CDI files, read by the container runtime"


def _describe_folder(path: Path, purpose: str) -> FolderFact:
    if not path.is_dir():
        return FolderFact(path=str(path), purpose=purpose, is_folder=False)
    try:
        space = os.statvfs(path)
    except OSError:
        space = None
    return FolderFact(
        path=str(path),
        purpose=purpose,
        is_folder=True,
        is_writable=os.access(path, os.W_OK | os.X_OK) and not (space and space.f_flag & os.ST_RDONLY),
        free_bytes=space.f_bavail * space.f_frsize if space else None,
        # Some file systems have no fixed number of inodes and tell 0 of 0.
        free_inodes=space.f_favail if space and space.f_files else None,
    )


# --- sockets ----------------------------------------------------------------------------------------------------------


def _list_sockets(paths: NodePaths) -> Iterator[Path]:
    yield from _find_sockets(paths.plugins_registry, "*")
    yield from (path for path in _find_sockets(paths.device_plugins, "*") if path.name != _KUBELET_SOCKET)
    yield from _find_sockets(paths.plugins, "*/*")


def _find_sockets(folder: Path, pattern: str) -> Iterator[Path]:
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_socket())
    except OSError:
        return


def _find_socket(path: Path) -> SocketFact | None:
    try:
        return _try_socket(path) if path.is_socket() else None
    except OSError:
        return None


def _try_socket(path: Path) -> SocketFact:
    """Connect and hang up at once, which says nothing to those who serve gRPC."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_S)
        try:
            client.connect(str(path))
        except PermissionError:
            return SocketFact(path=str(path), answers=None)
        except OSError:
            return SocketFact(path=str(path), answers=False)
    return SocketFact(path=str(path), answers=True)


# --- programs ---------------------------------------------------------------------------------------------------------


def _iter_processes(proc: Path) -> Iterator[ProcessFact]:
    """Yield the kubelet and the runtimes, as far as this process sees them."""
    try:
        folders = sorted((path for path in proc.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    except OSError:
        return
    for folder in folders:
        name = _read_text(folder / "comm")
        if name in _PROGRAMS:
            arguments = _read_text(folder / "cmdline").split("\0")
            yield ProcessFact(name=name, pid=int(folder.name), options=dict(_iter_options(arguments)))


def _iter_options(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yield options with values, written `--name=value` or `--name value`."""
    for index, argument in enumerate(arguments):
        if not argument.startswith("-"):
            continue
        name, separator, value = argument.lstrip("-").partition("=")
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if separator:
            yield name, value
        elif following and not following.startswith("-"):
            yield name, following


def _find_cgroup_version(folder: Path) -> int:
    """Source: mounting of cgroups in the kernel's admin guide: v2 has cgroup.controllers at its root."""
    if (folder / "cgroup.controllers").exists():
        return 2
    return 1 if any((folder / name).exists() for name in ("cpu", "cpu,cpuacct", "memory", "devices")) else 0


# --- what drivers have left -------------------------------------------------------------------------------------------


def _iter_drivers(paths: NodePaths) -> Iterator[DriverFact]:
    """Yield each driver that has a checkpoint, or one that was put aside, in its folder."""
    for folder in _list_files(paths.plugins):
        checkpoint = folder / CHECKPOINT_FILE
        set_aside = tuple(str(path) for path in sorted(folder.glob(f"{CHECKPOINT_FILE}.damaged-*")))
        if not checkpoint.exists() and not set_aside:
            continue
        state, content = _read_checkpoint(checkpoint)
        claims, grants = (content.claims.values(), content.grants.values()) if content else ((), ())
        yield DriverFact(
            name=folder.name,
            checkpoint=state,
            claims={entry.claim.uid: str(entry.claim) for entry in claims},
            grants=frozenset(grant.entry.claim.uid for grant in grants),
            boots=frozenset(entry.boot_id for entry in claims),
            set_aside=set_aside,
            cdi_claims=_read_cdi_claims(paths.cdi, folder.name),
        )


def _read_checkpoint(path: Path) -> tuple[CheckpointState, Content | None]:
    try:
        content = parse_content(path.read_bytes(), path)
    except FileNotFoundError:
        return "none", None
    except OSError:
        return "unreadable", None
    except CheckpointError:
        return "newer", None
    return ("damaged", None) if content is None else ("good", content)


def _read_cdi_claims(folder: Path, driver: str) -> Mapping[str, str]:
    prefix = cdi_kind(driver).replace("/", "-") + "_"
    found = {}
    for path in _list_files(folder):
        if path.name.startswith(prefix) and path.suffix == ".json":
            claim = find_described_claim(_read_bytes(path), driver)
            found[str(path)] = claim.claim.uid if claim is not None else ""
    return found


def _is_readable_cdi(path: Path) -> bool:
    """Tell whether a file is none of CDI, or one that runtimes can read."""
    if path.suffix not in (".json", ".yaml", ".yml") or path.name.startswith("."):
        return True
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(document, dict) and "cdiVersion" in document


def _read_registered(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the devices that device plugins have registered, as the kubelet remembers them."""
    try:
        document: Any = json.loads(_read_bytes(path))
        registered = document["Data"]["RegisteredDevices"] or {}
        return {str(name): tuple(map(str, ids or ())) for name, ids in registered.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read_text(path: Path) -> str:
    return _read_bytes(path).decode("utf-8", "replace").strip()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
