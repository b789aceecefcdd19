"""Protobuf bodies of the few kinds that kubectl sends in no other form, such as `kubectl create namespace`.

Answers are JSON: clients that send protobuf accept it. The kinds are read by a table of their fields, so that no
generated code is needed.

Source: generated.proto files of k8s.io/api v0.37.2 and k8s.io/apimachinery v0.37.2 (pkg/runtime, pkg/apis/meta/v1).

Deviates: protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from claimsmith.embedded.store_changes import format_time
from claimsmith.embedded.store_faults import bad_request
from claimsmith.errors import RequestError

__all__ = ["PROTOBUF_TYPE", "decode_protobuf"]

PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_MAX_DEPTH: Final = 16

_Field = tuple[str, str, bool]
"""JSON name; `string`, `int`, `bool`, `map`, `time` or the name of a message; whether it is repeated."""


def _one(name: str, form: str = "string") -> _Field:
    return (name, form, False)


def _many(name: str, form: str = "string") -> _Field:
    return (name, form, True)


_MESSAGES: Final[Mapping[str, Mapping[int, _Field]]] = MappingProxyType(
    {
        "ObjectMeta": {
            1: _one("name"),
            2: _one("generateName"),
            3: _one("namespace"),
            5: _one("uid"),
            6: _one("resourceVersion"),
            8: _one("creationTimestamp", "time"),
            11: _many("labels", "map"),
            12: _many("annotations", "map"),
            13: _many("ownerReferences", "OwnerReference"),
            14: _many("finalizers"),
        },
        "OwnerReference": {
            1: _one("kind"),
            3: _one("name"),
            4: _one("uid"),
            5: _one("apiVersion"),
            6: _one("controller", "bool"),
            7: _one("blockOwnerDeletion", "bool"),
        },
        "Namespace": {1: _one("metadata", "ObjectMeta"), 2: _one("spec", "NamespaceSpec")},
        "NamespaceSpec": {1: _many("finalizers")},
        "ServiceAccount": {
            1: _one("metadata", "ObjectMeta"),
            2: _many("secrets", "ObjectReference"),
            3: _many("imagePullSecrets", "LocalObjectReference"),
            4: _one("automountServiceAccountToken", "bool"),
        },
        "ObjectReference": {
            1: _one("kind"),
            2: _one("namespace"),
            3: _one("name"),
            4: _one("uid"),
            5: _one("apiVersion"),
            6: _one("resourceVersion"),
            7: _one("fieldPath"),
        },
        "LocalObjectReference": {1: _one("name")},
        "PriorityClass": {
            1: _one("metadata", "ObjectMeta"),
            2: _one("value", "int"),
            3: _one("globalDefault", "bool"),
            4: _one("description"),
            5: _one("preemptionPolicy"),
        },
        "Eviction": {1: _one("metadata", "ObjectMeta"), 2: _one("deleteOptions", "DeleteOptions")},
        "DeleteOptions": {
            1: _one("gracePeriodSeconds", "int"),
            2: _one("preconditions", "Preconditions"),
            3: _one("orphanDependents", "bool"),
            4: _one("propagationPolicy"),
            5: _many("dryRun"),
        },
        "Preconditions": {1: _one("uid"), 2: _one("resourceVersion")},
        "Unknown": {1: _one("typeMeta", "TypeMeta"), 2: _one("raw", "bytes")},
        "TypeMeta": {1: _one("apiVersion"), 2: _one("kind")},
        "Entry": {1: _one("key"), 2: _one("value")},
        "Time": {1: _one("seconds", "int"), 2: _one("nanos", "int")},
    }
)
_TOP_LEVEL: Final = ("DeleteOptions", "Eviction", "Namespace", "PriorityClass", "ServiceAccount")


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Return the object of a protobuf body as JSON would give it.

    Args:
        body: The body, with the prefix that Kubernetes puts in front.

    Raises:
        RequestError: 400, it is damaged; 415, its kind is not read as protobuf.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("protobuf parse error: the prefix k8s is missing")
    envelope = _read_message("Unknown", body[len(_MAGIC) :], 0)
    type_meta = envelope.get("typeMeta") or {}
    kind = type_meta.get("kind", "")
    if kind not in _TOP_LEVEL:
        message = f"{str(kind)[:80] or 'the object'} is not accepted as protobuf; send application/json"
        raise RequestError(415, "UnsupportedMediaType", message)
    return {**type_meta, **_read_message(kind, envelope.get("raw", b""), 0)}


def _read_message(name: str, body: bytes, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise bad_request("protobuf parse error: nested too deeply")
    fields = _MESSAGES[name]
    result: dict[str, Any] = {}
    for number, found in _iter_fields(body):
        field = fields.get(number)
        if field is None:
            continue
        key, form, repeated = field
        value = _read_value(form, found, depth)
        if form == "map":
            result.setdefault(key, {})[value.get("key", "")] = value.get("value", "")
        elif repeated:
            result.setdefault(key, []).append(value)
        elif value not in ("", {}):
            result[key] = value
    return result


def _read_value(form: str, found: int | bytes, depth: int) -> Any:
    if form in ("int", "bool"):
        if not isinstance(found, int):
            raise _damaged()
        number = found - (1 << 64) if found >= 1 << 63 else found
        return bool(number) if form == "bool" else number
    if not isinstance(found, bytes):
        raise _damaged()
    if form == "bytes":
        return found
    if form == "string":
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise _damaged() from error
    if form == "time":
        seconds = _read_message("Time", found, depth + 1).get("seconds", 0)
        return format_time(seconds) if 0 < seconds < 253_402_300_800 else ""
    return _read_message("Entry" if form == "map" else form, found, depth + 1)


def _iter_fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: a whole number, or the bytes of a text or message."""
    position = 0
    while position < len(body):
        tag, position = _read_varint(body, position)
        wire_type = tag & 7
        if wire_type == 0:
            value, position = _read_varint(body, position)
            yield tag >> 3, value
            continue
        if wire_type == 2:
            size, position = _read_varint(body, position)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise _damaged()
        if position + size > len(body):
            raise _damaged()
        yield tag >> 3, body[position : position + size]
        position += size


def _read_varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(body) and shift < 70:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
        shift += 7
    raise _damaged()


def _damaged() -> RequestError:
    return bad_request("protobuf parse error: the body is damaged")
