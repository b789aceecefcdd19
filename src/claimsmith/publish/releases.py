"""Devices that people release by hand, since their rule lets none return by itself: asked for in an annotation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from claimsmith.api.kinds import NODE, Kind
from claimsmith.errors import ApiError, ConflictError, FieldError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.reflector import Reflector, Selection
from claimsmith.model.names import DeviceId
from claimsmith.telemetry import get_logger, log_event

__all__ = ["RELEASE_ANNOTATION", "ReleaseWatch", "ask_release", "parse_device_id", "plan_releases", "read_releases"]

RELEASE_ANNOTATION: Final = "claimsmith.dev/release-devices"
"""Annotation of a Node: devices to be released, as `driver/pool/device`, separated by spaces; the agent empties it."""
_TRIES: Final = 4

_log = get_logger("publish")


class ReleaseClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str) -> KubeObject:
        """Return one object."""
        ...

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any]) -> KubeObject:
        """Change parts of an object."""
        ...


def parse_device_id(text: str) -> DeviceId:
    """Return the device of `driver/pool/device`; names of pools may have slashes.

    Raises:
        FieldError: It has fewer parts.
    """
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    if not driver or not pool or not device:
        raise FieldError("device", text, allowed="DRIVER/POOL/DEVICE", hint="write all of it")
    return DeviceId(driver, pool, device)


def read_releases(node: KubeObject) -> frozenset[DeviceId]:
    """Return the devices that a Node asks to be released; words that are none are passed over."""
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(RELEASE_ANNOTATION) or ""
    found = set()
    for word in text.split():
        try:
            found.add(parse_device_id(word))
        except FieldError:
            continue
    return frozenset(found)


def plan_releases(
    node: KubeObject, *, add: Iterable[DeviceId] = (), done: Iterable[DeviceId] = ()
) -> Mapping[str, Any] | None:
    """Return the merge patch that asks for more, or for fewer; None when it is as it should be.

    Args:
        node: The Node as the server has it.
        add: Devices to be released.
        done: Devices that need not be any more.
    """
    before = read_releases(node)
    after = (before | set(add)) - set(done)
    if after == before:
        return None
    metadata = node.get("metadata") or {}
    text = " ".join(map(str, sorted(after))) or None
    return {"metadata": {"annotations": {RELEASE_ANNOTATION: text}, "resourceVersion": metadata.get("resourceVersion")}}


async def ask_release(
    client: ReleaseClient, node: str, *, add: Iterable[DeviceId] = (), done: Iterable[DeviceId] = ()
) -> None:
    """Ask the agent of a node to release devices, or take that back.

    Raises:
        NotFoundError: There is no such node.
        ApiError: The server refused, or could not be reached.
    """
    added, taken_back = tuple(add), tuple(done)
    for attempt in range(_TRIES):
        patch = plan_releases(await client.get(NODE, node), add=added, done=taken_back)
        if patch is None:
            return
        try:
            await client.patch(NODE, node, patch)
            return
        except ConflictError:
            if attempt == _TRIES - 1:
                raise


class ReleaseWatch:
    """Hands on what a Node asks to be released, and tells the Node that it is done.

    Args:
        client: The API server.
        node: Name of the node.
        release: Releases a device; tells whether that had an effect.
        backoff: Pauses after failures.
    """

    def __init__(
        self, client: KubeClient, node: str, release: Callable[[DeviceId], bool], *, backoff: Backoff | None = None
    ) -> None:
        self._client, self._node, self._release = client, node, release
        self._backoff = backoff or Backoff(initial_s=0.5)
        self._wake = asyncio.Event()
        selection = Selection(field_selector=f"metadata.name={node}")
        self._nodes: Reflector[KubeObject] = Reflector(client, NODE, lambda obj: obj, selection=selection)
        self._nodes.subscribe(self._look)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._nodes.run(), name="releases")
            try:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    await self._turn()
            finally:
                follower.cancel()

    async def _turn(self) -> None:
        node = self._nodes.find("", self._node)
        asked = read_releases(node) if node is not None else frozenset()
        for device in sorted(asked):
            is_done = self._release(device)
            message = "Device released by hand" if is_done else "Device not released: it has not failed, or still fails"
            log_event(_log, logging.INFO, message, device=device)
        if not asked:
            return
        try:
            await ask_release(self._client, self._node, done=asked)
            self._backoff.reset()
        except ApiError as error:
            log_event(_log, logging.WARNING, "A node can't be told of released devices", reason=error)
            await self._backoff.wait()
            self._wake.set()

    def _look(self, before: KubeObject | None, after: KubeObject | None) -> None:
        del before
        if after is not None and read_releases(after):
            self._wake.set()
