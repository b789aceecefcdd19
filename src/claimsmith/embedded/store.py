"""The store of the embedded cluster: JSON objects with versions, conflicts, finalizers and watches.

One counter numbers all writes, as etcd does. A write is visible and acknowledged only once its journal made it
durable; without a journal that is at once. Everything runs in one event loop, so that between a check and the write
it guards nothing can come.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

import msgspec

from claimsmith.embedded.store_changes import (
    WriteOptions,
    WritePart,
    format_time,
    plan_deletion,
    plan_object,
    plan_update,
)
from claimsmith.embedded.store_faults import already_exists, internal_error, not_found, unavailable, unmet
from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.embedded.store_records import ADDED, DELETED, MODIFIED, JsonObject, Record, StoreEvent
from claimsmith.embedded.store_select import EVERYTHING, Selection
from claimsmith.embedded.store_sqlite import Change, Journal
from claimsmith.embedded.store_watch import Watcher, WatchHub
from claimsmith.errors import ConfigError

__all__ = ["Deletion", "Store", "StoreLimits"]

ObjectKey = tuple[str, str]
"""Namespace (empty for none) and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """Bounds of the store.

    Args:
        history: Changes per kind kept for watchers that resume; older ones get 410.
        watcher_queue: Changes that may wait for one watcher; one more ends it with 410.
    """

    history: int = 5_000
    watcher_queue: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """How an object is to be deleted.

    Args:
        grace_s: Seconds that the object's keeper has before it vanishes; 0 for at once.
        uid: Delete only the object with this uid; empty for any.
        version: Delete only this resourceVersion; empty for any.
        finalizers: Finalizers to add, such as `foregroundDeletion`.
        is_graceful: Whether objects of its kind are told that they go, even if that is at once.
        dry_run: Check everything, change nothing.
    """

    grace_s: int = 0
    is_graceful: bool = False
    uid: str = ""
    version: str = ""
    finalizers: tuple[str, ...] = ()
    dry_run: bool = False


class _Batch:
    """Writes that become durable together."""

    __slots__ = ("changes", "done", "events")

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done
        self.events: list[StoreEvent] = []
        self.changes: list[Change] = []


