"""How much of each capacity one allocation takes. Source: KEP-5075; consumable_capacity.go, v0.37.2."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from claimsmith.model.device import Capacity, CapacityRange, Device
from claimsmith.model.quantity import Quantity

__all__ = ["exact", "find_consumption"]

_MILLI = Fraction(1, 1000)


def exact(amount: Quantity) -> Fraction:
    """Return the number that a quantity stands for."""
    return Fraction(amount.nanos, 10**9)


def find_consumption(device: Device, asked: Mapping[str, Quantity], *, fractional: bool) -> dict[str, Fraction] | str:
    """Return what an allocation takes of each capacity, or the reason why it may not.

    Args:
        asked: Amounts by capacity name, literally as the device names them.
        fractional: Whether the gate FractionalCapacityRange is on.
    """
    if missing := [name for name in asked if name not in device.capacity]:
        return f"capacity {missing[0]} is asked for, the device has none of that name"
    taken: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        amount = _amount(capacity, asked.get(name), fractional)
        if isinstance(amount, str):
            return f"capacity {name}: {amount}"
        if amount < 0:
            return f"capacity {name}: {float(amount)} is negative"
        taken[name] = amount
    return taken


def _amount(capacity: Capacity, asked: Quantity | None, fractional: bool) -> Fraction | str:
    policy = capacity.policy
    default = policy.default if policy else None
    if asked is None:
        return exact(capacity.value if default is None else default)
    if policy is None or (policy.valid_range is None and not policy.valid_values):
        return exact(asked)
    if policy.valid_range is not None:
        amount = _round_up(exact(asked), policy.valid_range, fractional)
        high = policy.valid_range.maximum
        problem = "" if high is None or amount <= exact(high) else f"{float(amount)} is above the maximum {high}"
    else:
        larger = [value for value in map(exact, policy.valid_values) if value >= exact(asked)]
        amount = min(larger, default=exact(asked))
        problem = "" if larger else f"{asked} is above the largest valid value"
    is_default = default is not None and amount == exact(default)
    return problem if problem and not is_default else amount


def _round_up(asked: Fraction, allowed: CapacityRange, fractional: bool) -> Fraction:
    low = exact(allowed.minimum)
    high = None if allowed.maximum is None else exact(allowed.maximum)
    amount = max(asked, low)
    if allowed.step is not None and asked >= low:
        step = exact(allowed.step)
        unit = _unit(low, high, step, fractional)
        low_units, step_units, asked_units = _up(low, unit), _up(step, unit), _up(asked, unit)
        amount = (low_units + -((low_units - asked_units) // step_units) * step_units) * unit
    return amount


def _unit(low: Fraction, high: Fraction | None, step: Fraction, fractional: bool) -> Fraction:
    """Return the unit in which steps are counted: 1/1000 where everything fits into it, else whole numbers."""
    fits = all(value is None or (value / _MILLI).denominator == 1 for value in (low, high, step))
    return _MILLI if fractional and fits and step >= _MILLI else Fraction(1)


def _up(value: Fraction, unit: Fraction) -> int:
    return -((-value) // unit)
