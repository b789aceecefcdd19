"""A list/watch source that plays a script, for tests of what follows an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from claimsmith.api.kinds import Kind
from claimsmith.kube.client import ObjectList, WatchEvent


class Opened:
    """A step of a watch that yields nothing: the server takes the watch."""


Step = WatchEvent | Exception | Opened
OPENED: Final = Opened()


def pod(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "resourceVersion": str(version)}, "spec": spec}


def bookmark(version: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class ScriptedSource:
    """Answers lists and watches from scripts; when a script is used up, the watch waits for ever and `idle` is set."""

    def __init__(self, lists: list[ObjectList | Exception], watches: list[list[Step]]) -> None:
        self.lists, self.watches = list(lists), list(watches)
        self.watched_from: list[str] = []
        self.idle = asyncio.Event()

    async def list(
        self, kind: Kind, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(
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
        self.watched_from.append(resource_version)
        if not self.watches:
            if on_open is not None:
                on_open()
            self.idle.set()
            await asyncio.Event().wait()
        for step in self.watches.pop(0):
            if isinstance(step, Exception):
                raise step
            if not isinstance(step, Opened):
                yield step
            elif on_open is not None:
                on_open()
