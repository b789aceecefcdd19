"""The container runtime's side of the CDI: reads the files of a folder and adds up the edits for some ids.

Source: Container Device Interface specification; pkg/cdi InjectDevices, as containerd and CRI-O use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.errors import PodStartError

__all__ = ["CdiRegistry", "DeviceNode", "Hook", "MergedEdits", "Mount"]


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    """A device file that a CDI file adds."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    permissions: str = ""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A mount that a CDI file adds."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(msgspec.Struct, frozen=True, rename="camel"):
    """A hook that a CDI file adds."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class _Edits(msgspec.Struct, frozen=True, rename="camel"):
    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.env or self.device_nodes or self.mounts or self.hooks)


class _Device(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    container_edits: _Edits


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    cdi_version: str
    kind: str
    devices: tuple[_Device, ...]
    container_edits: _Edits = _Edits()


@dataclass(slots=True, kw_only=True)
class MergedEdits:
    """What a container gets from all its CDI devices together."""

    env: dict[str, str] = field(default_factory=dict)
    device_nodes: list[DeviceNode] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)

    def add(self, edits: _Edits) -> None:
        """Add edits; a later variable of a name replaces an earlier one."""
        self.env.update(_split(variable) for variable in edits.env)
        self.device_nodes.extend(edits.device_nodes)
        self.mounts.extend(edits.mounts)
        self.hooks.extend(edits.hooks)


_VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


class CdiRegistry:
    """The CDI files of one folder, read anew for each container; a damaged file hides nothing but itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, ids: Sequence[str]) -> MergedEdits:
        """Return the edits of some devices: those of each file once, before those of its first device.

        Args:
            ids: Fully qualified names `vendor/class=device`.

        Raises:
            PodStartError: No file, or more than one, defines one of them.
        """
        specs = list(self._read())
        merged, seen = MergedEdits(), set[int]()
        missing = []
        for name in dict.fromkeys(ids):
            found = _find(specs, name)
            if found is None:
                missing.append(name)
                continue
            spec, device = found
            if id(spec) not in seen:
                seen.add(id(spec))
                merged.add(spec.container_edits)
            merged.add(device.container_edits)
        if missing:
            raise PodStartError(
                f"failed to inject CDI devices: unresolvable CDI devices {', '.join(missing)}",
                reason="Failed",
                waiting="CreateContainerError",
            )
        return merged

    def _read(self) -> Iterable[_Spec]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                spec = msgspec.json.decode(path.read_bytes(), type=_Spec)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                continue
            if spec.cdi_version in _VERSIONS and all(not device.container_edits.empty for device in spec.devices):
                yield spec


def _find(specs: Sequence[_Spec], name: str) -> tuple[_Spec, _Device] | None:
    kind, _, device_name = name.partition("=")
    found = [
        (spec, device) for spec in specs if spec.kind == kind for device in spec.devices if device.name == device_name
    ]
    if len(found) > 1:
        message = f"failed to inject CDI devices: conflicting CDI device {name}"
        raise PodStartError(message, reason="Failed", waiting="CreateContainerError")
    return found[0] if found else None


def _split(variable: str) -> tuple[str, str]:
    name, _, value = variable.partition("=")
    return name, value
