"""Consumable capacity: what a request takes from each capacity of a device.

Source: consumable_capacity.go in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2;
KEP-5075.

Deviates: panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from claimsmith.model.device import Capacity, CapacityRange, CapacityRequestPolicy, Device
from claimsmith.model.quantity import Quantity

__all__ = ["CapacityPlan", "plan_capacity"]

_INT64_MAX: Final = 2**63 - 1
_MILLI: Final = 10**6

PlanKind = Literal["fits", "missing", "policy", "too-big", "fatal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """What a request would take from a device that nobody uses.

    Args:
        kind: fits; missing (a requested capacity is not there); policy (an amount is not allowed); too-big (more than
            the device has); fatal (an amount can't be computed, which aborts the allocation).
        amounts: Consumption by capacity name.
        nanos: The same in nano units, with the device's total: (name, amount, total).
        text: What is wrong, for people; empty when it fits.
    """

    kind: PlanKind
    amounts: Mapping[str, Quantity] = field(default_factory=dict)
    nanos: tuple[tuple[str, int, int], ...] = ()
    text: str = ""


def plan_capacity(device: Device, requested: Mapping[str, Quantity] | None, *, fractional: bool) -> CapacityPlan:
    """Return what a request takes from each capacity of the device.

    Args:
        requested: Amounts asked for by capacity name; capacities that are not named take their default or all.
        fractional: The gate FractionalCapacityRange: ranges are computed in thousandths where possible.
    """
    for name in requested or ():
        if name not in device.capacity:
            return CapacityPlan(kind="missing", text=f"capacity {name} is not there")
    amounts: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        amount = _find_amount((requested or {}).get(name), capacity, fractional)
        if isinstance(amount, str):
            return CapacityPlan(kind="fatal", text=f"capacity {name}: {amount}")
        if amount.nanos < 0:
            return CapacityPlan(kind="fatal", text=f"capacity {name}: {amount} is negative")
        amounts[name] = amount
    nanos = tuple((name, amounts[name].nanos, capacity.value.nanos) for name, capacity in device.capacity.items())
    for name, capacity in device.capacity.items():
        if capacity.policy is not None and _violates(amounts[name], capacity.policy, fractional):
            text = f"{amounts[name]} of {name} is not an allowed amount"
            return CapacityPlan(kind="policy", amounts=amounts, nanos=nanos, text=text)
    for name, capacity in device.capacity.items():
        if amounts[name].nanos > capacity.value.nanos:
            text = f"{capacity.value} of {name}, {amounts[name]} needed"
            return CapacityPlan(kind="too-big", amounts=amounts, nanos=nanos, text=text)
    return CapacityPlan(kind="fits", amounts=amounts, nanos=nanos)


def _find_amount(requested: Quantity | None, capacity: Capacity, fractional: bool) -> Quantity | str:
    """The amount that one allocation takes; a text says why it can't be computed."""
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.valid_range is not None:
        return _round_up(requested, policy.valid_range, fractional)
    return next((value for value in policy.valid_values if requested <= value), requested)


def _round_up(requested: Quantity, allowed: CapacityRange, fractional: bool) -> Quantity | str:
    """The smallest amount of the range that covers the request; the maximum is checked elsewhere."""
    if requested < allowed.minimum:
        return allowed.minimum
    if allowed.step is None:
        return requested
    if allowed.step.nanos <= 0:
        return f"step {allowed.step} is not positive"
    if _counts_in_milli(allowed, fractional):
        if not _is_milli(requested):
            return f"{requested} is no multiple of 1m"
        milli = _next_step(requested.milli_value(), allowed.minimum.milli_value(), allowed.step.milli_value())
        if milli > _INT64_MAX:
            return f"{requested} rounded up to the next step is beyond 64 bits in thousandths"
        return Quantity(nanos=milli * _MILLI, format=allowed.step.format, exponent=0 if milli % 1000 == 0 else -3)
    if requested.nanos > _INT64_MAX * 10**9:
        return f"{requested} is beyond 64 bits"
    value = _next_step(requested.value(), allowed.minimum.value(), allowed.step.value())
    if value > _INT64_MAX:
        return f"{requested} rounded up to the next step is beyond 64 bits"
    return Quantity.from_int(value, format=allowed.step.format)


def _next_step(amount: int, minimum: int, step: int) -> int:
    return minimum + -(-(amount - minimum) // step) * step


def _counts_in_milli(allowed: CapacityRange, fractional: bool) -> bool:
    """Whether a range is computed in thousandths: its numbers must all be multiples of 1m."""
    if not fractional:
        return False
    numbers = (allowed.minimum, allowed.maximum, allowed.step)
    if not all(number is None or _is_milli(number) for number in numbers):
        return False
    return allowed.step is None or allowed.step.nanos >= _MILLI


def _is_milli(amount: Quantity) -> bool:
    return amount.nanos % _MILLI == 0 and abs(amount.nanos) <= _INT64_MAX * _MILLI


def _violates(amount: Quantity, policy: CapacityRequestPolicy, fractional: bool) -> bool:
    if policy.default is not None and _is_stored_alike(amount, policy.default):
        return False
    if policy.valid_range is not None:
        return _leaves_range(amount, policy.valid_range, fractional)
    return bool(policy.valid_values) and amount not in policy.valid_values


def _is_stored_alike(one: Quantity, two: Quantity) -> bool:
    """Tell whether upstream finds two amounts equal that it compares as stored: decimals of any size never are."""
    if one.is_wide or two.is_wide:
        return False
    return (one.nanos, one.exponent, one.format) == (two.nanos, two.exponent, two.format)


def _leaves_range(amount: Quantity, allowed: CapacityRange, fractional: bool) -> bool:
    if allowed.maximum is not None and amount > allowed.maximum:
        return True
    if allowed.step is None:
        return False
    if _counts_in_milli(allowed, fractional):
        if not _is_milli(amount):
            return True
        return (amount.milli_value() - allowed.minimum.milli_value()) % allowed.step.milli_value() != 0
    step = allowed.step.value()
    return step == 0 or (amount.value() - allowed.minimum.value()) % step != 0
