"""The cgroups of a cluster's pods: a tree of its own in every hierarchy, so that clusters leave each other alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["find_cgroups", "list_processes", "make_cgroup", "remove_cgroup"]

_ROOT: Final = Path("/sys/fs/cgroup")


def make_cgroup(name: str) -> None:
    """Make a cgroup at the root of every hierarchy; the kubelet wants to find it."""
    for hierarchy in _hierarchies():
        folder = hierarchy / name
        folder.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset" and not (hierarchy / "cgroup.controllers").exists():
            # A cpuset without processors takes no process. Source: cpuset(7).
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((hierarchy / file).read_text())


def remove_cgroup(name: str) -> None:
    """Remove a cgroup and those below it from every hierarchy.

    Raises:
        OSError: A process is still in one of them; cgroup.procs tells which.
    """
    for folder in find_cgroups(name):
        for path, _, _ in os.walk(folder, topdown=False):
            Path(path).rmdir()


def find_cgroups(name: str) -> list[Path]:
    """Return the folders of a cgroup, of the hierarchies that have it."""
    return [folder for hierarchy in _hierarchies() if (folder := hierarchy / name).exists()]


def list_processes(name: str) -> list[int]:
    """Return the processes of a cgroup and of those below it; those of pods come and go meanwhile."""
    folders = (Path(found) for folder in find_cgroups(name) for found, _, _ in os.walk(folder))
    return [int(line) for folder in folders for line in _read_procs(folder).split()]


def _read_procs(folder: Path) -> str:
    try:
        return (folder / "cgroup.procs").read_text()
    except OSError:
        return ""


def _hierarchies() -> list[Path]:
    """Return the mounted hierarchies: one of version 2, or several of version 1."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in sorted(_ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]
