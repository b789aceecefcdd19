"""Stored objects and what happened to them, each encoded once however many clients read it."""

from __future__ import annotations

from typing import Any

import msgspec

from claimsmith.embedded.store_kinds import StoredKind

__all__ = ["ADDED", "DELETED", "MODIFIED", "JsonObject", "Record", "StoreEvent", "encode_json", "watch_line"]

JsonObject = dict[str, Any]
"""An object of the API as JSON decodes it."""

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

encode_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Record:
    """One stored state of one object. Never changed once made: `value` is shared and must not be written to."""

    __slots__ = ("_encoded", "kind", "name", "namespace", "value", "version")

    def __init__(self, kind: StoredKind, value: JsonObject, version: int, encoded: bytes | None = None) -> None:
        metadata = value["metadata"]
        self.kind, self.value, self.version = kind, value, version
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self._encoded = encoded

    @property
    def encoded(self) -> bytes:
        """Return the object as JSON."""
        if self._encoded is None:
            self._encoded = encode_json(self.value)
        return self._encoded

    def at(self, version: int) -> Record:
        """Return the same state under another version."""
        metadata = {**self.value["metadata"], "resourceVersion": str(version)}
        return Record(self.kind, {**self.value, "metadata": metadata}, version)

    def copy(self) -> JsonObject:
        """Return the object as a value that the caller may change."""
        return _decode(self.encoded)


class StoreEvent:
    """One change of one object, as watchers see it.

    Args:
        type: `ADDED`, `MODIFIED` or `DELETED`.
        record: The state after the change; for `DELETED` the last state, with the version of the deletion.
        previous: The state before the change; None for `ADDED`.
    """

    __slots__ = ("_departed", "_lines", "previous", "record", "type")

    def __init__(self, type: str, record: Record, previous: Record | None = None) -> None:
        self.type, self.record, self.previous = type, record, previous
        self._lines: dict[str, bytes] = {}
        self._departed: Record | None = None

    @property
    def version(self) -> int:
        """Return the resourceVersion of the change."""
        return self.record.version

    @property
    def departed(self) -> Record:
        """Return the state that a watcher sees when the change moved the object out of its selection."""
        if self._departed is None:
            self._departed = (self.previous or self.record).at(self.version)
        return self._departed

    def line(self, as_type: str) -> bytes:
        """Return the line of a watch response that tells of this change.

        Args:
            as_type: How the watcher sees the change; its selection decides.
        """
        line = self._lines.get(as_type)
        if line is None:
            line = watch_line(as_type, self.seen(as_type).encoded)
            self._lines[as_type] = line
        return line

    def seen(self, as_type: str) -> Record:
        """Return the state that a watcher sees together with `as_type`."""
        return self.departed if as_type == DELETED and self.type != DELETED else self.record


def watch_line(event_type: str, encoded: bytes) -> bytes:
    """Return one line of a watch response."""
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), encoded)
