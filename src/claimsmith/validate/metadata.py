"""Rules of `metadata` that all kinds share, and of the conditions in a status.

Source: k8s.io/apimachinery v0.37.2 pkg/api/validation/objectmeta.go and pkg/apis/meta/v1/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from claimsmith.api.wire.meta import Condition, ObjectMeta, OwnerReference
from claimsmith.validate.issues import (
    FieldIssue,
    find_duplicates,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from claimsmith.validate.names import check_condition_type, check_dns_label, check_label_key, check_label_value

__all__ = ["check_conditions", "check_labels_and_annotations", "check_metadata", "check_metadata_update"]

_ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
_REASON_BYTES_MAX: Final = 1024
_MESSAGE_BYTES_MAX: Final = 32 * 1024
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON.pattern}')"
)
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_STATUSES: Final = ("False", "True", "Unknown")

NameCheck = Callable[[str, str], Iterator[FieldIssue]]


def check_metadata(metadata: ObjectMeta, check_name: NameCheck, *, namespaced: bool) -> Iterator[FieldIssue]:
    """Yield what is wrong with the metadata of a new object, whose name has been generated if need be.

    Args:
        metadata: The metadata.
        check_name: The rule for names of the kind.
        namespaced: Whether the kind needs a namespace; otherwise it must not have one.
    """
    if metadata.generate_name:
        yield from _check_generate_name(metadata.generate_name, check_name)
    if not metadata.name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from check_name(metadata.name, "metadata.name")
    if namespaced:
        if not metadata.namespace:
            yield required("metadata.namespace")
        else:
            yield from check_dns_label(metadata.namespace, "metadata.namespace")
    elif metadata.namespace:
        yield forbidden("metadata.namespace", "not allowed on this type")
    yield from _check_common(metadata)
    yield from _check_finalizers(metadata.finalizers or ())


def _check_generate_name(prefix: str, check_name: NameCheck) -> Iterator[FieldIssue]:
    """Check the beginning of a name, which may end in a dash. Source: maskTrailingDash in pkg/api/validation."""
    begun = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    for issue in check_name(begun, ""):
        yield invalid("metadata.generateName", prefix, issue.detail)


def check_metadata_update(new: ObjectMeta, old: ObjectMeta) -> Iterator[FieldIssue]:
    """Yield what is wrong with a change of metadata."""
    if old.deletion_timestamp is not None:
        added = sorted(set(new.finalizers or ()) - set(old.finalizers or ()))
        if added:
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", why + ", ".join(added))
    if (new.generation or 0) < (old.generation or 0):
        yield invalid("metadata.generation", new.generation or 0, "must not be decremented")
    for name, before, after in (
        ("name", old.name, new.name),
        ("namespace", old.namespace, new.namespace),
        ("uid", old.uid, new.uid),
        ("creationTimestamp", old.creation_timestamp, new.creation_timestamp),
        ("deletionTimestamp", old.deletion_timestamp, new.deletion_timestamp),
        ("deletionGracePeriodSeconds", old.deletion_grace_period_seconds, new.deletion_grace_period_seconds),
    ):
        if (before or None) != (after or None):
            yield immutable(f"metadata.{name}", after or "")
    yield from _check_common(new)


def _check_common(metadata: ObjectMeta) -> Iterator[FieldIssue]:
    if (metadata.generation or 0) < 0:
        yield invalid("metadata.generation", metadata.generation, "must be greater than or equal to 0")
    yield from check_labels_and_annotations(metadata, "metadata")
    owners = metadata.owner_references or ()
    for i, owner in enumerate(owners):
        yield from _check_owner(owner, f"metadata.ownerReferences[{i}]")
    controllers = [f"{owner.kind}/{owner.name}" for owner in owners if owner.controller]
    if len(controllers) > 1:
        why = 'Only one reference can have Controller set to true. Found "true" in references for '
        yield invalid("metadata.ownerReferences", controllers, why + " and ".join(controllers[:2]))


def check_labels_and_annotations(metadata: ObjectMeta, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with labels and annotations; all that the metadata of a template may have."""
    for key, value in (metadata.labels or {}).items():
        yield from check_label_key(key, f"{path}.labels")
        yield from check_label_value(value, f"{path}.labels")
    annotations = metadata.annotations or {}
    for key in annotations:
        yield from check_label_key(key.lower(), f"{path}.annotations")
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_BYTES_MAX:
        yield too_long(f"{path}.annotations", _ANNOTATIONS_BYTES_MAX)


def _check_owner(owner: OwnerReference, path: str) -> Iterator[FieldIssue]:
    for name, value in (
        ("apiVersion", owner.api_version),
        ("kind", owner.kind),
        ("name", owner.name),
        ("uid", owner.uid),
    ):
        if not value:
            yield required(f"{path}.{name}", "must not be empty")
    if owner.api_version.count("/") > 1 or owner.api_version.endswith("/"):
        yield invalid(f"{path}.apiVersion", owner.api_version, "must be <group>/<version> or <version>")
    if (owner.api_version, owner.kind) == ("v1", "Event"):
        yield invalid(path, owner.name, "/v1, Kind=Event is disallowed from being an owner")


def _check_finalizers(finalizers: Iterable[str]) -> Iterator[FieldIssue]:
    names = list(finalizers)
    for name in names:
        yield from check_label_key(name, "metadata.finalizers")
    for index, name in enumerate(names):
        # Source: validateKubeFinalizerName, k8s.io/kubernetes v1.37.2 pkg/apis/core/validation/validation.go.
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{index}]", name, why)
    if {"orphan", "foregroundDeletion"} <= set(names):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid("metadata.finalizers", names, why)


def check_conditions(conditions: list[Condition] | None, path: str, *, most: int | None) -> Iterator[FieldIssue]:
    """Yield what is wrong with the conditions of a status, of which there may be `most` (None: any number)."""
    entries = conditions or []
    if most is not None and len(entries) > most:
        yield too_many(path, len(entries), most)
    yield from find_duplicates((entry.type for entry in entries), path)
    for i, entry in enumerate(entries):
        yield from _check_condition(entry, f"{path}[{i}]")


def _check_condition(entry: Condition, path: str) -> Iterator[FieldIssue]:
    if not entry.type:
        yield required(f"{path}.type", "is required")
    else:
        yield from check_condition_type(entry.type, f"{path}.type")
    if not entry.status:
        yield required(f"{path}.status")
    elif entry.status not in _STATUSES:
        yield not_supported(f"{path}.status", entry.status, _STATUSES)
    if (entry.observed_generation or 0) < 0:
        yield invalid(f"{path}.observedGeneration", entry.observed_generation, "must be greater than or equal to zero")
    if not entry.last_transition_time:
        yield required(f"{path}.lastTransitionTime")
    if not entry.reason:
        yield required(f"{path}.reason")
    elif not _REASON.fullmatch(entry.reason):
        yield invalid(f"{path}.reason", entry.reason, _REASON_RULE)
    if len(entry.reason.encode()) > _REASON_BYTES_MAX:
        yield too_long(f"{path}.reason", _REASON_BYTES_MAX)
    if len(entry.message.encode()) > _MESSAGE_BYTES_MAX:
        yield too_long(f"{path}.message", _MESSAGE_BYTES_MAX)
