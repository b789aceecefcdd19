"""Reflectors that the scheduler and the controllers of one process share: one list and one watch per kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from claimsmith.api.kinds import Kind
from claimsmith.kube.client import KubeObject
from claimsmith.kube.reflector import ListWatch, Reflector

__all__ = ["Informers"]

T = TypeVar("T")


class Informers:
    """One reflector per kind, made when it is first asked for.

    Args:
        client: Where the objects come from.
    """

    def __init__(self, client: ListWatch) -> None:
        self._client = client
        self._reflectors: dict[Kind, tuple[Reflector[Any], Callable[[KubeObject], Any]]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(self, kind: Kind, decode: Callable[[KubeObject], T]) -> Reflector[T]:
        """Return the reflector of all objects of a kind.

        Args:
            kind: The kind.
            decode: Makes the value that is kept; the same for all callers.

        Raises:
            ValueError: Another caller has asked for another form of the same kind.
        """
        found = self._reflectors.get(kind)
        if found is None:
            found = (Reflector(self._client, kind, decode), decode)
            self._reflectors[kind] = found
            if self._group is not None:
                self._group.create_task(found[0].run(), name=f"reflector {kind.plural}")
        if found[1] is not decode:
            raise ValueError(f"{kind}: found a second decoder, allowed one per kind; share the first")
        return cast(Reflector[T], found[0])

    async def run(self) -> None:
        """Follow the server with every reflector until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for reflector, _ in tuple(self._reflectors.values()):
                    group.create_task(reflector.run(), name=f"reflector {reflector.kind.plural}")
                await asyncio.Event().wait()
            finally:
                self._group = None

    def list_missing(self) -> tuple[str, ...]:
        """Return one sentence for each kind whose first list is not in yet, with what keeps it from being read."""
        found = (reflector for reflector, _ in self._reflectors.values() if not reflector.is_synced)
        return tuple(
            f"{item.kind.plural}: not read yet{f' ({item.last_error})' if item.last_error else ''}" for item in found
        )

    async def wait_synced(self) -> None:
        """Return once the first list of every reflector asked for so far is in."""
        for reflector, _ in tuple(self._reflectors.values()):
            await reflector.wait_synced()
