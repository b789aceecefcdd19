"""The file in which a kubelet keeps which containers have which devices, in the form of a real one.

The checksum is FNV-1a over the text in which the Go package `spew` prints the values, with the names of upstream's
types; a file of a real kubelet is read here, and one of ours there.

Source: pkg/kubelet/cm/devicemanager/checkpoint, pkg/util/hash and checkpointmanager/checksum of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from claimsmith.errors import CheckpointError

__all__ = ["CHECKPOINT_FILE", "Entry", "Snapshot", "checksum", "decode_checkpoint", "encode_checkpoint"]

CHECKPOINT_FILE: Final = "kubelet_internal_checkpoint"
"""Name of the file in the folder of the device plugins."""

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_Value = TypeVar("_Value")


class Entry(msgspec.Struct, frozen=True, rename="pascal"):
    """The devices of one resource that one container has.

    Args:
        device_ids: Device ids by NUMA node; -1 for those without one.
        alloc_resp: The plugin's answer, `ContainerAllocateResponse` as it went over the wire.
    """

    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[int, tuple[str, ...] | None] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: bytes | None


class Snapshot(msgspec.Struct, frozen=True, rename="pascal"):
    """What the file tells.

    Args:
        pod_device_entries: Who has which devices.
        registered_devices: Ids of healthy devices by resource.
    """

    pod_device_entries: tuple[Entry, ...] | None = None
    registered_devices: dict[str, tuple[str, ...] | None] | None = None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: Snapshot
    checksum: int


def encode_checkpoint(snapshot: Snapshot) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(_File(data=snapshot, checksum=checksum(snapshot)))


def decode_checkpoint(content: bytes, path: object) -> Snapshot:
    """Return what a file tells.

    Args:
        path: The file, for errors.

    Raises:
        CheckpointError: It is no checkpoint, or its checksum is wrong.
    """
    hint = "remove it when no container of the node uses a device"
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(path, f"can't be read: {error}", hint=hint) from error
    if (actual := checksum(file.data)) != file.checksum:
        raise CheckpointError(path, f"found checksum {file.checksum}, allowed {actual}", hint=hint)
    return file.data


def checksum(snapshot: Snapshot) -> int:
    """Return the checksum of what a file tells, as upstream counts it."""
    found = _OFFSET
    for byte in _print(snapshot).encode():
        found = (found ^ byte) * _PRIME & _MASK
    return found


def _print(snapshot: Snapshot) -> str:
    """Return what `spew` prints for the data: `%#v` with sorted keys, without addresses and capacities."""
    entries = _print_list(snapshot.pod_device_entries, _print_entry)
    registered = snapshot.registered_devices
    devices = _print_map(None if registered is None else sorted(registered.items()))
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
        f"RegisteredDevices:(map[string][]string){devices}}}"
    )


def _print_entry(entry: Entry) -> str:
    ids = entry.device_ids
    devices = _print_map(None if ids is None else sorted(ids.items()))
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name} "
        f"ResourceName:(string){entry.resource_name} DeviceIDs:(checkpoint.DevicesPerNUMA){devices} "
        f"AllocResp:([]uint8){_print_list(entry.alloc_resp, str)}}}"
    )


def _print_list(values: Iterable[_Value] | None, show: Callable[[_Value], str]) -> str:
    return "<nil>" if values is None else f"[{' '.join(map(show, values))}]"


def _print_map(items: Sequence[tuple[object, Sequence[str] | None]] | None) -> str:
    if items is None:
        return "<nil>"
    return f"map[{' '.join(f'{key}:{_print_list(values, str)}' for key, values in items)}]"
