"""Watches over HTTP: one JSON line per change, bookmarks, an end that clients can resume from.

Source: k8s.io/apiserver v0.37.2 pkg/endpoints/handlers/watch.go; KEP-3157 for sendInitialEvents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.embedded.api.accept import AcceptedForm
from claimsmith.embedded.api.http import Request, is_true, status_value
from claimsmith.embedded.api.listing import check_match, parse_number, parse_selection, parse_version
from claimsmith.embedded.api.render import RowRenderer, make_renderer
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_faults import invalid_options
from claimsmith.embedded.store_records import encode_json, watch_line
from claimsmith.embedded.store_watch import Watcher
from claimsmith.errors import RequestError

__all__ = ["WatchStream", "next_bookmark", "open_watch"]

BOOKMARK_PERIOD_S: Final = 60.0
LAST_BOOKMARK_S: Final = 2.0
"""How long before the end of a watch its last bookmark comes."""
DEFAULT_TIMEOUT_S: Final = 1800.0
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}

Write = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class WatchStream:
    """One open watch of one client.

    Args:
        store: The objects.
        served: Kind of the objects.
        watcher: Where the changes come from.
        renderer: Gives a change the form that the client asked for; None for the plain object as it is kept.
        bookmarks: Whether the client wants bookmarks.
        initial_end: Whether the client wants to know where the initial objects end.
        timeout_s: Seconds after which the watch ends.
    """

    store: Store
    served: ServedKind
    watcher: Watcher
    renderer: RowRenderer | None
    bookmarks: bool
    initial_end: bool
    timeout_s: float

    async def run(self, request: Request, write: Write) -> None:
        """Write changes until the time is over, the client is gone, or the server ends."""
        gone = asyncio.create_task(self._wait_until_gone(request))
        try:
            await self._pump(write)
        except RequestError as error:
            await write(watch_line("ERROR", encode_json(status_value(error))))
        finally:
            gone.cancel()
            self.store.end_watch(self.served.stored, self.watcher)

    async def _pump(self, write: Write) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        if self.initial_end:
            await self._write_batch(write)
            await write(self._bookmark(_INITIAL_END))
        due = next_bookmark(loop.time(), deadline)
        while (now := loop.time()) < deadline:
            if now >= due:
                if self.bookmarks:
                    await write(self._bookmark())
                due = next_bookmark(now, deadline)
            await self._write_batch(write, min(deadline, due) - now)
            if self.watcher.closed:
                await self._write_batch(write)
                return

    async def _write_batch(self, write: Write, timeout_s: float = 0.0) -> None:
        batch = await self.watcher.next_batch(timeout_s)
        if not batch:
            return
        if self.renderer is None:
            await write(b"".join([event.line(seen) for seen, event in batch]))
        else:
            await write(b"".join([watch_line(seen, self.renderer(event.seen(seen))) for seen, event in batch]))

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(self.store.version)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        kind = self.served.kind
        value = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return watch_line("BOOKMARK", encode_json(value))

    async def _wait_until_gone(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.watcher.close()


def next_bookmark(now: float, deadline: float) -> float:
    """Return when a bookmark is due: each minute, and last just before the end; the end itself for none.

    Args:
        now: The time, in seconds.
        deadline: When the watch ends, in seconds.

    Source: cacheWatcher.nextBookmarkTime, k8s.io/apiserver v0.37.2 pkg/storage/cacher/cache_watcher.go.
    """
    last = deadline - LAST_BOOKMARK_S
    if last > now:
        return min(now + BOOKMARK_PERIOD_S, last)
    return deadline


def open_watch(store: Store, served: ServedKind, namespace: str, request: Request, form: AcceptedForm) -> WatchStream:
    """Return the watch that a request asks for; nothing is lost from here on.

    Args:
        store: The objects.
        served: Kind of the objects.
        namespace: Namespace; empty for all.
        request: The request with its query.
        form: The form of the objects.

    Raises:
        RequestError: 410, the changes since the version are gone; 400, the query can't be read.
    """
    query = request.query
    selection = parse_selection(served, namespace, query)
    timeout_s = parse_number(query, "timeoutSeconds") or DEFAULT_TIMEOUT_S
    initial = _parse_initial(query)
    version = _parse_since(query)
    since = store.version if initial is False and not version else version or None
    watcher = store.watch(served.stored, selection, since=None if initial else since)
    return WatchStream(
        store=store,
        served=served,
        watcher=watcher,
        renderer=None if served.is_hub and not form.shape else make_renderer(served, form, query, clock=store.clock),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_end=bool(initial) and request.flag("allowWatchBookmarks"),
        timeout_s=timeout_s,
    )


def _parse_initial(query: Mapping[str, str]) -> bool | None:
    """Return whether the watch begins with all objects; None if the request leaves it open."""
    match, is_given = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    field, causes = "resourceVersionMatch", []
    if is_given and match != "NotOlderThan":
        message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(("FieldValueForbidden", message, field))
    if match and not is_given:
        message = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(("FieldValueForbidden", message, field))
    if match:
        causes += check_match(match, ("NotOlderThan",), has_token=bool(query.get("continue")))
    if causes:
        raise invalid_options("ListOptions", causes)
    return is_true(query["sendInitialEvents"]) if is_given else None


def _parse_since(query: Mapping[str, str]) -> int | None:
    """Return the version that a watch goes on from; one that can't be read is a fault of the server's, as upstream."""
    try:
        return parse_version(query)
    except RequestError as error:
        raise RequestError(500, "", error.message.removeprefix("invalid resource version: ")) from error
