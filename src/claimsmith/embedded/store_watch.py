"""Watches: a bounded history per kind, and a bounded queue per watcher."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from claimsmith.embedded.store_faults import expired
from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.embedded.store_records import ADDED, DELETED, MODIFIED, JsonObject, Record, StoreEvent
from claimsmith.embedded.store_select import Selection, field_value
from claimsmith.errors import RequestError

__all__ = ["WatchHub", "Watcher", "WatcherItem"]

WatcherItem = tuple[str, StoreEvent]
"""A change and how the watcher sees it: `ADDED`, `MODIFIED` or `DELETED`."""


class Watcher:
    """The changes of one selection, in order. Read by one task.

    Args:
        selection: The objects of interest.
        limit: Number of changes that may wait to be read; one more ends the watch.
        since: Only changes after this resourceVersion.
    """

    __slots__ = ("_closed", "_failure", "_queue", "_waiter", "limit", "selection", "since")

    def __init__(self, selection: Selection, limit: int, *, since: int = 0) -> None:
        self.selection, self.limit, self.since = selection, limit, since
        self._queue: deque[WatcherItem] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: RequestError | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Tell whether the watch has ended."""
        return self._closed

    async def next_batch(self, timeout_s: float | None = None) -> list[WatcherItem]:
        """Return the changes that wait, after waiting for the first one.

        Args:
            timeout_s: Longest time to wait; None for no limit.

        Returns:
            At least one change; none when the time is over or the watch was closed.

        Raises:
            RequestError: 410, the reader was too slow and has lost changes; list again.
        """
        if not self._queue and not self._closed:
            await self._wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        batch = list(self._queue)
        self._queue.clear()
        return batch

    def offer(self, event: StoreEvent) -> None:
        """Queue a change if the selection has to do with it."""
        if self._closed or event.version <= self.since:
            return
        seen = _seen_as(self.selection, event)
        if seen is None:
            return
        self._queue.append((seen, event))
        if len(self._queue) > self.limit:
            self._failure = expired(f"the watcher is too slow: more than {self.limit} changes wait to be read")
            self._queue.clear()
            self._closed = True
        self._wake()

    def preload(self, items: Iterable[WatcherItem]) -> None:
        """Queue what happened before the watch began; the limit does not count it."""
        self._queue.extend(items)
        self.limit += len(self._queue)

    def close(self) -> None:
        """End the watch; what waits can still be read."""
        self._closed = True
        self._wake()

    async def _wait(self, timeout_s: float | None) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError:
            return
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WatchHub:
    """All watchers of one kind. A change is matched only with watchers that may care: those of its field values.

    Args:
        kind: Kind of the objects.
        version: resourceVersion at the start; nothing before it can be watched.
        history_limit: Number of changes kept for watchers that resume.
        watcher_limit: Number of changes that may wait for one watcher.
    """

    def __init__(self, kind: StoredKind, version: int, *, history_limit: int, watcher_limit: int) -> None:
        self.kind, self.compacted_version = kind, version
        self._history: deque[StoreEvent] = deque()
        self._history_limit, self._watcher_limit = history_limit, watcher_limit
        self._paths = (*kind.indexed_fields, "metadata.name")
        self._general: dict[Watcher, None] = {}
        self._indexed: dict[tuple[str, str], dict[Watcher, None]] = {}

    def publish(self, event: StoreEvent) -> None:
        """Tell every watcher of a change."""
        self._history.append(event)
        if len(self._history) > self._history_limit:
            self.compacted_version = self._history.popleft().version
        for watcher in tuple(self._general):
            watcher.offer(event)
        if self._indexed:
            for watcher in self._indexed_watchers(event):
                watcher.offer(event)

    def watch(self, selection: Selection, since: int, initial: Iterable[Record] | None = None) -> Watcher:
        """Return a new watcher.

        Args:
            selection: The objects of interest.
            since: Only changes after this resourceVersion.
            initial: Objects that are told of as `ADDED` first, instead of the changes after `since`.

        Raises:
            RequestError: 410, the changes after `since` are no longer known.
        """
        watcher = Watcher(selection, self._watcher_limit, since=since)
        if initial is not None:
            watcher.preload((ADDED, StoreEvent(ADDED, record)) for record in initial)
        else:
            self._replay(watcher, since)
        bucket = self._bucket(selection)
        target = self._general if bucket is None else self._indexed.setdefault(bucket, {})
        target[watcher] = None
        return watcher

    def forget(self, watcher: Watcher) -> None:
        """End a watch and drop its watcher."""
        watcher.close()
        bucket = self._bucket(watcher.selection)
        if bucket is None:
            self._general.pop(watcher, None)
            return
        members = self._indexed.get(bucket, {})
        members.pop(watcher, None)
        if not members:
            self._indexed.pop(bucket, None)

    def close(self) -> None:
        """End all watches."""
        for watcher in self._watchers():
            watcher.close()

    def compact(self) -> None:
        """Forget all history, as etcd does when it is compacted; resuming watchers get 410."""
        if self._history:
            self.compacted_version = self._history[-1].version
            self._history.clear()

    @property
    def watcher_count(self) -> int:
        """Return the number of open watches."""
        return len(self._watchers())

    def _watchers(self) -> list[Watcher]:
        return [*self._general, *(watcher for members in self._indexed.values() for watcher in members)]

    def _replay(self, watcher: Watcher, since: int) -> None:
        if since < self.compacted_version:
            raise expired(f"too old resource version: {since} ({self.compacted_version})")
        later = []
        for event in reversed(self._history):
            if event.version <= since:
                break
            later.append(event)
        seen = ((_seen_as(watcher.selection, event), event) for event in reversed(later))
        watcher.preload((how, event) for how, event in seen if how is not None)

    def _bucket(self, selection: Selection) -> tuple[str, str] | None:
        for path in self._paths:
            value = selection.find_equal(path)
            if value is not None:
                return (path, value)
        return None

    def _indexed_watchers(self, event: StoreEvent) -> list[Watcher]:
        states: list[JsonObject] = [event.record.value]
        if event.previous is not None:
            states.append(event.previous.value)
        buckets = {(path, field_value(state, path)) for path in self._paths for state in states}
        return [watcher for bucket in buckets for watcher in self._indexed.get(bucket, ())]


def _seen_as(selection: Selection, event: StoreEvent) -> str | None:
    """Return how a watcher of a selection sees a change; None if it has nothing to do with it.

    Source: k8s.io/apiserver v0.37.2 pkg/storage/cacher/cache_watcher.go, convertToWatchEvent.
    """
    before = event.previous is not None and selection.matches(event.previous.value)
    after = event.type != DELETED and selection.matches(event.record.value)
    if event.type == DELETED and event.previous is None:
        before = selection.matches(event.record.value)
    if after:
        return MODIFIED if before else ADDED
    return DELETED if before else None
