"""Which devices a request's selectors accept, found out once per device and expression.

Source: isSelectable and selectorsMatch in structured/internal/incubating, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.cel import CelDevice, CelEnvironment, DeviceRead, Program, Purpose, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelDeviceError, CelError, CelRuntimeError, InputError
from claimsmith.model.claim import DeviceClass, SubRequest
from claimsmith.model.device import Device, DeviceAttribute, DeviceToleration
from claimsmith.model.features import Features
from claimsmith.model.quantity import Quantity

__all__ = ["MATCH", "RequestShape", "Selectors", "Verdict", "is_experimental", "is_stable"]


@dataclass(frozen=True, slots=True)
class RequestShape:
    """What of a request decides which devices it accepts: requests of equal shape share all answers.

    Args:
        class_name: The class, for messages; classes with equal selectors are told apart by it.
    """

    class_name: str
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: tuple[tuple[str, Quantity], ...] | None
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        parts = (self.class_name, self.class_selectors, self.selectors, self.admin, self.tolerations, self.capacity)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, request: SubRequest, device_class: DeviceClass) -> RequestShape:
        """Return the shape of a request of a class."""
        return cls(
            device_class.name,
            tuple(selector.expression or "" for selector in device_class.selectors),
            tuple(selector.expression or "" for selector in request.selectors),
            bool(request.admin_access),
            request.tolerations,
            None if request.capacity is None else tuple(sorted(request.capacity.items())),
        )

    @property
    def requested(self) -> Mapping[str, Quantity] | None:
        """Amounts asked for by capacity name."""
        return None if self.capacity is None else dict(self.capacity)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the selectors of a shape say of one device.

    Args:
        kind: match; false; error (an expression fails on this device); broken (an expression can't be compiled);
            gate (the device has binding conditions, which are off).
        of_class: The selector in question is the class's.
        position: Its place in the list of selectors.
        error: What went wrong, for error and broken.
    """

    kind: Literal["match", "false", "error", "broken", "gate"]
    of_class: bool = False
    position: int = 0
    expression: str = ""
    error: InputError | None = None

    @property
    def problem(self) -> str:
        """What went wrong, without the expression."""
        return self.error.message if isinstance(self.error, CelError) else str(self.error)


MATCH = Verdict("match")
"""All selectors accept the device."""
_GATE = Verdict("gate")


