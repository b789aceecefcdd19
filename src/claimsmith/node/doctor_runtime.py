"""What container runtimes are configured to do with CDI files.

Source: docs/cri/config.md of containerd 2.1 and 1.7; docs/crio.conf.5.md of cri-o 1.33.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from claimsmith.node.doctor_facts import ProcessFact, RuntimeFact

__all__ = ["find_runtimes", "name_folder", "obeys_environment"]

_KNOWN: Final = (
    ("containerd", "containerd", "etc/containerd/config.toml", ""),
    ("cri-o", "crio", "etc/crio/crio.conf", "etc/crio/crio.conf.d"),
)
"""Name, program, usual file, and folder of further files."""
_PLUGINS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""The plugin that has the settings, in files of version 3 and of version 2."""
_OPTIONS: Final = ("config", "c")
_NVIDIA: Final = "etc/nvidia-container-runtime/config.toml"
_ENVIRONMENT: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"


def find_runtimes(root: Path, processes: tuple[ProcessFact, ...]) -> tuple[RuntimeFact, ...]:
    """Return how the runtimes that run here, or have a configuration file here, are configured.

    Args:
        root: The file system of the machine; `/`, or where it is mounted.
        processes: The programs that run.
    """
    found = []
    for name, program, usual, more in _KNOWN:
        running = [process for process in processes if process.name == program]
        paths = dict.fromkeys(_config_of(process, root, usual) for process in running) or {root / usual: None}
        for path in paths:
            if running or path.exists():
                found.append(_read(name, (path, *sorted((root / more).glob("*.conf"))) if more else (path,), root))
    return tuple(found)


def name_folder(path: str | Path, root: Path) -> str:
    """Return the one name of a folder, so that two of its names are found to be equal.

    Links are followed on this machine itself; seen from within a pod, /var/run stands for /run, as almost everywhere.

    Args:
        path: The folder by the machine's own name.
        root: The file system of the machine; `/`, or where it is mounted.
    """
    if root == Path("/"):
        return str(Path(path).resolve())
    text = os.path.normpath(path)
    return f"/run{text.removeprefix('/var/run')}" if text == "/var/run" or text.startswith("/var/run/") else text


def obeys_environment(root: Path) -> bool | None:
    """Return whether NVIDIA's runtime obeys NVIDIA_VISIBLE_DEVICES of any image; None when it is not configured here.

    Source: config.toml of nvidia-container-toolkit v1.20, in which that is the default.
    """
    try:
        document = tomllib.loads((root / _NVIDIA).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    runtime = document.get("nvidia-container-runtime")
    is_by_cdi = isinstance(runtime, dict) and runtime.get("mode") == "cdi"
    return document.get(_ENVIRONMENT, True) is True and not is_by_cdi


def _config_of(process: ProcessFact, root: Path, usual: str) -> Path:
    """Return the file that a process was told to read, or the usual one."""
    named = next((process.options[name] for name in _OPTIONS if name in process.options), "")
    return root / (named.lstrip("/") if named else usual)


def _read(name: str, paths: tuple[Path, ...], root: Path) -> RuntimeFact:
    """Return what the files say; later ones win, as in the runtimes."""
    is_on: bool | None = None
    default = ""
    folders: tuple[str, ...] = ()
    is_there = False
    for path in paths:
        if not path.exists():
            continue
        is_there = True
        try:
            sections = list(_iter_sections(path, root))
        except (OSError, ValueError) as error:
            trouble = f"{path}: {error}"
            return RuntimeFact(name=name, config=str(paths[0]), is_there=True, trouble=trouble)
        for section in sections:
            is_on = section.get("enable_cdi", is_on)
            containerd = section.get("containerd")
            chosen = containerd.get("default_runtime_name") if isinstance(containerd, dict) else None
            default = str(chosen or section.get("default_runtime") or default)
            listed = section.get("cdi_spec_dirs")
            folders = tuple(map(str, listed)) if isinstance(listed, list) else folders
    resolved = tuple(name_folder(folder, root) for folder in folders)
    return RuntimeFact(
        name=name, config=str(paths[0]), is_there=is_there, is_cdi_on=None if is_on is None else is_on is True,
        cdi_folders=resolved, default_runtime=default,
    )  # fmt: skip


def _iter_sections(path: Path, root: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a file, and of those that it imports, that may speak of CDI."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    plugins = document.get("plugins")
    if isinstance(plugins, dict):
        yield from (plugins[name] for name in _PLUGINS if isinstance(plugins.get(name), dict))
    runtime = (document.get("crio") or {}).get("runtime") if isinstance(document.get("crio"), dict) else None
    if isinstance(runtime, dict):
        yield runtime
    for pattern in document.get("imports") or ():
        folder = root / str(pattern).lstrip("/") if str(pattern).startswith("/") else path.parent / str(pattern)
        for imported in sorted(folder.parent.glob(folder.name)):
            if imported != path:
                yield from _iter_sections(imported, root)
