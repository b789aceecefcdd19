"""Events on objects: written in the background, counted when they repeat, and few per object."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Protocol

from claimsmith.api.kinds import EVENT, Kind
from claimsmith.errors import ApiError, NotFoundError
from claimsmith.kube.client import KubeObject
from claimsmith.telemetry import get_logger, log_event

__all__ = ["MESSAGE_MAX", "EventClient", "EventRecorder", "EventType", "ObjectReference", "cut_text"]

EventType = Literal["Normal", "Warning"]

MESSAGE_MAX: Final = 1024
"""Longest message of an event in bytes. Source: pkg/apis/core/validation/events.go of kubernetes v1.37.2."""

_KNOWN_MAX: Final = 4096
_PENDING_MAX: Final = 2000
_BURST: Final = 25.0
_REFILL_PER_S: Final = 1 / 10
_log = get_logger("kube")


class EventClient(Protocol):
    """What the recorder needs of a client."""

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> KubeObject:
        """Create an object."""

    async def patch(self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "") -> KubeObject:
        """Change parts of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """The object that an event is about."""

    kind: Kind
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Key(NamedTuple):
    kind: Kind
    namespace: str
    name: str
    uid: str
    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _Record:
    """What the server has, or will have, of one event."""

    key: _Key
    resource_version: str
    name: str
    first: str
    last: str
    count: int = 1
    is_stored: bool = False
    is_waiting: bool = False


class EventRecorder:
    """Records events for one component.

    `record` never waits and never fails: an event is help for people, not state. What can't be written is dropped.
    One object gets at most 25 writes at once and one more every 10 seconds; repetitions in between are counted.

    Args:
        client: Access to Events.
        component: Name that events carry as their source, such as `claimsmith-scheduler`.
        now: The time of day, for the time stamps and the names of events.
    """

    def __init__(
        self, client: EventClient, component: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client, self._component, self._now = client, component, now
        self._records: OrderedDict[_Key, _Record] = OrderedDict()
        self._budgets: OrderedDict[tuple[Kind, str, str], tuple[float, float]] = OrderedDict()
        self._waiting: asyncio.Queue[_Record] = asyncio.Queue()
        self._serial = 0
        self.dropped = 0

    def record(self, about: ObjectReference, type: EventType, reason: str, message: str) -> None:
        """Note that something happened to an object.

        Args:
            about: The object.
            type: Normal or Warning.
            reason: One word in upper camel case, such as `Scheduled`.
            message: Text for people; cut to `MESSAGE_MAX` bytes.
        """
        key = _Key(about.kind, about.namespace, about.name, about.uid, type, reason, cut_text(message))
        now = self._now()
        record = self._records.get(key)
        if record is None:
            record = self._new_record(key, about, now)
        else:
            record.count += 1
            record.last = _text(now)
            self._records.move_to_end(key)
        if not record.is_waiting and self._take_budget(about, now.timestamp()):
            record.is_waiting = True
            self._waiting.put_nowait(record)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._write(await self._waiting.get())

    async def flush(self) -> None:
        """Write what waits, for the end of a process; `run` must have been cancelled."""
        while not self._waiting.empty():
            await self._write(self._waiting.get_nowait())

    def _new_record(self, key: _Key, about: ObjectReference, now: datetime) -> _Record:
        self._serial += 1
        stamp = int(now.timestamp() * 1_000_000) * 1000 + self._serial % 1000
        name = f"{about.name}.{stamp:x}"
        record = _Record(key, about.resource_version, name, _text(now), _text(now))
        self._records[key] = record
        while len(self._records) > _KNOWN_MAX:
            self._records.popitem(last=False)
        return record

    def _take_budget(self, about: ObjectReference, now_s: float) -> bool:
        """Take one write from the object's budget; False when there is none, or too much waits already."""
        if self._waiting.qsize() >= _PENDING_MAX:
            self.dropped += 1
            return False
        owner = (about.kind, about.namespace, about.name)
        left, since_s = self._budgets.pop(owner, (_BURST, now_s))
        left = min(_BURST, left + (now_s - since_s) * _REFILL_PER_S)
        self._budgets[owner] = (left - 1 if left >= 1 else left, now_s)
        while len(self._budgets) > _KNOWN_MAX:
            self._budgets.popitem(last=False)
        return left >= 1

    async def _write(self, record: _Record) -> None:
        record.is_waiting = False
        key = record.key
        namespace = key.namespace or "default"
        try:
            if record.is_stored:
                patch = {"count": record.count, "lastTimestamp": record.last}
                try:
                    await self._client.patch(EVENT, record.name, patch, namespace=namespace)
                    return
                except NotFoundError:
                    record.is_stored = False
            await self._client.create(EVENT, self._build(record), namespace=namespace)
            record.is_stored = True
        except ApiError as error:
            self.dropped += 1
            log_event(
                _log, logging.INFO, "event dropped", reason=key.reason, about=f"{key.kind.kind}/{key.name}", error=error
            )

    def _build(self, record: _Record) -> dict[str, Any]:
        key = record.key
        involved = {
            "apiVersion": key.kind.api_version,
            "kind": key.kind.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": key.uid,
            "resourceVersion": record.resource_version,
        }
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": record.name, "namespace": key.namespace or "default"},
            "involvedObject": {name: value for name, value in involved.items() if value},
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": record.first,
            "lastTimestamp": record.last,
            "count": record.count,
        }


def cut_text(text: str, *, bytes_max: int = MESSAGE_MAX) -> str:
    """Return the text, shortened to a number of bytes of UTF-8 with `…` at its end when it was longer."""
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    return data[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
