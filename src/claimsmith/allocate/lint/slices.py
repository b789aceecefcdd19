"""What is wrong with published slices: the nodes that they name, the pools that they make, what their devices need."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

from claimsmith.allocate.lint.values import Fault
from claimsmith.model.pool import ResourceSlice

__all__ = ["find_missing_node"]

_SHOWN_MAX: Final = 5


def find_missing_node(slice: ResourceSlice, nodes: Collection[str]) -> Fault | None:
    """Return the fault of a slice that names a node which is not there; None when it is, or when no node is known.

    Args:
        slice: The slice.
        nodes: Names of all nodes.
    """
    name = slice.node_name
    if not name or not nodes or name in nodes:
        return None
    near = difflib.get_close_matches(name, sorted(nodes), n=1)
    hint = f"did you mean {near[0]}?" if near else "correct it, or add the Node"
    known = ", ".join(sorted(nodes)[:_SHOWN_MAX]) + (", …" if len(nodes) > _SHOWN_MAX else "")
    return Fault(
        rule="unknown-node",
        severity="warning",
        path="spec.nodeName",
        text=f"there is no Node {name!r}, known are {known}; no pod gets to the devices; {hint}",
        corrected=near[0] if near else "",
    )
