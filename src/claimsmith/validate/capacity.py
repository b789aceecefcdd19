"""Rules of capacities: what a request policy may say.

Source: validateRequestPolicy and below in k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go, with
the gates of a stock 1.37 server: fractional ranges are off, so steps count in whole units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from claimsmith.api.metadata import read_quantity
from claimsmith.api.wire.resource_slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from claimsmith.model.quantity import Quantity
from claimsmith.validate.issues import FieldIssue, find_duplicates, forbidden, invalid, required, too_many

__all__ = ["check_capacity"]

_VALID_VALUES_MAX: Final = 10
_INT64_MAX: Final = Quantity.from_int(2**63 - 1)


def check_capacity(capacity: DeviceCapacity, path: str, *, shareable: bool) -> Iterator[FieldIssue]:
    """Yield what is wrong with one capacity.

    Args:
        capacity: The capacity; its quantities can be read.
        path: Field path of the capacity.
        shareable: Whether its device allows multiple allocations.
    """
    policy = capacity.request_policy
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    if not shareable:
        yield forbidden(path, "allowMultipleAllocations must be true")
    elif policy.valid_values and policy.valid_range is not None:
        why = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield forbidden(path, why)
    else:
        yield from _check_policy(policy, read_quantity(capacity.value), path)


def _check_policy(policy: CapacityRequestPolicy, whole: Quantity, path: str) -> Iterator[FieldIssue]:
    name = "validValues" if policy.valid_values else "validRange" if policy.valid_range is not None else ""
    if not name:
        return
    if policy.default is None:
        yield required(f"{path}.default", f"required when {name} is defined")
        return
    default = read_quantity(policy.default)
    if policy.valid_values:
        values = [read_quantity(value) for value in policy.valid_values]
        yield from _check_values(values, default, whole, f"{path}.validValues")
    elif policy.valid_range is not None:
        yield from _check_range(policy.valid_range, default, whole, f"{path}.validRange")


def _check_values(values: list[Quantity], default: Quantity, whole: Quantity, path: str) -> Iterator[FieldIssue]:
    for i, (before, after) in enumerate(pairwise(values)):
        if before > after:
            yield invalid(f"{path}[{i + 1}]", str(after), "values must be sorted in ascending order")
    if len(values) > _VALID_VALUES_MAX:
        yield too_many(path, len(values), _VALID_VALUES_MAX)
    else:
        for i, value in enumerate(values):
            if value > whole:
                yield invalid(f"{path}[{i}]", str(value), f"option is larger than capacity value: {whole}")
        yield from find_duplicates((str(value.value()) for value in values), path)
    if default not in values or len(values) > _VALID_VALUES_MAX:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _check_range(
    allowed: CapacityRequestPolicyRange, default: Quantity, whole: Quantity, path: str
) -> Iterator[FieldIssue]:
    if allowed.min is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    low = read_quantity(allowed.min)
    high = None if allowed.max is None else read_quantity(allowed.max)
    if low > whole:
        yield invalid(f"{path}.min", str(low), f"min is larger than capacity value: {whole}")
    if default < low:
        yield invalid(f"{path}.default", str(default), f"default is less than min: {low}")
    if high is not None:
        if low > high:
            yield invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > whole:
            yield invalid(f"{path}.max", str(high), f"max is larger than capacity value: {whole}")
        if default > high:
            yield invalid(f"{path}.default", str(default), f"default is more than max: {high}")
    if allowed.step is not None:
        bounds = {"default": default, "min": low, "max": high, "step": read_quantity(allowed.step)}
        yield from _check_step({name: bound for name, bound in bounds.items() if bound is not None}, whole, path)


def _check_step(bounds: dict[str, Quantity], whole: Quantity, path: str) -> Iterator[FieldIssue]:
    """Check that default and max lie on a step, counted from min in whole units."""
    low, step = bounds["min"], bounds["step"]
    if step.sign <= 0:
        yield invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if low + step > whole:
        yield invalid(f"{path}.step", str(step), f"one step {low + step} is larger than capacity value: {whole}")
    unsafe = False
    for name, bound in bounds.items():
        if bound.sign < 0:
            yield invalid(f"{path}.{name}", str(bound), "must be greater than or equal to 0")
        elif bound > _INT64_MAX:
            yield invalid(f"{path}.{name}", str(bound), "must not be larger than 9223372036854775807")
        unsafe = unsafe or bound.sign < 0 or bound > _INT64_MAX
    if unsafe:
        return
    for end in (bounds["default"], bounds.get("max")):
        if end is not None and (end.value() - low.value()) % step.value():
            yield invalid(f"{path}.step", str(end), f"value is not a multiple of a given step ({step}) from ({low})")
