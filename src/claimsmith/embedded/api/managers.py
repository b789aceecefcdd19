"""Who owns which field: `metadata.managedFields`.

An object gets them once a writer names itself (as kubectl does) or applies; writes of controllers that nobody has
to agree with stay untracked, and count as one old writer at the first apply.

Source: k8s.io/apimachinery v0.37.2 pkg/util/managedfields/internal.

Deviates: managed-fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.shapes import Shape
from claimsmith.embedded.api.fieldset import FieldSet, changed_fields, owned_fields, subtract, union
from claimsmith.embedded.store_records import JsonObject

__all__ = [
    "BEFORE_FIRST_APPLY",
    "Owner",
    "keep_times",
    "owned_by_config",
    "read_owners",
    "track_update",
    "write_owners",
]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Owner of the fields that were there before anybody applied."""

_UNOWNED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "generateName",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            )
        },
    },
}
_UNTRACKED_METADATA: Final = ("resourceVersion", "managedFields", "generation", "creationTimestamp", "uid")


@dataclass(slots=True, kw_only=True)
class Owner:
    """One entry of `managedFields`.

    Args:
        manager: Name of the writer.
        operation: `Apply` or `Update`.
        api_version: Version in which the fields are named.
        subresource: Such as `status`; empty for the object itself.
        fields: What it owns.
        time: When it last wrote.
    """

    manager: str
    operation: str
    api_version: str
    fields: FieldSet
    subresource: str = ""
    time: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells entries apart."""
        return self.manager, self.operation, self.subresource


def read_owners(value: JsonObject) -> list[Owner]:
    """Return the owners of an object's fields."""
    return [_read_owner(entry) for entry in value["metadata"].get("managedFields") or () if entry.get("operation")]


def write_owners(value: JsonObject, owners: Iterable[Owner]) -> None:
    """Set the owners of an object's fields, in upstream's order; those that own nothing are left out.

    Source: sortEncodedManagedFields, k8s.io/apimachinery v0.37.2 pkg/util/managedfields/internal/managedfields.go.
    """
    ordered = sorted(owners, key=lambda o: (o.operation, o.time, o.manager, o.api_version, o.subresource))
    entries = [_write_owner(owner) for owner in ordered if owner.fields]
    if entries:
        value["metadata"]["managedFields"] = entries
    else:
        value["metadata"].pop("managedFields", None)


def keep_times(value: JsonObject, old: JsonObject) -> None:
    """Let owners keep their times when an apply has changed nothing else, so that nothing is written.

    Source: IgnoreManagedFieldsTimestampsTransformer in k8s.io/apiserver v0.37.2
    pkg/endpoints/handlers/fieldmanager/equality.go.

    Args:
        value: The new state, complete; its `managedFields` are replaced.
        old: The state before.
    """
    before = old["metadata"].get("managedFields")
    if before and _timeless(value) == _timeless(old):
        value["metadata"]["managedFields"] = before


def _timeless(value: JsonObject) -> JsonObject:
    """Return an object without the times of its owners, and without the order that they give."""
    metadata = value["metadata"]
    entries = [{**entry, "time": ""} for entry in metadata.get("managedFields") or ()]
    owners = sorted(entries, key=lambda entry: [str(entry.get(key)) for key in ("operation", "manager", "subresource")])
    return {**value, "metadata": {**metadata, "managedFields": owners}}


def owned_by_config(config: JsonObject, shape: Shape) -> FieldSet:
    """Return the fields that a configuration sets, without those that only the server sets."""
    return subtract(owned_fields(config, shape), _UNOWNED) or {}


def track_update(old: JsonObject | None, new: JsonObject, shape: Shape, owner: Owner) -> None:
    """Record a write in the new state of an object.

    Args:
        old: The state before; None for a new object.
        new: The state after; its `managedFields` are set.
        shape: The fields of the object.
        owner: Who writes; its fields are ignored.
    """
    changed, removed = changed_fields(_comparable(old or {}), _comparable(new), shape)
    changed = subtract(changed, _UNOWNED) or {} if changed else {}
    owners = read_owners(new)
    mine = next((found for found in owners if found.key == owner.key), None)
    for other in owners:
        if other is not mine:
            other.fields = (subtract(other.fields, changed) or {}) if changed else other.fields
        other.fields = (subtract(other.fields, removed) or {}) if removed else other.fields
    if changed:
        if mine is None:
            owner.fields = changed
            owners.append(owner)
        else:
            mine.fields, mine.time, mine.api_version = union(mine.fields, changed), owner.time, owner.api_version
    write_owners(new, owners)


def _comparable(value: JsonObject) -> JsonObject:
    metadata = {key: found for key, found in (value.get("metadata") or {}).items() if key not in _UNTRACKED_METADATA}
    return {**value, "metadata": metadata}


def _read_owner(entry: dict[str, Any]) -> Owner:
    return Owner(
        manager=entry.get("manager") or "unknown",
        operation=entry["operation"],
        api_version=entry.get("apiVersion") or "",
        subresource=entry.get("subresource") or "",
        time=entry.get("time") or "",
        fields=entry.get("fieldsV1") or {},
    )


def _write_owner(owner: Owner) -> dict[str, Any]:
    entry = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
        "time": owner.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owner.fields,
        "subresource": owner.subresource,
    }
    return {key: found for key, found in entry.items() if found}
