"""Deletion that follows deletion: dependents of deleted owners, and the content of deleted namespaces.

Source: k8s.io/kubernetes v1.37.2 pkg/controller/garbagecollector, pkg/controller/namespace/deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from claimsmith.api.kinds import NAMESPACE, find_kind
from claimsmith.embedded.api.deletion import FOREGROUND, ORPHAN, DeleteRequest, delete_object
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.served import SERVED, get_kind, get_served
from claimsmith.embedded.store_changes import WriteOptions
from claimsmith.embedded.store_records import DELETED, JsonObject, Record, StoreEvent
from claimsmith.errors import ClaimsmithError, RequestError
from claimsmith.telemetry import get_logger

__all__ = ["GarbageCollector"]

_LOG = get_logger("embedded.api")
_NAMESPACES: Final = get_kind(NAMESPACE)
_NAMESPACED: Final = tuple(
    served for served in SERVED if served.is_hub and served.kind.namespaced and served.kind.is_listable
)

ObjectKey = tuple[str, str, str]
"""Key of the kind, namespace, name."""

Change = Callable[[JsonObject], JsonObject]


class GarbageCollector:
    """Deletes what its owners or its namespace leave behind. Call `run` in a task.

    Args:
        api: The objects.
    """

    def __init__(self, api: ObjectApi) -> None:
        self._api, self._store = api, api.store
        self._dependents: dict[str, set[ObjectKey]] = {}
        self._owners: dict[ObjectKey, tuple[str, ...]] = {}
        self._todo: dict[ObjectKey, None] = {}
        self._wake = asyncio.Event()
        for record in self._all_records():
            self._index(record)
            self._enqueue(record)
        self._store.listen(self._notice)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._todo:
                key = next(iter(self._todo))
                del self._todo[key]
                await self._work_safely(key)

    def _all_records(self) -> Iterator[Record]:
        for kind in self._store.kinds.values():
            yield from self._store.list(kind)

    def _notice(self, event: StoreEvent) -> None:
        record = event.record
        key = _key_of(record)
        if event.type == DELETED:
            self._forget(key)
            uid = record.value["metadata"]["uid"]
            for dependent in self._dependents.pop(uid, ()):
                self._todo[dependent] = None
            self._requeue_owners(record)
            if record.namespace and self._is_ending(record.namespace):
                self._todo[_NAMESPACES.stored.key, "", record.namespace] = None
        else:
            metadata, before = record.value["metadata"], event.previous
            if before is None or before.value["metadata"].get("ownerReferences") != metadata.get("ownerReferences"):
                self._index(record)
            self._enqueue(record)
        if self._todo:
            self._wake.set()

    def _enqueue(self, record: Record) -> None:
        """Queue an object that may have lost its owner, or whose own deletion has to be carried on."""
        metadata = record.value["metadata"]
        owners = metadata.get("ownerReferences") or ()
        if metadata.get("deletionTimestamp") or any(self._is_gone(owner, record) for owner in owners):
            self._todo[_key_of(record)] = None
            self._wake.set()

    def _requeue_owners(self, record: Record) -> None:
        """Queue the owners of a deleted object; one of them may be waiting for it."""
        for owner in record.value["metadata"].get("ownerReferences") or ():
            kind = find_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
            if kind is not None:
                namespace = record.namespace if kind.namespaced else ""
                self._todo[get_kind(kind).stored.key, namespace, owner.get("name", "")] = None

    def _index(self, record: Record) -> None:
        key = _key_of(record)
        self._forget(key)
        uids = tuple(owner["uid"] for owner in record.value["metadata"].get("ownerReferences") or ())
        if uids:
            self._owners[key] = uids
        for uid in uids:
            self._dependents.setdefault(uid, set()).add(key)

    def _forget(self, key: ObjectKey) -> None:
        for uid in self._owners.pop(key, ()):
            members = self._dependents.get(uid)
            if members is not None:
                members.discard(key)
                if not members:
                    del self._dependents[uid]

    async def _work_safely(self, key: ObjectKey) -> None:
        try:
            await self._work(key)
        except RequestError as error:
            if error.status not in (404, 409):
                _LOG.warning("garbage collection of %s failed: %s", "/".join(key), error)
        except ClaimsmithError as error:
            _LOG.warning("garbage collection of %s failed: %s", "/".join(key), error)

    async def _work(self, key: ObjectKey) -> None:
        record = self._find(key)
        if record is None:
            return
        metadata = record.value["metadata"]
        if metadata.get("deletionTimestamp"):
            await self._carry_on(record)
        elif metadata.get("ownerReferences"):
            await self._check_owners(record)

    async def _check_owners(self, record: Record) -> None:
        """Delete an object whose owners are all gone; drop references to those that are gone otherwise."""
        owners = record.value["metadata"]["ownerReferences"]
        gone = [owner for owner in owners if self._is_gone(owner, record)]
        if not gone:
            return
        if len(gone) == len(owners):
            uid = record.value["metadata"]["uid"]
            request = DeleteRequest(uid=uid)
            await delete_object(self._api, get_served(record.kind), record.namespace, record.name, request)
            return
        await self._drop_references(record, {owner["uid"] for owner in gone})

    async def _carry_on(self, record: Record) -> None:
        finalizers = record.value["metadata"].get("finalizers") or ()
        uid = record.value["metadata"]["uid"]
        if record.kind is _NAMESPACES.stored:
            await self._empty_namespace(record)
        if ORPHAN in finalizers:
            for dependent in self._find_dependents(uid):
                await self._drop_references(dependent, {uid})
            await self._drop_finalizer(record, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = self._find_dependents(uid)
            if not dependents:
                await self._drop_finalizer(record, FOREGROUND)
            for dependent in dependents:
                if not dependent.value["metadata"].get("deletionTimestamp"):
                    request = DeleteRequest(policy="Foreground")
                    served = get_served(dependent.kind)
                    await delete_object(self._api, served, dependent.namespace, dependent.name, request)

    async def _empty_namespace(self, record: Record) -> None:
        """Delete what is in a namespace, then the namespace."""
        left = 0
        for served in _NAMESPACED:
            for found in self._in_namespace(served.stored.key, record.name):
                left += 1
                if not found.value["metadata"].get("deletionTimestamp"):
                    await delete_object(self._api, served, found.namespace, found.name, DeleteRequest())
                    left -= self._find(_key_of(found)) is None
        if not left:
            await self._change(record, _without_namespace_finalizers)

    def _in_namespace(self, kind_key: str, namespace: str) -> list[Record]:
        records = self._store.list(self._store.kinds[kind_key])
        return [record for record in records if record.namespace == namespace]

    async def _drop_references(self, record: Record, uids: set[str]) -> None:
        def drop(value: JsonObject) -> JsonObject:
            metadata = value["metadata"]
            kept = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] not in uids]
            metadata["ownerReferences"] = kept
            if not kept:
                del metadata["ownerReferences"]
            return value

        await self._change(record, drop)

    async def _drop_finalizer(self, record: Record, name: str) -> None:
        def drop(value: JsonObject) -> JsonObject:
            metadata = value["metadata"]
            metadata["finalizers"] = [found for found in metadata.get("finalizers") or () if found != name]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
            return value

        await self._change(record, drop)

    async def _change(self, record: Record, change: Change) -> None:
        options = WriteOptions(part="all")
        await self._store.change(
            record.kind, record.namespace, record.name, lambda old: change(old.copy()), options=options
        )

    def _find(self, key: ObjectKey) -> Record | None:
        return self._store.find(self._store.kinds[key[0]], key[1], key[2])

    def _find_dependents(self, uid: str) -> list[Record]:
        found = (self._find(key) for key in tuple(self._dependents.get(uid, ())))
        return [record for record in found if record is not None]

    def _is_gone(self, owner: JsonObject, record: Record) -> bool:
        """Tell whether an owner is known not to exist; owners of kinds that are not served count as existing."""
        kind = find_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if kind is None or not kind.is_listable:
            return False
        namespace = record.namespace if kind.namespaced else ""
        found = self._store.find(get_kind(kind).stored, namespace, owner.get("name", ""))
        return found is None or found.value["metadata"]["uid"] != owner.get("uid")

    def _is_ending(self, namespace: str) -> bool:
        found = self._store.find(_NAMESPACES.stored, "", namespace)
        return found is not None and bool(found.value["metadata"].get("deletionTimestamp"))


def _key_of(record: Record) -> ObjectKey:
    return record.kind.key, record.namespace, record.name


def _without_namespace_finalizers(value: JsonObject) -> JsonObject:
    value["spec"] = {name: found for name, found in (value.get("spec") or {}).items() if name != "finalizers"}
    return value
