"""Taints that keep a request from a device.

Source: taintPreventsAllocation in structured/internal/incubating, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from claimsmith.model.device import DeviceTaint, DeviceToleration

__all__ = ["find_blocking_taint"]

_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})


def find_blocking_taint(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> DeviceTaint | None:
    """Return the first taint that no toleration accepts; effects other than NoSchedule and NoExecute block nothing."""
    accepted = tuple(tolerations)
    for taint in taints:
        if taint.effect in _BLOCKING and not any(toleration.tolerates(taint) for toleration in accepted):
            return taint
    return None
