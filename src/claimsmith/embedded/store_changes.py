"""What a write makes of an object: the fields that only the server sets, and the parts that a write may touch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from claimsmith.embedded.store_faults import conflict, invalid
from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.embedded.store_records import JsonObject, Record
from claimsmith.errors import RequestError

__all__ = ["WriteOptions", "WritePart", "format_time", "other_uid", "plan_deletion", "plan_object", "plan_update"]

WritePart = Literal["main", "status", "all"]
"""What a write may touch: everything but the status, the status alone, or both."""

_SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_STATUS_METADATA = ("labels", "annotations", "managedFields")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How an object is written.

    Args:
        part: What may be touched.
        dry_run: Check everything, change nothing.
        admit: Called with the state before and the state to be stored, which it may still complete; raises to refuse.
    """

    part: WritePart = "main"
    dry_run: bool = False
    admit: Callable[[Record, JsonObject], None] | None = None


def format_time(seconds: float) -> str:
    """Return a time since 1970 as timestamps of the API write it, such as `2030-01-31T23:59:59Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def plan_object(kind: StoredKind, value: JsonObject, *, uid: str, now: str) -> JsonObject:
    """Return a new object with what the server sets.

    Args:
        kind: Kind of the object.
        value: What the client sent.
        uid: The object's uid.
        now: Time of creation.
    """
    sent = value["metadata"]
    # A generation that nobody counts stays as it is sent.
    dropped = {*_SERVER_FIELDS, "selfLink"} - (set() if kind.counts_generation else {"generation"})
    metadata = {key: found for key, found in sent.items() if key not in dropped}
    metadata |= {"uid": uid, "creationTimestamp": now}
    if kind.counts_generation:
        metadata["generation"] = 1
    metadata.pop("resourceVersion", None)
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        **_without(value, "kind", "apiVersion"),
        "metadata": metadata,
    }


def plan_update(old: Record, new: JsonObject, *, options: WriteOptions) -> JsonObject | None:
    """Return the state after a write; None if the write changes nothing.

    Args:
        old: The state before.
        new: What the client wants.
        options: The part that is written.

    Raises:
        RequestError: 409, the client knew another version or another object; 422, it adds a finalizer too late.
    """
    _check_identity(old, new["metadata"])
    planned = _keep_parts(old.kind, old.value, new, options.part)
    before, after = old.value["metadata"], planned["metadata"]
    _check_finalizers(old, after)
    if old.kind.counts_generation and options.part == "main" and _wanted_state(old.value) != _wanted_state(planned):
        after["generation"] = before.get("generation", 0) + 1
    if planned == old.value:
        return None
    if options.admit is not None:
        options.admit(old, planned)
    return planned


def plan_deletion(
    value: JsonObject, *, now: float, grace_s: int, finalizers: tuple[str, ...] = ()
) -> JsonObject | None:
    """Return an object that is marked as being deleted; None if it is already marked in that way.

    Args:
        value: The object.
        now: Seconds since 1970.
        grace_s: Seconds until it may vanish; a later deletion can only shorten them.
        finalizers: Finalizers to add.
    """
    before = value["metadata"]
    known = before.get("finalizers") or []
    held = [*known, *(name for name in finalizers if name not in known)]
    metadata: dict[str, Any] = {**before}
    if held:
        metadata["finalizers"] = held
    if before.get("deletionTimestamp"):
        grace_s = min(grace_s, before.get("deletionGracePeriodSeconds", 0))
        shortened = grace_s < before.get("deletionGracePeriodSeconds", 0)
        if shortened:
            metadata["deletionGracePeriodSeconds"] = grace_s
            metadata["deletionTimestamp"] = min(before["deletionTimestamp"], format_time(now + grace_s))
        elif held == known and (known or grace_s):
            return None
        return {**value, "metadata": metadata}
    metadata["deletionTimestamp"] = format_time(now + grace_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    if "generation" in metadata:
        metadata["generation"] += 1
    return {**value, "metadata": metadata}


def other_uid(old: Record, uid: str) -> str:
    """Return why a write is refused that is meant for an object of another uid.

    Source: NewInvalidObjError, k8s.io/apiserver v0.37.2 pkg/storage/errors.go.
    """
    key = "/".join(("/registry", old.kind.plural, *((old.namespace,) if old.namespace else ()), old.name))
    found = old.value["metadata"]["uid"]
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"


def _check_identity(old: Record, sent: dict[str, Any]) -> None:
    before = old.value["metadata"]
    uid, version = sent.get("uid"), sent.get("resourceVersion")
    if uid and uid != before.get("uid"):
        raise conflict(old.kind, old.name, other_uid(old, uid))
    if version and not version.isdigit():
        raise RequestError(500, "", f'strconv.ParseUint: parsing "{version[:80]}": invalid syntax')
    if version and version != before["resourceVersion"]:
        raise conflict(old.kind, old.name)


def _keep_parts(kind: StoredKind, old: JsonObject, new: JsonObject, part: WritePart) -> JsonObject:
    before = old["metadata"]
    if part == "status":
        metadata = {**before}
        carried = _STATUS_METADATA if kind.status_carries_metadata else ("managedFields",)
        _carry(metadata, new["metadata"], carried)
        planned = {**old, "metadata": metadata}
        _carry(planned, new, ("status",))
        return planned
    metadata = {key: found for key, found in new["metadata"].items() if key != "selfLink"}
    _carry(metadata, before, (*_SERVER_FIELDS, "name", "namespace", "resourceVersion"))
    planned = {"kind": old["kind"], "apiVersion": old["apiVersion"], **_without(new, "kind", "apiVersion")}
    planned["metadata"] = metadata
    if part == "main" and kind.has_status:
        _carry(planned, old, ("status",))
    return planned


def _carry(target: JsonObject, source: JsonObject, names: tuple[str, ...]) -> None:
    """Make fields of one mapping those of another, absent ones too."""
    for name in names:
        if name in source:
            target[name] = source[name]
        else:
            target.pop(name, None)


def _check_finalizers(old: Record, after: dict[str, Any]) -> None:
    before = old.value["metadata"]
    if not before.get("deletionTimestamp"):
        return
    added = sorted(set(after.get("finalizers") or ()) - set(before.get("finalizers") or ()))
    if added:
        names = ", ".join(f'"{name}"' for name in added)
        rule = "no new finalizers can be added if the object is being deleted"
        message = f"Forbidden: {rule}, found new finalizers []string{{{names}}}"
        raise invalid(old.kind, old.name, [("FieldValueForbidden", message, "metadata.finalizers")])


def _wanted_state(value: JsonObject) -> JsonObject:
    return _without(value, "metadata", "status")


def _without(value: JsonObject, *names: str) -> JsonObject:
    return {key: found for key, found in value.items() if key not in names}
