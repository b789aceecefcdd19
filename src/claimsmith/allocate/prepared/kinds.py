"""Kinds of devices: what claims of one shape can't tell apart, found out without looking at every device in full.

A selector reads a few attributes. Devices that are equal in those, in their capacity and in all that is no attribute
are of one kind: selectors are evaluated on one of them. An attribute that is different on every device makes no kinds
of its own, since what counts is the selector's answer; it is kept with the values that led to it, one bit per device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from claimsmith.allocate.prepared.capacity import CapacityPlan
from claimsmith.allocate.prepared.eligibility import MATCH, RequestShape, Selectors, Verdict
from claimsmith.allocate.prepared.forms import ODD
from claimsmith.allocate.prepared.plan import RequestPlan
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.allocate.prepared.screening import Screen
from claimsmith.errors import InputError
from claimsmith.model.device import Device

__all__ = ["SelectorAnswers", "ShapeKind", "ShapeKinds", "find_names", "read_values"]

KNOWN_VALUES_MAX: Final = 262_144
"""Combinations of values whose answers are kept for one selector, or for one shape of pods."""
KNOWN_KINDS_MAX: Final = 65_536
"""Kinds of devices that are kept for one shape of pods."""
_Key = tuple[object, ...]


class SelectorAnswers:
    """What selectors say of devices, by the values that they read; kept for all pods."""

    __slots__ = ("_answers", "_names", "_selectors")

    def __init__(self, selectors: Selectors) -> None:
        self._selectors = selectors
        self._answers: dict[str, dict[_Key, bool | InputError]] = {}
        self._names: dict[tuple[str, str], tuple[str, ...] | None] = {}

    def find_verdict(self, shape: RequestShape, record: DeviceRecord, base: int) -> Verdict:
        """Return what the selectors of a shape say of a device, evaluated once for devices that read alike.

        Args:
            record: Made for this question alone.
            base: The device's base.
        """
        texts = dict.fromkeys((*shape.class_selectors, *shape.selectors))
        keys = {text: (base, *self.read(text, record.id.driver, record.device)) for text in texts}
        for text, key in keys.items():
            known = self._answers.setdefault(text, {}).get(key)
            if known is not None:
                record.answers[text] = known
        verdict = self._selectors.find_verdict(shape, record)
        for text, key in keys.items():
            answer, answers = record.answers.get(text), self._answers[text]
            if answer is not None and key not in answers:
                if len(answers) >= KNOWN_VALUES_MAX:
                    answers.clear()
                answers[key] = answer
        return verdict

    def read(self, text: str, driver: str, device: Device) -> _Key:
        """Return the values that a selector reads of a device, besides those of its base."""
        if (text, driver) not in self._names:
            self._names[text, driver] = find_names(self._selectors, (text,), driver)
        names = self._names[text, driver]
        return (driver, *(_read_all(device) if names is None else read_values(device, names)))

    def forget(self) -> None:
        """Drop all answers."""
        self._answers.clear()
        self._names.clear()


def find_names(selectors: Selectors, texts: Iterable[str], driver: str) -> tuple[str, ...] | None:
    """Return the names under which a driver's devices may publish what the texts read; None: all attributes."""
    names: dict[str, None] = {}
    for text in texts:
        attributes = selectors.find_attributes(text)
        if attributes is None:
            return None
        for name in attributes:
            domain, _, identifier = name.partition("/")
            names[name] = None
            if domain == driver:
                names[identifier] = None
    return tuple(names)


def read_values(device: Device, names: tuple[str, ...]) -> list[object]:
    """Return kind and value of the attributes of these names."""
    attributes, found = device.attributes, list[object]()
    for name in names:
        attribute = attributes.get(name)
        if attribute is None:
            found.append(None)
        else:
            found.append(attribute.value)
            found.append(attribute.kind)
    return found


def _read_all(device: Device) -> list[object]:
    return [part for name, value in device.attributes.items() for part in (name, value.kind, value.value)]


@dataclass(slots=True, eq=False)
class ShapeKind:
    """Devices that pods of one shape can't tell apart, but for the values that constraints compare, and for their use.

    What tells them apart is what the shape's selectors answer. `policy.nodestates` has kinds of its own, told apart by
    the values that any pod reads which it has learned of: a policy compares states for pods that are still to come, and
    a new shape with answers of its own would make all of them anew.

    Args:
        number: The kind's number among those of the shape.
        plans: For each shape of requests that matches: what it takes from the capacity.
        is_single: At most one request of the pod may have such a device, so that it takes at most one share of it.
        counts: Such devices take counters.
        warns: A selector or an amount can't be evaluated on such devices.
    """

    number: int
    plans: tuple[CapacityPlan | None, ...]
    is_single: bool
    counts: bool
    warns: bool

    def find_fits(self, consumed: Mapping[str, int]) -> tuple[bool, ...]:
        """Tell for each shape of requests that matches whether shares that exist leave enough.

        Args:
            consumed: What the shares take, by capacity name, in nano units.
        """
        return tuple(
            [
                plan is None or all(consumed.get(name, 0) + nanos <= total for name, nanos, total in plan.nanos)
                for plan in self.plans
            ]
        )


