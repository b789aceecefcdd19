"""A stand-in for the API server's slices: applies plans as the server would, name suffixes and versions included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.plan import SlicePlan


class StoredSlices:
    """The slices of one node, with a count of the writes."""

    def __init__(self, items: Iterable[ResourceSlice] = ()) -> None:
        self._items = {item.name: item for item in items}
        self._version = 0
        self.writes = 0
        self.complete_generations: list[set[int]] = []

    @property
    def items(self) -> tuple[ResourceSlice, ...]:
        """The slices as a server lists them: by name."""
        return tuple(self._items[name] for name in sorted(self._items))

    def apply(self, plan: SlicePlan) -> None:
        """Do the writes of a plan in order."""
        for item in plan.deletes:
            assert self._items[item.name].metadata.resource_version == item.metadata.resource_version
            del self._items[item.name]
            self._written(item.pool)
        for item in plan.updates:
            stored = self._items[item.name]
            assert stored.metadata.resource_version == item.metadata.resource_version
            assert (stored.pool, stored.driver, stored.node_name) == (item.pool, item.driver, item.node_name)
            self._store(item)
        for item in plan.creates:
            # The suffix falls with time, so that an order by suffix would be the wrong one.
            name = f"{item.metadata.generate_name}{99999 - self._version:05d}"
            self._store(replace(item, metadata=replace(item.metadata, name=name, uid=f"uid-{name}")))

    def delete(self, name: str) -> None:
        """Delete a slice behind the publisher's back."""
        del self._items[name]

    def edit(self, item: ResourceSlice) -> None:
        """Change a slice behind the publisher's back."""
        self._version += 1
        version = str(self._version)
        self._items[item.name] = replace(item, metadata=replace(item.metadata, resource_version=version))

    def _store(self, item: ResourceSlice) -> None:
        self.edit(item)
        self._written(item.pool)

    def _written(self, pool: str) -> None:
        self.writes += 1
        parts = [item for item in self._items.values() if item.pool == pool]
        complete = {
            item.generation
            for item in parts
            if sum(other.generation == item.generation for other in parts) == item.slice_count
        }
        self.complete_generations.append(complete)
