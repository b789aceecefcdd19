"""What the API server would refuse in one device or one counter set, asked before anything is published."""

from __future__ import annotations

from typing import Final

from claimsmith.api.resource_v1_slices import encode_slice
from claimsmith.api.wire.resource_slice import ResourceSliceSpec
from claimsmith.model.device import Device
from claimsmith.model.metadata import Metadata
from claimsmith.model.pool import CounterSet, ResourceSlice
from claimsmith.validate.slices import check_slice_spec

__all__ = ["find_counter_set_fault", "find_device_fault"]

_PATH: Final = "spec"


def find_device_fault(device: Device, *, per_device_nodes: bool = False) -> str | None:
    """Return what the API server would refuse in a device: the field, what was found, what is allowed, what to do.

    Args:
        device: The device.
        per_device_nodes: Whether its slice leaves the node selection to the devices.
    """
    return _find_fault(_slice_of(devices=(device,), per_device_nodes=per_device_nodes), f"{_PATH}.devices[0]")


def find_counter_set_fault(counter_set: CounterSet) -> str | None:
    """Return what the API server would refuse in a counter set."""
    return _find_fault(_slice_of(counter_sets=(counter_set,)), f"{_PATH}.sharedCounters[0]")


def _slice_of(
    *, devices: tuple[Device, ...] = (), counter_sets: tuple[CounterSet, ...] = (), per_device_nodes: bool = False
) -> ResourceSliceSpec:
    """Return the spec of a slice in which nothing but its one content can be wrong."""
    return encode_slice(
        ResourceSlice(
            metadata=Metadata(name="slice"),
            driver="driver",
            pool="pool",
            generation=1,
            slice_count=1,
            node_name=None if per_device_nodes else "node",
            per_device_node_selection=per_device_nodes,
            devices=devices,
            shared_counters=counter_sets,
        )
    ).spec


def _find_fault(spec: ResourceSliceSpec, path: str) -> str | None:
    issue = next(check_slice_spec(spec, None, _PATH), None)
    if issue is None:
        return None
    where = issue.path.removeprefix(path).removeprefix(".")
    return f"{where}: {issue.message}; correct it in the driver".removeprefix(": ")
