"""Which devices a request's selectors accept, found out once per device and expression.

Source: isSelectable and selectorsMatch in structured/internal/incubating, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from claimsmith.allocate.records import DeviceRecord
from claimsmith.errors import CelCompileError, CelError, CelRuntimeError
from claimsmith.model.claim import DeviceClass, SubRequest
from claimsmith.model.device import Device, DeviceAttribute, DeviceToleration
from claimsmith.model.features import Features
from claimsmith.model.quantity import Quantity

__all__ = ["MATCH", "RequestShape", "SelectorEngine", "Selectors", "Verdict"]


class SelectorEngine(Protocol):
    """The selector language, as far as the allocator needs it."""

    def compile(self, text: str) -> Any:
        """Return the program of a selector; raises CelCompileError."""

    def compile_attribute(self, text: str) -> Any:
        """Return the program of a derived attribute; raises CelCompileError."""

    def prepare(self, driver: str, device: Device) -> Any:
        """Return the device in the form that programs read."""

    def evaluate(self, program: Any, device: Any) -> bool:
        """Return the answer for a prepared device; raises CelRuntimeError."""

    def evaluate_attribute(self, program: Any, device: Any) -> DeviceAttribute | None:
        """Return the value of an expression as an attribute; raises CelRuntimeError."""


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
    error: CelError | None = None


MATCH = Verdict("match")
"""All selectors accept the device."""
_GATE = Verdict("gate")


class Selectors:
    """The selectors' answers for devices, kept with the devices; texts are compiled once."""

    __slots__ = ("_engine", "_features", "_programs")

    def __init__(self, engine: SelectorEngine, features: Features) -> None:
        self._engine = engine
        self._features = features
        self._programs: dict[object, Any] = {}

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

    def evaluate(self, text: str, record: DeviceRecord) -> bool | CelError:
        """Return the answer of one expression for one device, or why there is none."""
        answer = record.answers.get(text)
        if answer is None:
            answer = record.answers[text] = self._evaluate(text, record)
        return answer

    def derive(self, text: str, record: DeviceRecord) -> DeviceAttribute | CelError | None:
        """Return the attribute that a derived attribute's expression comes to, or why there is none."""
        if text not in record.derived:
            record.derived[text] = self._derive(text, record)
        return record.derived[text]

    def forget(self, records: Iterable[DeviceRecord]) -> None:
        """Drop all programs and answers, so that texts that nobody uses any more don't add up."""
        self._programs.clear()
        for record in records:
            record.answers.clear()
            record.derived.clear()

    @property
    def known_texts(self) -> int:
        """Number of expressions that are kept."""
        return len(self._programs)

    def _evaluate(self, text: str, record: DeviceRecord) -> bool | CelError:
        program = self._compile(text, self._engine.compile)
        if isinstance(program, CelCompileError):
            return program
        try:
            return self._engine.evaluate(program, self._prepare(record))
        except CelRuntimeError as error:
            return error

    def _derive(self, text: str, record: DeviceRecord) -> DeviceAttribute | CelError | None:
        program = self._compile(text, self._engine.compile_attribute)
        if isinstance(program, CelCompileError):
            return program
        try:
            return self._engine.evaluate_attribute(program, self._prepare(record))
        except CelRuntimeError as error:
            return error

    def _compile(self, text: str, compile: Callable[[str], Any]) -> Any:
        key = (text, compile)
        program = self._programs.get(key)
        if program is None:
            try:
                program = compile(text)
            except CelCompileError as error:
                program = error
            self._programs[key] = program
        return program

    def _prepare(self, record: DeviceRecord) -> Any:
        if record.cel is None:
            record.cel = self._engine.prepare(record.id.driver, record.device)
        return record.cel
