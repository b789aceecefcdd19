"""Ranges of sizes and costs, saturating at 64 bits, and what is known about the size of a device's parts.

Source: checker/cost.go in cel-go v0.29.2; sizeEstimator in cel/compile.go of k8s.io/dynamic-resource-allocation
v0.37.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

UINT64_MAX: Final = 2**64 - 1
_FLOAT_MAX: Final = float(UINT64_MAX)


def add(left: int, right: int) -> int:
    """Return the sum, at most 2^64 - 1."""
    return min(left + right, UINT64_MAX)


def multiply(left: int, right: int) -> int:
    """Return the product, at most 2^64 - 1."""
    return min(left * right, UINT64_MAX)


def scale(number: int, factor: float) -> int:
    """Return a number times a factor, rounded up, at most 2^64 - 1."""
    as_float = float(number)
    if as_float > 0 and factor > 0 and as_float > _FLOAT_MAX / factor:
        return UINT64_MAX
    scaled = math.ceil(as_float * factor)
    return UINT64_MAX if scaled >= 2**64 else scaled


class Range(NamedTuple):
    """The least and the largest size or cost that is possible."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        """Return the sum of two ranges."""
        return Range(add(self.min, other.min), add(self.max, other.max))

    def times(self, other: Range) -> Range:
        """Return the product of two ranges."""
        return Range(multiply(self.min, other.min), multiply(self.max, other.max))

    def scaled(self, factor: float) -> Range:
        """Return the range times a factor, rounded up."""
        return Range(scale(self.min, factor), scale(self.max, factor))

    def union(self, other: Range) -> Range:
        """Return the range that covers both."""
        return Range(min(self.min, other.min), max(self.max, other.max))


def fixed(number: int) -> Range:
    """Return the range of one number."""
    return Range(number, number)


ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, UINT64_MAX)
"""The size of what nothing is known about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizedType:
    """A part of a device with the largest size that the API allows it."""

    max_elements: int = 0
    key: SizedType | None = None
    element: SizedType | None = None
    fields: Mapping[str, SizedType] = field(default_factory=dict)
    is_attribute: bool = False


_MAX_ATTRIBUTES: Final = 32
_ID: Final = SizedType(max_elements=32)
_DOMAIN: Final = SizedType(max_elements=63)
_ATTRIBUTE: Final = SizedType(max_elements=64, is_attribute=True)
_QUANTITY: Final = SizedType()


def _domain_map(value: SizedType) -> SizedType:
    inner = SizedType(max_elements=_MAX_ATTRIBUTES, key=_ID, element=value)
    return SizedType(max_elements=_MAX_ATTRIBUTES, key=_DOMAIN, element=inner)


DEVICE_SIZES: Final = SizedType(
    fields={
        "driver": SizedType(max_elements=63),
        "allowMultipleAllocations": SizedType(max_elements=1),
        "attributes": _domain_map(_ATTRIBUTE),
        "capacity": _domain_map(_QUANTITY),
    }
)
"""The variable `device`. Source: limits of resource.k8s.io/v1 (types.go) in Kubernetes 1.37."""


def find_size(path: tuple[str, ...]) -> Range | None:
    """Return the size of what a path from `device` leads to; None when it is not known.

    Args:
        path: Names of fields, @values, @items and @keys, from the variable on.
    """
    if not path or path[0] != "device":
        return None
    node: SizedType | None = DEVICE_SIZES
    for name in path[1:]:
        if node is None:
            return None
        if name in ("@items", "@values"):
            node = node.element
        elif name == "@keys":
            node = node.key
        elif name in node.fields:
            node = node.fields[name]
        else:
            node = node.element if node.element is not None and node.element.is_attribute else None
    return None if node is None else Range(0, node.max_elements)
