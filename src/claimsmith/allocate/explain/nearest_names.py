"""The name of an attribute or capacity that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from claimsmith.model.device import Device

__all__ = ["find_misspelt_key", "find_nearest_name", "suggest_key", "suggest_name"]

_CLOSE: Final = 0.6
_NO_KEY: Final = "no such key: "
"""How an expression fails that reads what a device does not have."""


def find_nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is nearest to one; empty when none is near, or when it is known itself.

    Args:
        name: A name, with or without its domain, such as `gpu.example.com/modle`.
        known: The names that there are. One that differs by its domain or by capital letters alone is the nearest.
    """
    names = sorted(set(known))
    if name in names:
        return ""
    same = [item for item in names if _id(item).lower() == _id(name).lower()]
    pool = same or [item for item in names if _likeness(_id(item), _id(name)) >= _CLOSE]
    return max(pool, key=lambda item: _likeness(item, name), default="")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for a name that is not known; empty when none is near.

    Args:
        name, known: As in `find_nearest_name`.
    """
    near = find_nearest_name(name, known)
    return f"; did you mean {near}?" if near else ""


def suggest_key(problem: str, device: Device) -> str:
    """Return `; did you mean X?` for an expression that fails on a device; empty when it reads no name like another.

    Args:
        problem: How it fails, such as `no such key: modle`.
        device: What it was asked about.
    """
    found = find_misspelt_key(problem, device)
    return f"; did you mean {found[1]}?" if found else ""


def find_misspelt_key(problem: str, device: Device) -> tuple[str, str] | None:
    """Return the name that an expression reads and the one that was probably meant; None when none is near.

    Args:
        problem, device: As in `suggest_key`.
    """
    if not problem.startswith(_NO_KEY):
        return None
    wrong = problem.removeprefix(_NO_KEY)
    near = find_nearest_name(wrong, [_id(name) for name in (*device.attributes, *device.capacity)])
    return (wrong, near) if near else None


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _likeness(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left.lower(), right.lower()).ratio()
