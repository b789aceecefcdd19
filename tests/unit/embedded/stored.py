"""Small kinds, objects and stores with a clock that stands still, for tests of the store."""

from __future__ import annotations

from itertools import count
from typing import Any

from claimsmith.embedded.store import Store, StoreLimits
from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.embedded.store_sqlite import Journal

__all__ = ["NODES", "NOON", "NOON_TEXT", "PODS", "FakeClock", "make_store", "node", "pod"]

NOON = 1_893_499_200.0
NOON_TEXT = "2030-01-01T12:00:00Z"

PODS = StoredKind(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    namespaced=True,
    counts_generation=True,
    indexed_fields=("spec.nodeName",),
)
NODES = StoredKind(group="", version="v1", kind="Node", plural="nodes", namespaced=False, status_carries_metadata=True)


class FakeClock:
    """A clock that is moved by hand."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_store(
    *, journal: Journal | None = None, limits: StoreLimits | None = None, clock: FakeClock | None = None
) -> Store:
    """Return a store of pods and nodes whose uids are uid-1, uid-2 and so on."""
    uids = count(1)
    return Store(
        (PODS, NODES),
        clock=clock or FakeClock(),
        new_uid=lambda: f"uid-{next(uids)}",
        journal=journal,
        limits=limits,
    )


def pod(name: str = "web", *, namespace: str = "default", node_name: str = "", **metadata: Any) -> dict[str, Any]:
    """Return a pod."""
    spec = {"nodeName": node_name} if node_name else {"image": "one"}
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def node(name: str = "node-1", **metadata: Any) -> dict[str, Any]:
    """Return a node."""
    return {"metadata": {"name": name, **metadata}, "spec": {}}
