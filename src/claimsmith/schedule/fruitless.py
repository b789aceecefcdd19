"""Nodes on which claims like these found no devices, until something changes there. Pure.

A pod that waits is tried again and again, and so are the pods like it. Whether claims fit a node depends on what they
ask for, on the node, and on the pools that the node reaches; as long as those stay, the answer stays.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Final

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import PoolId
from claimsmith.model.pool import ResourceSlice

__all__ = ["FruitlessNodes", "get_claims_key"]

_KEYS_MAX: Final = 128
_NONE: Final[frozenset[str]] = frozenset()


def get_claims_key(claims: Iterable[ResourceClaim]) -> str:
    """Return a text that is equal for claims that ask for the same in the same order."""
    return repr([claim.spec for claim in claims])


class FruitlessNodes:
    """Remembers fruitless searches, and forgets them when they may turn out otherwise."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[str, set[str]] = OrderedDict()
        self._pools: defaultdict[PoolId, dict[str, str | None]] = defaultdict(dict)

    def find(self, key: str) -> set[str] | frozenset[str]:
        """Return the nodes on which claims of this key found nothing."""
        if key not in self._nodes:
            return _NONE
        self._nodes.move_to_end(key)
        return self._nodes[key]

    def add(self, key: str, node: str) -> None:
        """Remember that claims of this key found nothing on a node."""
        self._nodes.setdefault(key, set()).add(node)
        if len(self._nodes) > _KEYS_MAX:
            self._nodes.popitem(last=False)

    def forget_node(self, name: str) -> None:
        """Forget what was found out about a node."""
        for nodes in self._nodes.values():
            nodes.discard(name)

    def forget_all(self) -> None:
        """Forget everything: something has changed that counts on every node."""
        self._nodes.clear()

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take in a change of a claim: devices that it got or gave back count on the nodes that reach their pools."""
        before, after = (item.allocation if item is not None else None for item in (old, new))
        if before is not None and after is not None and before.results == after.results:
            return
        results = [result for item in (before, after) if item is not None for result in item.results]
        for pool in {result.device_id.pool_id for result in results}:
            self._forget_pool(pool)

    def see_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Take in a change of a slice: it counts on the nodes that reach its pool, before or after."""
        if old is not None:
            self._forget_pool(old.pool_id)
            self._pools[old.pool_id].pop(old.name, None)
            if not self._pools[old.pool_id]:
                del self._pools[old.pool_id]
        if new is not None:
            self._pools[new.pool_id][new.name] = new.node_name
            self._forget_pool(new.pool_id)

    def _forget_pool(self, pool: PoolId) -> None:
        """Forget what was found out about the nodes that reach a pool; one without a node may be reached by all."""
        for node in set(self._pools.get(pool, {}).values()):
            if not node:
                self.forget_all()
                return
            self.forget_node(node)
