"""Variables with chains of fields and indexes, as steps of the interpreter.

A chain such as `device.attributes["d"].x` is one attribute with three qualifiers; each qualifier that is applied costs
one unit, and so does the attribute as a whole.

Source: interpreter/attributes.go in cel-go v0.29.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from claimsmith.cel.frames import Failure, Frame, Step
from claimsmith.cel.values import NONE, Optional, Uint, Value, find_entry, format_value

_INDEX_TYPES: Final = frozenset({int, Uint, float})
QUALIFIER_TYPES: Final = frozenset({str, int, Uint, bool, float})
"""Types of keys and indexes; any other fails before it is looked up."""


def select(target: Value, key: Value, *, is_test: bool) -> tuple[Value, bool]:
    """Return what stands at a key or index of a value, and whether it is there.

    Args:
        is_test: True to give (None, False) for what is absent, instead of a failure and True.

    Source: refQualify in attributes.go.
    """
    if isinstance(target, dict):
        found, present = find_entry(target, key)
        if present:
            return found, True
        return (None, False) if is_test else (Failure(f"no such key: {format_value(key)}"), True)
    if isinstance(target, (list, tuple)):
        return _select_item(target, key, is_test=is_test)
    return (None, False) if is_test else (Failure(f"no such key: {format_value(key)}"), True)


def _select_item(target: Value, key: Value, *, is_test: bool) -> tuple[Value, bool]:
    if type(key) not in _INDEX_TYPES or int(key) != key:
        return Failure(f"unsupported index {format_value(key)} in list"), True
    index = int(key)
    if 0 <= index < len(target):
        return target[index], True
    return (None, False) if is_test else (Failure(f"index out of bounds: {index}"), True)


class Qualifier(Protocol):
    """A field or an index of an attribute."""

    @property
    def id(self) -> int:
        """Identity of the node that applies it."""
        ...

    @property
    def is_optional(self) -> bool:
        """True for `.?field` and `[?index]`."""
        ...

    def apply(self, frame: Frame, target: Value) -> Value:
        """Return the value at the qualifier; a failure when it is absent."""
        ...

    def apply_if_present(self, frame: Frame, target: Value) -> tuple[Value, bool]:
        """Return the value and True; anything and False when it is absent."""
        ...


@dataclass(slots=True, kw_only=True)
class ConstantQualifier:
    """A field, or an index that is a constant; `test_only` for the last one of has()."""

    id: int
    key: Value
    is_optional: bool = False
    test_only: bool = False

    def apply(self, frame: Frame, target: Value) -> Value:
        """See Qualifier."""
        if self.test_only:
            value, present = select(target, self.key, is_test=True)
            value = value if isinstance(value, Failure) else present
        else:
            value, _ = select(target, self.key, is_test=False)
        frame.meter.cost += 1
        frame.meter.push(self.id, value)
        return value

    def apply_if_present(self, frame: Frame, target: Value) -> tuple[Value, bool]:
        """See Qualifier."""
        value, present = select(target, self.key, is_test=True)
        if present and not isinstance(value, Failure):
            frame.meter.cost += 1
            frame.meter.push(self.id, value)
        return value, present


@dataclass(slots=True, kw_only=True)
class ComputedQualifier:
    """An index that is computed; `drops` for one that is no plain variable, which upstream counts as an attribute."""

    id: int
    attribute: Attribute
    is_optional: bool = False
    drops: bool = False

    def _key(self, frame: Frame) -> Value:
        key = self.attribute.resolve(frame)
        if isinstance(key, Failure) or type(key) in QUALIFIER_TYPES:
            return key
        return Failure(f"invalid qualifier type: {format_value(key)}")

    def _observe(self, frame: Frame, value: Value) -> None:
        if self.drops:
            frame.meter.drop(self.id)
        frame.meter.cost += 1
        frame.meter.push(self.id, value)

    def apply(self, frame: Frame, target: Value) -> Value:
        """See Qualifier."""
        key = self._key(frame)
        value = key if isinstance(key, Failure) else select(target, key, is_test=False)[0]
        self._observe(frame, value)
        return value

    def apply_if_present(self, frame: Frame, target: Value) -> tuple[Value, bool]:
        """See Qualifier."""
        key = self._key(frame)
        if isinstance(key, Failure):
            return key, True
        value, present = select(target, key, is_test=True)
        if present and not isinstance(value, Failure):
            self._observe(frame, value)
        return value, present


class Attribute(Protocol):
    """A value with qualifiers behind it."""

    @property
    def id(self) -> int:
        """Identity of the node of the last qualifier."""
        ...

    def add(self, qualifier: Qualifier) -> None:
        """Append a qualifier."""
        ...

    def resolve(self, frame: Frame) -> Value:
        """Return the value behind the last qualifier, or a failure."""
        ...


def _apply_all(frame: Frame, target: Value, qualifiers: list[Qualifier]) -> Value:
    """Apply qualifiers one after the other; from the first optional one on, absence is no failure."""
    is_optional = type(target) is Optional
    if is_optional:
        if not target.present:
            return target
        target = target.value
    for qualifier in qualifiers:
        is_optional = is_optional or qualifier.is_optional
        if is_optional:
            target, present = qualifier.apply_if_present(frame, target)
            if not present:
                return NONE
        else:
            target = qualifier.apply(frame, target)
        if isinstance(target, Failure):
            return target
    return Optional(target, True) if is_optional else target


@dataclass(slots=True, kw_only=True)
class VariableAttribute:
    """A variable with qualifiers."""

    node_id: int
    name: str
    qualifiers: list[Qualifier] = field(default_factory=list)

    @property
    def id(self) -> int:
        """See Attribute."""
        return self.qualifiers[-1].id if self.qualifiers else self.node_id

    def add(self, qualifier: Qualifier) -> None:
        """See Attribute."""
        self.qualifiers.append(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """See Attribute."""
        value = frame.lookup(self.name)
        return value if isinstance(value, Failure) else _apply_all(frame, value, self.qualifiers)


@dataclass(slots=True, kw_only=True)
class StepAttribute:
    """The value of any step, with qualifiers."""

    node_id: int
    operand: Step
    qualifiers: list[Qualifier] = field(default_factory=list)

    @property
    def id(self) -> int:
        """See Attribute."""
        return self.qualifiers[-1].id if self.qualifiers else self.node_id

    def add(self, qualifier: Qualifier) -> None:
        """See Attribute."""
        self.qualifiers.append(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """See Attribute."""
        value = self.operand.run(frame)
        return value if isinstance(value, Failure) else _apply_all(frame, value, self.qualifiers)


@dataclass(slots=True, kw_only=True)
class ConditionalAttribute:
    """`condition ? one : other`, with qualifiers on both."""

    node_id: int
    condition: Step
    one: Attribute
    other: Attribute

    @property
    def id(self) -> int:
        """See Attribute."""
        return self.one.id if self.one.id == self.other.id else self.node_id

    def add(self, qualifier: Qualifier) -> None:
        """See Attribute."""
        self.one.add(qualifier)
        self.other.add(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """See Attribute."""
        value = self.condition.run(frame)
        if value is True:
            return self.one.resolve(frame)
        if value is False:
            return self.other.resolve(frame)
        return value if isinstance(value, Failure) else Failure("no such overload")


@dataclass(slots=True, kw_only=True)
class VariableStep:
    """A variable without qualifiers, as a step."""

    id: int
    name: str
    offset: int

    def run(self, frame: Frame) -> Value:
        """Return the value of the variable."""
        value = frame.lookup(self.name)
        if type(value) is Failure:
            value.place(self.offset)
        meter = frame.meter
        meter.drop(self.id)
        meter.cost += 1
        meter.push(self.id, value)
        return value


@dataclass(slots=True, kw_only=True)
class AttributeStep:
    """An attribute as a step; `test_only` for has()."""

    attribute: Attribute
    offset: int
    test_only: bool = False

    @property
    def id(self) -> int:
        """Identity of the node that the step's value belongs to."""
        return self.attribute.id

    def run(self, frame: Frame) -> Value:
        """Return the value of the attribute."""
        attribute = self.attribute
        value = attribute.resolve(frame)
        if isinstance(value, Failure):
            value.place(self.offset)
        elif self.test_only and type(value) is Optional:
            value = value.present
        meter = frame.meter
        if isinstance(attribute, ConditionalAttribute):
            meter.drop(attribute.other.id)
            meter.drop(attribute.one.id)
            meter.drop(attribute.condition.id)
        else:
            meter.drop(attribute.id)
            if not self.test_only:
                meter.cost += 1
        meter.push(attribute.id, value)
        return value
