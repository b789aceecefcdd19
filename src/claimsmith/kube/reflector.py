"""A local copy of the objects of one kind that follows the API server: list, then watch, for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from claimsmith.api.kinds import Kind
from claimsmith.errors import ApiError, ClaimsmithError, GoneError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject, ObjectList, WatchEvent
from claimsmith.telemetry import get_logger, log_event

__all__ = ["Handler", "ListWatch", "ObjectKey", "Reflector", "Selection"]

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
"""Gets the object before and after a change: (None, new) added, (old, new) modified, (old, None) deleted."""

_WATCH_S: Final = 50
_SHORT_WATCH_S: Final = 1.0
_BATCH: Final = 200
"""Objects of a list that are taken in before others get their turn."""

_log = get_logger("kube")


class ObjectKey(NamedTuple):
    """Namespace (empty for cluster-wide kinds) and name."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: KubeObject) -> ObjectKey:
        """Return the key of an object."""
        metadata = obj.get("metadata") or {}
        return cls(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


class ListWatch(Protocol):
    """What a reflector needs of a client."""

    async def list(
        self, kind: Kind, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects."""

    def watch(  # noqa: PLR0913 - as of the client
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_s: int = 300,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes; call `on_open` when the server has taken the watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind; `namespace` None: of all namespaces."""

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""


class Reflector(Generic[T]):
    """The objects of one kind, decoded, and handlers that hear of every change.

    An object that can't be decoded is logged, kept in `undecodable`, and counts as absent: one odd object must not stop
    the others. A handler must be quick; one that raises is logged, and the others are still called. A kind that the
    server does not know, such as one of a later release, has no objects until the server knows it.

    Args:
        client: Where the objects come from.
        kind: The kind of the objects.
        decode: Makes the value that is kept and handed out; may raise.
        selection: Which objects; None: all.
        backoff: Pauses after failures.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        client: ListWatch,
        kind: Kind,
        decode: Callable[[KubeObject], T],
        *,
        selection: Selection | None = None,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.undecodable: dict[ObjectKey, Exception] = {}
        self.resource_version = ""
        self.last_error: ApiError | None = None
        self._client, self._decode = client, decode
        self._selection = selection or Selection()
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._objects: dict[ObjectKey, T] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in."""
        return self._synced.is_set()

    def find(self, namespace: str, name: str) -> T | None:
        """Return the object as last seen; None when it is not there."""
        return self._objects.get(ObjectKey(namespace, name))

    def subscribe(self, handler: Handler[T]) -> None:
        """Call the handler for all objects present, and from now on for every change."""
        self._handlers.append(handler)
        for obj in tuple(self._objects.values()):
            handler(None, obj)

    async def wait_synced(self) -> None:
        """Return once the first list is in."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            try:
                if not self.resource_version:
                    await self._relist()
                await self._follow()
                continue
            except GoneError as error:
                log_event(_log, logging.INFO, "must list anew", kind=self.kind.plural, error=error)
                self.resource_version = ""
                if self._backoff.failures == 0:
                    self._backoff.failures = 1
                    continue
                self.last_error = error
            except NotFoundError as error:
                self.last_error = error
                log_event(_log, logging.INFO, "kind is not served", kind=self.kind.plural, error=error)
                self._synced.set()
            except ApiError as error:
                self.last_error = error
                log_event(_log, logging.WARNING, "can't follow objects", kind=self.kind.plural, error=error)
            await self._backoff.wait()

    async def _relist(self) -> None:
        chosen = self._selection
        listed = await self._client.list(
            self.kind,
            namespace=chosen.namespace,
            label_selector=chosen.label_selector,
            field_selector=chosen.field_selector,
        )
        present = {ObjectKey.of(obj) for obj in listed.items}
        for key in [key for key in self._versions if key not in present]:
            self._remove(key)
        for count, obj in enumerate(listed.items, start=1):
            self._put(obj)
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        self.resource_version = listed.resource_version
        self._synced.set()

    async def _follow(self) -> None:
        """Take in the changes of one watch; returns when the server ends it."""
        chosen, started_s, count = self._selection, self._clock(), 0
        opened_s: float | None = None

        def note_open() -> None:
            """Take note that the server is there, though it may have nothing to tell for long."""
            nonlocal opened_s
            opened_s, self.last_error = self._clock(), None

        watch = self._client.watch(
            self.kind,
            namespace=chosen.namespace,
            label_selector=chosen.label_selector,
            field_selector=chosen.field_selector,
            resource_version=self.resource_version,
            timeout_s=_WATCH_S,
            on_open=note_open,
        )
        try:
            async with aclosing(watch) as events:
                async for event in events:
                    self._take(event)
                    self._backoff.reset()
                    self.last_error = None
                    count += 1
        finally:
            # A shorter one may be that of a server that breaks each at once.
            if opened_s is not None and self._clock() - opened_s >= _SHORT_WATCH_S:
                self._backoff.reset()
        if not count and self._clock() - started_s < _SHORT_WATCH_S:
            raise ApiError(
                f"watch of {self.kind.plural}: ended at once without an event, allowed a watch that lasts; wait"
            )

    def _take(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self._remove(ObjectKey.of(event.object))
        elif event.type != "BOOKMARK":
            self._put(event.object)
        self.resource_version = _version(event.object) or self.resource_version

    def _put(self, obj: KubeObject) -> None:
        key, version = ObjectKey.of(obj), _version(obj)
        if version and self._versions.get(key) == version:
            return
        try:
            new = self._decode(obj)
        except (ClaimsmithError, ValueError, TypeError, LookupError, AttributeError) as error:
            log_event(
                _log, logging.WARNING, "object can't be read", kind=self.kind.plural, key="/".join(key), error=error
            )
            self._remove(key)
            self._versions[key] = version
            self.undecodable[key] = error
            return
        self.undecodable.pop(key, None)
        self._versions[key] = version
        old = self._objects.get(key)
        self._objects[key] = new
        self._tell(old, new)

    def _remove(self, key: ObjectKey) -> None:
        self._versions.pop(key, None)
        self.undecodable.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            self._tell(old, None)

    def _tell(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                _log.exception("handler failed kind=%s", self.kind.plural)


def _version(obj: KubeObject) -> str:
    metadata: dict[str, Any] = obj.get("metadata") or {}
    return str(metadata.get("resourceVersion") or "")