class Store:
    """The objects of one cluster. Use it as an async context manager.

    Args:
        kinds: The kinds that it keeps.
        clock: Gives the time in seconds since 1970.
        new_uid: Gives a fresh uid.
        journal: Makes writes durable; None keeps them in memory alone.
        limits: Bounds of history and queues.
    """

    def __init__(
        self,
        kinds: Iterable[StoredKind],
        *,
        clock: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        journal: Journal | None = None,
        limits: StoreLimits | None = None,
    ) -> None:
        self.kinds = {kind.key: kind for kind in kinds}
        self.clock, self.new_uid = clock, new_uid
        self._journal, self._limits = journal, limits or StoreLimits()
        self._version = self._visible_version = 0
        self._objects: dict[str, dict[ObjectKey, Record]] = {key: {} for key in self.kinds}
        self._pending: dict[tuple[str, ObjectKey], Record | None] = {}
        self._closed = False
        self._batch: _Batch | None = None
        self._in_flight: _Batch | None = None
        self._committer: asyncio.Task[None] | None = None
        self._hubs: dict[str, WatchHub] = {}
        self._listeners: list[Callable[[StoreEvent], None]] = []
        if journal is not None:
            self._load(journal)
        self._make_hubs()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all watches, wait for open writes and release the journal."""
        self._closed = True
        self.end_all_watches()
        if self._committer is not None:
            await self._committer
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)
            self._journal = None

    @property
    def version(self) -> int:
        """Return the resourceVersion of the last visible write."""
        return self._visible_version

    def now(self) -> str:
        """Return the time as timestamps of the API write it."""
        return format_time(self.clock())

    # --- reading ------------------------------------------------------------------------------------------------------

    def find(self, kind: StoredKind, namespace: str, name: str) -> Record | None:
        """Return an object; None if it does not exist."""
        return self._objects[kind.key].get((namespace, name))

    def get(self, kind: StoredKind, namespace: str, name: str) -> Record:
        """Return an object.

        Raises:
            RequestError: 404, it does not exist.
        """
        record = self.find(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        return record

    def list(self, kind: StoredKind, selection: Selection = EVERYTHING) -> list[Record]:
        """Return the objects of a selection, ordered by namespace and name."""
        objects = self._objects[kind.key]
        name = selection.find_equal("metadata.name")
        if name is not None and (selection.namespace or not kind.namespaced):
            record = objects.get((selection.namespace, name))
            return [record] if record is not None and selection.matches(record.value) else []
        if selection == EVERYTHING:
            return [objects[key] for key in sorted(objects)]
        found = [record for record in objects.values() if selection.matches(record.value)]
        return sorted(found, key=lambda record: (record.namespace, record.name))

    def watch(self, kind: StoredKind, selection: Selection = EVERYTHING, *, since: int | None = None) -> Watcher:
        """Return a watcher; give it back with `end_watch`.

        Args:
            kind: Kind of the objects.
            selection: The objects of interest.
            since: Only changes after this resourceVersion; None tells of every object as `ADDED` first.

        Raises:
            RequestError: 410, the changes after `since` are no longer known.
        """
        initial = self.list(kind, selection) if since is None else None
        return self._hubs[kind.key].watch(selection, since or 0, initial)

    def end_watch(self, kind: StoredKind, watcher: Watcher) -> None:
        """End a watch and drop its watcher."""
        self._hubs[kind.key].forget(watcher)

    def end_all_watches(self) -> None:
        """End every open watch, as a server does that ends."""
        for hub in self._hubs.values():
            hub.close()

    def listen(self, listener: Callable[[StoreEvent], None]) -> None:
        """Call a function at every visible change of any kind; it must be quick and must not fail."""
        self._listeners.append(listener)

    def compact(self) -> None:
        """Forget the history of all kinds: watchers that resume get 410 and list again."""
        for hub in self._hubs.values():
            hub.compact()

    def compacted_version(self, kind: StoredKind) -> int:
        """Return the resourceVersion up to which the history of a kind is gone."""
        return self._hubs[kind.key].compacted_version

    def count_watchers(self) -> int:
        """Return the number of open watches."""
        return sum(hub.watcher_count for hub in self._hubs.values())

    # --- writing ------------------------------------------------------------------------------------------------------

    async def create(self, kind: StoredKind, value: JsonObject, *, dry_run: bool = False) -> Record:
        """Store a new object and return it.

        Args:
            kind: Kind of the object.
            value: The object, with `metadata.name`, and `metadata.namespace` if the kind has namespaces. It belongs to
                the store from now on.
            dry_run: Check everything, change nothing.

        Raises:
            RequestError: 409, an object of this name exists.
            ConfigError: The write could not be made durable.
        """
        metadata = value["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if (found := self._current(kind, key)) is not None:
            raise already_exists(kind, key[1], is_going="deletionTimestamp" in found.value["metadata"])
        record = Record(kind, plan_object(kind, value, uid=self.new_uid(), now=self.now()), self._version + 1)
        return await self._write(StoreEvent(ADDED, record), dry_run=dry_run)

    async def update(
        self,
        kind: StoredKind,
        value: JsonObject,
        *,
        part: WritePart = "main",
        dry_run: bool = False,
    ) -> Record:
        """Replace an object, or its status, and return it.

        Args:
            kind: Kind of the object.
            value: The object; `metadata.resourceVersion`, if not empty, must be the current one.
            part: `main` leaves the status as it is, `status` everything but the status, `all` changes both.
            dry_run: Check everything, change nothing.

        Raises:
            RequestError: 404, it does not exist; 409, another write came before or the uid differs.
            ConfigError: The write could not be made durable.
        """
        metadata = value["metadata"]
        options = WriteOptions(part=part, dry_run=dry_run)
        return await self.change(
            kind, metadata.get("namespace", ""), metadata["name"], lambda _old: value, options=options
        )

    async def change(
        self,
        kind: StoredKind,
        namespace: str,
        name: str,
        change: Callable[[Record], JsonObject],
        *,
        options: WriteOptions | None = None,
    ) -> Record:
        """Replace an object by what a function makes of it; no other write can come in between.

        Args:
            kind: Kind of the object.
            namespace: Namespace of the object; empty for none.
            name: Name of the object.
            change: Takes the current state, which it must not write to, and returns the new one.
            options: The part that is written, and whether to write at all.

        Returns:
            The new state; the old one if nothing changed.

        Raises:
            RequestError: 404, it does not exist; 409, the new state names another resourceVersion or uid.
            ConfigError: The write could not be made durable.
        """
        options = options or WriteOptions()
        old = self._current(kind, (namespace, name))
        if old is None:
            raise not_found(kind, name)
        planned = plan_update(old, change(old), options=options)
        if planned is None:
            await self._settle()
            return old
        record = Record(kind, planned, self._version + 1)
        if _is_released(planned):
            # Upstream answers with what the client sent, under the version that it had.
            planned["metadata"]["resourceVersion"] = str(old.version)
            await self._remove(old, dry_run=options.dry_run)
            return Record(kind, planned, old.version)
        return await self._write(StoreEvent(MODIFIED, record, old), dry_run=options.dry_run)

    async def delete(self, kind: StoredKind, namespace: str, name: str, deletion: Deletion | None = None) -> Record:
        """Delete an object, or mark it as being deleted when a finalizer or a grace period holds it.

        Args:
            kind: Kind of the object.
            namespace: Namespace of the object; empty for none.
            name: Name of the object.
            deletion: Preconditions, grace period and finalizers.

        Returns:
            The last state; `find` tells whether it is still there.

        Raises:
            RequestError: 404, it does not exist; 409, a precondition does not hold.
            ConfigError: The write could not be made durable.
        """
        deletion = deletion or Deletion()
        old = self._current(kind, (namespace, name))
        if old is None:
            raise not_found(kind, name)
        _check_preconditions(old, deletion)
        planned = plan_deletion(old.value, now=self.clock(), grace_s=deletion.grace_s, finalizers=deletion.finalizers)
        if planned is None:
            await self._settle()
            return old
        if _is_released(planned) and not deletion.is_graceful:
            return await self._remove(old, dry_run=deletion.dry_run)
        record = Record(kind, planned, self._version + 1)
        planned["metadata"]["resourceVersion"] = str(record.version)
        record = await self._write(StoreEvent(MODIFIED, record, old), dry_run=deletion.dry_run)
        if not _is_released(planned) or deletion.dry_run:
            return record
        latest = self._current(kind, (namespace, name))
        return record if latest is None else await self._remove(latest, dry_run=False)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _current(self, kind: StoredKind, key: ObjectKey) -> Record | None:
        """Return the state that the next write builds on, which may not be durable yet."""
        if self._pending:
            slot = (kind.key, key)
            if slot in self._pending:
                return self._pending[slot]
        return self._objects[kind.key].get(key)

    async def _remove(self, last: Record, *, dry_run: bool) -> Record:
        """Remove an object and return its last state, under the version of the deletion, as watchers see it."""
        if dry_run:
            return last
        return await self._write(StoreEvent(DELETED, last.at(self._version + 1), last), dry_run=False)

    async def _write(self, event: StoreEvent, *, dry_run: bool) -> Record:
        record = event.record
        if dry_run:
            return record
        if self._closed:
            raise unavailable("the store is closed")
        record.value["metadata"]["resourceVersion"] = str(record.version)
        self._version = record.version
        if self._journal is None:
            self._show(event)
            return record
        batch = self._open_batch()
        batch.events.append(event)
        gone = event.type == DELETED
        batch.changes.append(
            Change(
                kind=record.kind.key,
                namespace=record.namespace,
                name=record.name,
                version=record.version,
                body=None if gone else record.encoded,
            )
        )
        self._pending[record.kind.key, (record.namespace, record.name)] = None if gone else record
        await asyncio.shield(batch.done)
        return record

    async def _settle(self) -> None:
        """Wait until everything that the caller may have seen is durable."""
        for batch in (self._in_flight, self._batch):
            if batch is not None:
                await asyncio.shield(batch.done)

    def _show(self, event: StoreEvent) -> None:
        record = event.record
        objects = self._objects[record.kind.key]
        if event.type == DELETED:
            objects.pop((record.namespace, record.name), None)
        else:
            objects[record.namespace, record.name] = record
        self._visible_version = record.version
        self._hubs[record.kind.key].publish(event)
        for listener in self._listeners:
            listener(event)

    def _open_batch(self) -> _Batch:
        if self._batch is None:
            self._batch = _Batch(asyncio.get_running_loop().create_future())
            if self._committer is None or self._committer.done():
                self._committer = asyncio.create_task(self._commit_batches(), name="store-commit")
        return self._batch

    async def _commit_batches(self) -> None:
        while (batch := self._batch) is not None and self._journal is not None:
            await asyncio.sleep(0)
            self._in_flight, self._batch = batch, None
            try:
                await asyncio.to_thread(self._journal.commit, batch.changes)
            except ConfigError as error:
                self._fail(batch, error)
                continue
            finally:
                self._in_flight = None
            for event in batch.events:
                self._show(event)
                slot = (event.record.kind.key, (event.record.namespace, event.record.name))
                latest = self._pending.get(slot)
                if latest is event.record or (latest is None and not self._is_rewritten(slot)):
                    self._pending.pop(slot, None)
            batch.done.set_result(None)

    def _is_rewritten(self, slot: tuple[str, ObjectKey]) -> bool:
        """Tell whether the open batch holds a write of the same object."""
        batch = self._batch
        return batch is not None and any((c.kind, (c.namespace, c.name)) == slot for c in batch.changes)

    def _fail(self, batch: _Batch, error: ConfigError) -> None:
        """Refuse a batch that could not be made durable, and every write that built on it."""
        self._pending.clear()
        later, self._batch = self._batch, None
        for refused in (batch, later):
            if refused is not None:
                refused.done.set_exception(internal_error(str(error)))
                refused.done.exception()

    def _load(self, journal: Journal) -> None:
        saved = journal.load()
        for change in saved.objects:
            kind = self.kinds.get(change.kind)
            if kind is not None and change.body is not None:
                record = Record(kind, _decode_saved(change), change.version, change.body)
                self._objects[kind.key][record.namespace, record.name] = record
        self._version = self._visible_version = saved.version

    def _make_hubs(self) -> None:
        for key, kind in self.kinds.items():
            self._hubs[key] = WatchHub(
                kind,
                self._version,
                history_limit=self._limits.history,
                watcher_limit=self._limits.watcher_queue,
            )


def _decode_saved(change: Change) -> JsonObject:
    try:
        return msgspec.json.decode(change.body or b"", type=JsonObject)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"state file: damaged (object {change.kind} {change.namespace}/{change.name}: {error}); "
            "restore a copy or name another file, nothing was changed"
        ) from error


def _is_released(value: JsonObject) -> bool:
    """Tell whether an object is being deleted and nothing holds it any more."""
    metadata = value["metadata"]
    if not metadata.get("deletionTimestamp"):
        return False
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return not held and not (value["kind"] == "Namespace" and (value.get("spec") or {}).get("finalizers"))


def _check_preconditions(old: Record, deletion: Deletion) -> None:
    metadata = old.value["metadata"]
    for name, wanted, found, end in (
        ("UID", deletion.uid, metadata.get("uid", ""), "deleted and then recreated"),
        ("ResourceVersion", deletion.version, metadata.get("resourceVersion", ""), "modified"),
    ):
        if wanted and wanted != found:
            why = f"the {name} in the precondition ({wanted}) does not match the {name} in record ({found}). "
            raise unmet(old.kind, old.name, f"{why}The object might have been {end}")
