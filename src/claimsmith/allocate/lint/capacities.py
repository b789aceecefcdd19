"""What is wrong with the amounts of capacity that a request asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from claimsmith.allocate.explain.nearest_names import find_nearest_name
from claimsmith.allocate.lint.published import PublishedDevice
from claimsmith.allocate.lint.values import Fault
from claimsmith.allocate.prepared.capacity import plan_capacity
from claimsmith.model.device import Capacity, Device
from claimsmith.model.quantity import Quantity

__all__ = ["lint_capacities"]


def lint_capacities(
    requested: Mapping[str, Quantity], devices: Sequence[PublishedDevice], *, path: str
) -> Iterator[Fault]:
    """Yield why no device gives the amounts that a request asks for, whoever uses it.

    Args:
        requested: Amounts by capacity name.
        devices: Those that the request's selectors accept; at least one.
        path: Path of the amounts within the object.
    """
    found = False
    for name, amount in requested.items():
        fault = _find_fault(name, amount, [item.device for item in devices], path=f"{path}[{name}]")
        if fault is not None:
            found = True
            yield fault
    if requested and not found and not any(_fits(item.device, requested) for item in devices):
        text = "each amount can be had, and no device that matches gives all of them"
        yield Fault(rule="capacity-amount", severity="error", path=path, text=text)


def _find_fault(name: str, amount: Quantity, devices: Sequence[Device], *, path: str) -> Fault | None:
    having = [replace(item, capacity={name: item.capacity[name]}) for item in devices if name in item.capacity]
    if not having:
        near = find_nearest_name(name, {known for item in devices for known in item.capacity})
        hint = f"; did you mean {near}?" if near else ""
        return Fault(
            rule="unknown-capacity",
            severity="error",
            path=path,
            text=f"none of the {len(devices)} devices that match has the capacity {name}{hint}",
            corrected=f"{near}: {amount}" if near else "",
        )
    if any(_fits(item, {name: amount}) for item in having):
        return None
    offered = {size for item in having for size in _list_sizes(item.capacity[name]) if _fits(item, {name: size})}
    most = max(offered, default=None)
    rest = f"more than {most}" if most is not None else "any"
    return Fault(
        rule="capacity-amount",
        severity="error",
        path=path,
        text=f"asks for {amount} of {name}, and no device that matches gives {rest}",
        corrected=str(most) if most is not None else "",
    )


def _fits(device: Device, requested: Mapping[str, Quantity]) -> bool:
    return plan_capacity(device, requested, fractional=False).kind == "fits"


def _list_sizes(capacity: Capacity) -> Iterator[Quantity]:
    """Yield the amounts that may be the largest that a device gives."""
    yield capacity.value
    policy = capacity.policy
    if policy is None:
        return
    yield from policy.valid_values
    if policy.default is not None:
        yield policy.default
    if policy.valid_range is not None:
        yield policy.valid_range.minimum
        if policy.valid_range.maximum is not None:
            yield policy.valid_range.maximum
