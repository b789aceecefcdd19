"""Whether what a driver answers has the types that it promises; Python itself would find that out late, or never."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from claimsmith.errors import DriverAnswerError
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import PreparedDevices

__all__ = ["check_inventory", "check_prepared"]

_HINTS: Final = {
    "DeviceAttribute": ", as DeviceAttribute.of(VALUE)",
    "Capacity": ", as Capacity(value=parse_quantity(TEXT))",
    "Quantity": ", as parse_quantity(TEXT)",
}


_Answer = TypeVar("_Answer")


class _Fault(NamedTuple):
    """What is wrong in an answer: where, what was found, and what is allowed."""

    path: str
    found: object
    allowed: str


def check_inventory(driver: str, found: object) -> Inventory:
    """Return the answer of `discover`.

    Args:
        driver: Name of the driver.
        found: What it answered.

    Raises:
        DriverAnswerError: It is no Inventory, or something in it has another type than it must have.
    """
    return _check(driver, "discover", found, wanted=Inventory)


def check_prepared(driver: str, answer: object) -> PreparedDevices:
    """Return the answer of `prepare`.

    Args:
        driver: Name of the driver.
        answer: What it answered.

    Raises:
        DriverAnswerError: It is no PreparedDevices, or something in it has another type than it must have.
    """
    return _check(driver, "prepare", answer, wanted=PreparedDevices)


def _check(driver: str, operation: str, answer: object, *, wanted: type[_Answer]) -> _Answer:
    if fault := _find_fault(answer, wanted, ""):
        where = f" {fault.path}" if fault.path else ""
        raise DriverAnswerError(f"driver {driver}: {operation}{where}", fault.found, allowed=fault.allowed)
    assert isinstance(answer, wanted)
    return answer


def _find_fault(value: object, wanted: Any, path: str) -> _Fault | None:
    """Return what is wrong first with a value of a declared type, and what to do; None when nothing is."""
    origin, parts = get_origin(wanted), get_args(wanted)
    if wanted in (Any, object):
        return None
    if origin is Literal:
        return None if value in parts else _Fault(path, value, " or ".join(map(repr, parts)))
    if origin in (UnionType, Union):
        faults = [_find_fault(value, part, path) for part in parts]
        return None if None in faults else faults[0]
    if origin is tuple:
        return _find_fault_in_sequence(value, parts[0], path)
    if origin is not None:
        return _find_fault_in_mapping(value, parts[-1], path)
    if not isinstance(value, wanted):
        return _say(value, wanted.__name__, path)
    return _find_fault_in_fields(value, path) if dataclasses.is_dataclass(value) else None


def _find_fault_in_sequence(value: object, part: Any, path: str) -> _Fault | None:
    if not isinstance(value, tuple | list):
        return _say(value, "tuple", path)
    faults = (_find_fault(item, part, f"{path}[{index}]") for index, item in enumerate(value))
    return next(filter(None, faults), None)


def _find_fault_in_mapping(value: object, part: Any, path: str) -> _Fault | None:
    if not isinstance(value, Mapping):
        return _say(value, "mapping such as a dict", path)
    strange = next((key for key in value if not isinstance(key, str)), None)
    if strange is not None:
        return _say(strange, "str", f"a key of {path}")
    return next(filter(None, (_find_fault(item, part, f"{path}[{key!r}]") for key, item in value.items())), None)


def _find_fault_in_fields(value: Any, path: str) -> _Fault | None:
    dot = "." if path else ""
    fields = _list_fields(value.__class__).items()
    return next(
        filter(None, (_find_fault(getattr(value, name), kind, f"{path}{dot}{name}") for name, kind in fields)), None
    )


@cache
def _list_fields(cls: type) -> Mapping[str, Any]:
    """Return the declared type of each field."""
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in dataclasses.fields(cls)}


def _say(value: object, allowed: str, path: str) -> _Fault:
    return _Fault(path, value, f"{_with_article(allowed)}{_HINTS.get(allowed, '')}")


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"
