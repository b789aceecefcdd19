"""The final table of the demo: equal pods in one row, uuids short enough for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from claimsmith.daemons.onlooker import SeenPod

__all__ = ["COLUMNS", "find_rows"]

COLUMNS: Final = ("POD", "NODE", "DEVICES", "IN THE CONTAINER")
"""Columns of the table."""
_PREFIX: Final = "CLAIMSMITH_"
_ALL_DEVICES: Final = f"{_PREFIX}VISIBLE_DEVICES="
_OWN: Final = "_SHARE_ID="
"""Differs in each pod, so that no two would be equal."""
_UUID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_MANY: Final = 3
_NUMBERED: Final = re.compile(r"(.*-)(\d+)")


def find_rows(seen: Iterable[SeenPod]) -> tuple[tuple[str, str, str, str], ...]:
    """Return a row for each pod; three or more numbered pods in sequence that got the same share one."""
    groups = groupby(
        seen, key=lambda pod: (_base(pod.pod.name), pod.node, _shorten_devices(pod), _shorten_env(pod.env))
    )
    return tuple(
        (name, node, "\n".join(devices), "\n".join(env))
        for (base, node, devices, env), pods in groups
        for name in _name_rows(base, [pod.pod.name for pod in pods])
    )


def _name_rows(base: str, names: Sequence[str]) -> Sequence[str]:
    """Return a name for each row: `stream-00…19` for many."""
    if not base or len(names) < _MANY:
        return names
    ordered = sorted(names, key=lambda name: (len(name), name))
    return [f"{ordered[0]}…{ordered[-1].removeprefix(base)}"]


def _shorten_devices(seen: SeenPod) -> tuple[str, ...]:
    """Return the devices without the pool when it is the node's own."""
    return tuple(device.removeprefix(f"{seen.node}/") for device in seen.devices)


def _shorten_env(env: Sequence[str]) -> tuple[str, ...]:
    """Return the variables of single devices, or the one of all where there are no others; uuids end after a part.

    The ids of shares are left out.
    """
    single = [line for line in env if not line.startswith(_ALL_DEVICES) and _OWN not in line] or env
    return tuple(_UUID.sub(r"\1…", line.removeprefix(_PREFIX)) for line in single)


def _base(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found[1] if found else ""