class Selectors:
    """The selectors' answers for devices, kept with the devices; texts are compiled once."""

    __slots__ = ("_derived", "_environment", "_features", "_is_stable", "_programs", "_reads")

    def __init__(self, features: Features) -> None:
        self._features = features
        self._is_stable = is_stable(features)
        self._environment = CelEnvironment.for_stored_expressions(features)
        self._programs: dict[str, Program | CelCompileError] = {}
        self._derived: dict[str, Program | CelCompileError] = {}
        self._reads: dict[str, frozenset[DeviceRead]] = {}

    def find_verdict(self, shape: RequestShape, record: DeviceRecord) -> Verdict:
        """Return what the class's, then the request's selectors say; the first that isn't true decides."""
        if record.device.binding_conditions and not self._features.device_binding_and_status:
            return _GATE
        for of_class, texts in ((True, shape.class_selectors), (False, shape.selectors)):
            for position, text in enumerate(texts):
                answer = self.evaluate(text, record)
                if answer is True:
                    continue
                if answer is False:
                    return Verdict("false", of_class, position, text)
                kind: Literal["broken", "error"] = "broken" if isinstance(answer, CelCompileError) else "error"
                return Verdict(kind, of_class, position, text, answer)
        return MATCH

    def evaluate(self, text: str, record: DeviceRecord) -> bool | InputError:
        """Return the answer of one expression for one device, or why there is none."""
        answer = record.answers.get(text)
        if answer is None:
            answer = record.answers[text] = self._evaluate(text, record)
        return answer

    def prepare_partly(self, record: DeviceRecord, names: Iterable[str]) -> None:
        """Make a record ready for expressions that read no other attributes than those of the names, all proper."""
        device = record.device
        partial = Device(
            name=device.name,
            attributes={name: device.attributes[name] for name in names if name in device.attributes},
            capacity=device.capacity,
            allow_multiple_allocations=device.allow_multiple_allocations and not self._is_stable,
        )
        record.cel = prepare_device(record.id.driver, partial, environment=self._environment)

    def derive(self, text: str, record: DeviceRecord) -> DeviceAttribute | InputError:
        """Return the attribute that a derived attribute's expression comes to, or why there is none."""
        answer = record.derived.get(text)
        if answer is None:
            answer = record.derived[text] = self._derive(text, record)
        return answer

    def find_reads(self, text: str) -> frozenset[DeviceRead]:
        """Return what an expression reads of a device; nothing when it can't be compiled."""
        found = self._reads.get(text)
        if found is None:
            program = self._programs.get(text)
            if program is None:
                program = self._programs[text] = self._compile(text, "selector")
            found = program.attributes_read() if isinstance(program, Program) else frozenset()
            self._reads[text] = found
        return found

    def find_attributes(self, text: str) -> tuple[str, ...] | None:
        """Return the attributes that an expression may read, by fully qualified name; None: it may read any."""
        names: dict[str, None] = {}
        for read in self.find_reads(text):
            if read.field == "device" or (read.field == "attributes" and None in (read.domain, read.id)):
                return None
            if read.field == "attributes":
                names[f"{read.domain}/{read.id}"] = None
        return tuple(names)

    def find_false_clause(self, text: str, record: DeviceRecord) -> str:
        """Return the first part of an expression, between `&&` at its top, that is false for the device."""
        program = self._programs.get(text)
        if isinstance(program, Program):
            for clause in program.clauses():
                try:
                    if clause.evaluate_value(self._prepare(record)) is False:
                        return clause.text
                except (CelRuntimeError, CelDeviceError):
                    continue
        return text

    def forget(self, records: Iterable[DeviceRecord]) -> None:
        """Drop all programs and answers, so that texts that nobody uses any more don't add up."""
        self._programs.clear()
        self._derived.clear()
        self._reads.clear()
        for record in records:
            record.forget()

    @property
    def known_texts(self) -> int:
        """Number of expressions that are kept."""
        return len(self._programs) + len(self._derived)

    def _evaluate(self, text: str, record: DeviceRecord) -> bool | InputError:
        program = self._programs.get(text)
        if program is None:
            program = self._programs[text] = self._compile(text, "selector")
        if isinstance(program, CelCompileError):
            return program
        try:
            return program.evaluate(self._prepare(record))
        except (CelRuntimeError, CelDeviceError) as error:
            return error

    def _derive(self, text: str, record: DeviceRecord) -> DeviceAttribute | InputError:
        program = self._derived.get(text)
        if program is None:
            program = self._derived[text] = self._compile(text, "derived-attribute")
        if isinstance(program, CelCompileError):
            return program
        try:
            return program.evaluate_attribute(self._prepare(record))
        except (CelRuntimeError, CelDeviceError) as error:
            return error

    def _compile(self, text: str, purpose: Purpose) -> Program | CelCompileError:
        try:
            return compile_expression(text, environment=self._environment, purpose=purpose)
        except CelCompileError as error:
            return error

    def _prepare(self, record: DeviceRecord) -> CelDevice:
        """Return the device in the form that programs read; raises CelDeviceError when it has none.

        Upstream's stable implementation doesn't tell programs whether a device allows several allocations.
        """
        if record.cel is None:
            device = replace(record.device, allow_multiple_allocations=False) if self._is_stable else record.device
            record.cel = prepare_device(record.id.driver, device, environment=self._environment)
        return record.cel


def is_experimental(features: Features) -> bool:
    """Tell whether upstream answers with its experimental implementation."""
    return (
        features.list_type_attributes
        or features.optional_node_operations
        or features.derived_attributes
        or features.compatibility_groups
    )


def is_stable(features: Features) -> bool:
    """Tell whether upstream answers with its stable implementation."""
    return not (
        is_experimental(features)
        or features.device_binding_and_status
        or features.consumable_capacity
        or features.fractional_capacity_range
    )
