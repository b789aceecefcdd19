"""Constraints between the devices of one claim: one value for all, or no value twice.

Source: matchAttributeConstraint and distinctAttributeConstraint in structured/internal/experimental,
k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from claimsmith.model.device import DeviceAttribute

__all__ = ["AttributeValue", "ConstraintState", "Distinct", "Match", "read_value"]

_ELEMENT_KINDS: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}
_SCALARS: Final = frozenset({"int", "bool", "string", "version"})


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """An attribute value made comparable.

    Args:
        kind: int, bool, string or version; empty when the value can't be compared.
        values: One value, or the elements of a list.
    """

    kind: str
    values: frozenset[object]


_INCOMPARABLE: Final = AttributeValue("", frozenset())


def read_value(attribute: DeviceAttribute | None, *, lists: bool) -> AttributeValue | None:
    """Return the value of an attribute for constraints; None when no device with it satisfies any constraint.

    Args:
        lists: The gate ListTypeAttributes. When it is off, lists can't be compared, yet the first device of a set
            may have one.
    """
    if attribute is None:
        return None
    if attribute.kind in _SCALARS:
        return AttributeValue(attribute.kind, frozenset((attribute.value,)))
    if not lists:
        return _INCOMPARABLE
    if isinstance(attribute.value, tuple) and attribute.value:
        return AttributeValue(_ELEMENT_KINDS[attribute.kind], frozenset(attribute.value))
    return None


class Match:
    """All devices must have a value in common."""

    __slots__ = ("_stack",)

    def __init__(self) -> None:
        self._stack: list[AttributeValue] = []

    def push(self, value: AttributeValue) -> bool:
        """Add a device's value; False, and nothing added, when it doesn't agree with the earlier ones."""
        if not self._stack:
            self._stack.append(value)
            return True
        current = self._stack[-1]
        if not value.kind or value.kind != current.kind:
            return False
        common = current.values & value.values
        if not common:
            return False
        self._stack.append(current if len(common) == len(current.values) else AttributeValue(value.kind, common))
        return True

    def accepts(self, value: AttributeValue) -> bool:
        """Tell whether a device with the value could be added now."""
        if not self._stack:
            return True
        current = self._stack[-1]
        return bool(value.kind) and value.kind == current.kind and not current.values.isdisjoint(value.values)

    def pop(self) -> None:
        """Take back the last value that was added."""
        self._stack.pop()

    def key(self) -> object:
        """Return what decides which further values are accepted."""
        return self._stack[-1] if self._stack else None


class Distinct:
    """No two devices may have a value in common."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[AttributeValue] = []

    def push(self, value: AttributeValue) -> bool:
        """Add a device's value; False, and nothing added, when an earlier device has it."""
        if not self.accepts(value):
            return False
        self._values.append(value)
        return True

    def accepts(self, value: AttributeValue) -> bool:
        """Tell whether a device with the value could be added now."""
        if self._values and not value.kind:
            return False
        return not any(earlier.kind == value.kind and earlier.values & value.values for earlier in self._values)

    def pop(self) -> None:
        """Take back the last value that was added."""
        self._values.pop()

    def key(self) -> object:
        """Return what decides which further values are accepted."""
        return frozenset(self._values)


ConstraintState = Match | Distinct
