"""Whether what a driver answers has the types that it promises; Python itself would find that out late, or never."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from claimsmith.errors import DriverError
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import PreparedDevices

__all__ = ["check_inventory", "check_prepared"]

_HINTS: Final = {
    "DeviceAttribute": "write DeviceAttribute.of(VALUE)",
    "Capacity": "write Capacity(value=parse_quantity(TEXT))",
    "Quantity": "write parse_quantity(TEXT)",
}


def check_inventory(driver: str, found: object) -> Inventory:
    """Return the answer of `discover`.

    Args:
        driver: Name of the driver.
        found: What it answered.

    Raises:
        DriverError: It is no Inventory, or something in it has another type than it must have.
    """
    _check(driver, "discover", found, wanted=Inventory)
    assert isinstance(found, Inventory)
    return found


def check_prepared(driver: str, answer: object) -> PreparedDevices:
    """Return the answer of `prepare`.

    Args:
        driver: Name of the driver.
        answer: What it answered.

    Raises:
        DriverError: It is no PreparedDevices, or something in it has another type than it must have.
    """
    _check(driver, "prepare", answer, wanted=PreparedDevices)
    assert isinstance(answer, PreparedDevices)
    return answer


def _check(driver: str, operation: str, answer: object, *, wanted: type) -> None:
    if fault := _find_fault(answer, wanted, ""):
        raise DriverError(f"driver {driver}: {operation} gave {fault}")


def _find_fault(value: object, wanted: Any, path: str) -> str | None:
    """Return what is wrong first with a value of a declared type, and what to do; None when nothing is."""
    origin, parts = get_origin(wanted), get_args(wanted)
    if wanted in (Any, object):
        return None
    if origin is Literal:
        return None if value in parts else f"{path} as {value!r}, allowed {' or '.join(map(repr, parts))}; correct it"
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


def _find_fault_in_sequence(value: object, part: Any, path: str) -> str | None:
    if not isinstance(value, tuple | list):
        return _say(value, "tuple", path)
    faults = (_find_fault(item, part, f"{path}[{index}]") for index, item in enumerate(value))
    return next(filter(None, faults), None)


def _find_fault_in_mapping(value: object, part: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return _say(value, "mapping such as a dict", path)
    strange = next((key for key in value if not isinstance(key, str)), None)
    if strange is not None:
        return _say(strange, "str", f"a key of {path}")
    return next(filter(None, (_find_fault(item, part, f"{path}[{key!r}]") for key, item in value.items())), None)


def _find_fault_in_fields(value: Any, path: str) -> str | None:
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


def _say(value: object, allowed: str, path: str) -> str:
    """Return what was found and allowed, and what to do."""
    found = "None" if value is None else _with_article(type(value).__name__)
    where = f"{path} as {found}" if path else found
    return f"{where}, allowed {_with_article(allowed)}; {_HINTS.get(allowed, 'correct it')}"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"