class ShapeKinds:
    """The kinds of devices for pods of one shape.

    Args:
        requests: All requests and alternatives of the pod.

    Devices are first told apart by the identity of what is read, since the same few values stand in thousands of
    devices as one object; the objects are kept, so that no other one takes their identity.
    """

    __slots__ = (
        "_alike",
        "_answers",
        "_drops_tainted",
        "_kinds",
        "_names",
        "_numbers",
        "_screen",
        "_selectors",
        "_shapes",
    )

    def __init__(
        self, requests: Iterable[RequestPlan], *, selectors: Selectors, screen: Screen, answers: SelectorAnswers
    ) -> None:
        self._selectors, self._screen, self._answers = selectors, screen, answers
        self._shapes: dict[RequestShape, set[tuple[int, int]]] = {}
        self._drops_tainted = True
        for request in requests:
            self._shapes.setdefault(request.shape, set()).add((request.claim, request.request))
            self._drops_tainted = self._drops_tainted and not request.takes_all
        self._names: dict[str, tuple[str, ...] | None] = {}
        self._alike: dict[str, dict[_Key, tuple[Any, ...]]] = {}
        self._kinds: dict[_Key, ShapeKind | None] = {}
        self._numbers = count()

    def find(self, record: SliceRecord, bases: tuple[int, ...]) -> list[ShapeKind | None] | None:
        """Return the kind of each device of a slice; None for devices that no request can have.

        None instead of a list: some device must be looked at in full.
        """
        driver = record.slice.driver
        names = self.find_names(driver)
        if names is None:
            return self._find_each(record, bases)
        alike = self._alike.setdefault(driver, {})
        if len(alike) >= KNOWN_VALUES_MAX:
            alike.clear()
        found: list[ShapeKind | None] = []
        for device, base in zip(record.slice.devices, bases, strict=True):
            key = (base, *map(id, map(device.attributes.get, names)))
            known = alike.get(key)
            if known is None:
                if base == ODD or _is_ambiguous(device, driver, names):
                    return None
                known = alike[key] = (self._find_kind(record, device, base), *map(device.attributes.get, names))
            found.append(known[0])
        return found

    def _find_each(self, record: SliceRecord, bases: tuple[int, ...]) -> list[ShapeKind | None] | None:
        """As `find`, for selectors that read all attributes, so that no two devices need be alike."""
        places = list(zip(record.slice.devices, bases, strict=True))
        if any(base == ODD or _is_ambiguous(device, record.slice.driver, None) for device, base in places):
            return None
        return [self._find_kind(record, device, base) for device, base in places]

    def find_names(self, driver: str) -> tuple[str, ...] | None:
        """Return the names under which a driver's devices may publish what is read; None: everything is read."""
        if driver not in self._names:
            texts = (text for shape in self._shapes for text in (*shape.class_selectors, *shape.selectors))
            self._names[driver] = find_names(self._selectors, texts, driver)
        return self._names[driver]

    def _find_kind(self, slice: SliceRecord, device: Device, base: int) -> ShapeKind | None:
        record, names = DeviceRecord(slice.slice, device), self.find_names(slice.slice.driver)
        if names is not None:
            self._selectors.prepare_partly(record, names)
        marks, plans, groups = list[object](), list[CapacityPlan | None](), set[tuple[int, int]]()
        for shape, wanted in self._shapes.items():
            mark = self._judge(shape, record, base)
            marks.append(mark)
            if mark is True:
                plans.append(self._screen.plan(record, shape))
                groups |= wanted
        key = (base, *marks)
        if key not in self._kinds:
            if len(self._kinds) >= KNOWN_KINDS_MAX:
                self._kinds.clear()  # Equal devices get another number then, which only costs time.
            warns = any(mark not in (True, False) for mark in marks)
            self._kinds[key] = (
                ShapeKind(
                    number=next(self._numbers),
                    plans=tuple(plans),
                    is_single=len(groups) <= 1 and not warns,
                    counts=bool(device.consumes_counters),
                    warns=warns,
                )
                if any(marks)
                else None
            )
        return self._kinds[key]

    def _judge(self, shape: RequestShape, record: DeviceRecord, base: int) -> object:
        """True, if requests of the shape may have such devices; what is wrong with them; False for neither."""
        verdict = self._answers.find_verdict(shape, record, base)
        if verdict.error is not None:
            return (verdict.kind, verdict.of_class, verdict.position)
        if verdict is not MATCH:
            return False
        plan = self._screen.plan(record, shape)
        if plan is not None and plan.kind == "fatal":
            return "fatal"
        if plan is not None and plan.kind != "fits":
            return False
        return not self._drops_tainted or self._screen.tolerates(record, shape)


def _is_ambiguous(device: Device, driver: str, names: tuple[str, ...] | None) -> bool:
    """Whether a device has an attribute with the driver's domain and without it, of which the last one counts."""
    attributes = device.attributes
    return any(
        name in attributes and name.partition("/")[2] in attributes
        for name in (attributes if names is None else names)
        if name.startswith(f"{driver}/")
    )
