"""Server-side apply: merge a configuration into an object, by who owns which field.

Source: sigs.k8s.io/structured-merge-diff merge/update.go; k8s.io/apimachinery v0.37.2 pkg/util/managedfields.

Deviates: apply-defaults.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from claimsmith.api.shapes import ANY_SHAPE, Shape, WireField
from claimsmith.embedded.api.fieldset import (
    ITSELF,
    FieldSet,
    Kept,
    child_of,
    field_text,
    intersect,
    iter_members,
    kept_as,
    list_elements,
    subtract,
    union,
)
from claimsmith.embedded.api.managers import BEFORE_FIRST_APPLY, Owner, owned_by_config, read_owners, write_owners
from claimsmith.embedded.store_records import JsonObject
from claimsmith.errors import RequestError

__all__ = ["Applier", "apply_config"]

Path = tuple[str, ...]

_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applier:
    """Who applies, and how.

    Args:
        shape: The fields of the object.
        owner: The entry of `managedFields` of the applier; its fields are set.
        complete: Fills defaults into an object, in place.
        force: Take fields over from others.
    """

    shape: Shape
    owner: Owner
    complete: Callable[[JsonObject], None]
    force: bool = False


def apply_config(live: JsonObject, config: JsonObject, applier: Applier) -> JsonObject:
    """Return an object after a server-side apply, with its new `managedFields`.

    Args:
        live: The object as it is; not changed.
        config: What the applier wants; not changed.
        applier: Who applies, and how.

    Raises:
        RequestError: 409, others own fields that the configuration changes, and `force` is not set.
    """
    owner, shape = applier.owner, applier.shape
    owners = read_owners(live) or _before_first_apply(live, shape, owner)
    wanted = owned_by_config(config, shape)
    mine = next((found for found in owners if found.key == owner.key), None)
    others = [found for found in owners if found is not mine]
    merged: JsonObject = _merge(live, config, shape, None)
    conflicts = _find_conflicts(live, merged, wanted, others, applier)
    if conflicts and not applier.force:
        raise _conflict_error(conflicts)
    dropped = subtract(mine.fields, wanted) if mine is not None and mine.fields else None
    if dropped:
        # What the applier still sets below counts too: an object may be owned as such, and then by its fields alone.
        kept = _owned_by(others)
        _prune(merged, dropped, union(kept, wanted) if kept else wanted, shape)
    for other, path in conflicts:
        other.fields = subtract(other.fields, _single(path)) or {}
    owner.fields = wanted
    if mine is not None and mine.fields == wanted and merged == live:
        owner.time = mine.time
    merged["metadata"] = {**merged["metadata"]}
    write_owners(merged, [owner if found is mine else found for found in owners] + ([] if mine else [owner]))
    return merged


def _owned_by(owners: list[Owner]) -> FieldSet:
    """Return what any of the owners owns."""
    total: FieldSet = {}
    for owner in owners:
        total = union(total, owner.fields) if total else owner.fields
    return total


def _before_first_apply(live: JsonObject, shape: Shape, owner: Owner) -> list[Owner]:
    """Return the owner of what was there before anybody was tracked."""
    metadata = live.get("metadata") or {}
    if not metadata.get("uid"):
        return []
    fields = owned_by_config(live, shape)
    created = metadata.get("creationTimestamp", "")
    return [
        Owner(
            manager=BEFORE_FIRST_APPLY,
            operation="Update",
            api_version=owner.api_version,
            fields=fields,
            time=created,
        )
    ]


def _find_conflicts(
    live: JsonObject, merged: JsonObject, wanted: FieldSet, others: list[Owner], applier: Applier
) -> list[tuple[Owner, Path]]:
    """Return the fields that others own and that the configuration changes, even after its defaults are filled in."""
    changed = [(other, path) for other in others for path in _changed(live, merged, wanted, other, applier.shape)]
    if not changed:
        return []
    completed = copy.deepcopy(merged)
    applier.complete(completed)
    return [
        (other, path)
        for other, path in changed
        if _resolve(live, path, applier.shape) != _resolve(completed, path, applier.shape)
    ]


def _changed(live: JsonObject, merged: JsonObject, wanted: FieldSet, other: Owner, shape: Shape) -> Iterator[Path]:
    """Yield the fields that another owner has and that the merged object changes."""
    both = intersect(wanted, other.fields)
    for path in iter_members(both or {}):
        before, after = _resolve(live, path, shape), _resolve(merged, path, shape)
        if before is _MISSING or before == after:
            continue
        if isinstance(before, (dict, list)) and type(before) is type(after) and not _is_atomic(before, path, shape):
            continue
        yield path


def _resolve(value: Any, path: Path, shape: Shape) -> Any:
    field: WireField | None = None
    for element in path:
        if element.startswith("f:"):
            if not isinstance(value, dict) or element[2:] not in value:
                return _MISSING
            name = element[2:]
            value = value[name]
            shape, field = child_of(shape, name)
        elif isinstance(value, list):
            value = dict(list_elements(value, kept_as(value, shape, field))).get(element, _MISSING)
            shape, field = shape.items or ANY_SHAPE, None
        else:
            return _MISSING
    return value


def _is_atomic(value: Any, path: Path, shape: Shape) -> bool:
    field: WireField | None = None
    for element in path:
        if element.startswith("f:"):
            shape, field = child_of(shape, element[2:])
        else:
            shape, field = shape.items or ANY_SHAPE, None
    return kept_as(value, shape, field).how == "atomic"


def _merge(live: Any, config: Any, shape: Shape, field: WireField | None) -> Any:
    kept = kept_as(config, shape, field)
    if kept.how == "atomic" or type(live) is not type(config):
        return config
    if kept.how == "fields":
        merged = {**live}
        for name, wanted in config.items():
            inner = child_of(shape, name)
            merged[name] = _merge(live[name], wanted, *inner) if name in live else wanted
        return merged
    return _merge_list(live, config, kept)


def _merge_list(live: list[Any], config: list[Any], kept: Kept) -> list[Any]:
    """Return the elements of both lists: in the order of the configuration, others where they were before.

    Source: visitListItems in sigs.k8s.io/structured-merge-diff typed/merge.go.
    """
    items = kept.shape.items or ANY_SHAPE
    before, wanted = dict(list_elements(live, kept)), dict(list_elements(config, kept))
    merged = {
        element: _merge(before[element], value, items, None) if element in before and kept.how == "keys" else value
        for element, value in wanted.items()
    }
    order: list[str] = []
    old, new = deque(before), deque(wanted)
    while old or new:
        if old and old[0] in order:
            old.popleft()
        elif old and old[0] not in wanted:
            order.append(old.popleft())
        else:
            order.append(new.popleft())
    return [merged.get(element, before.get(element)) for element in order]


def _prune(value: Any, dropped: FieldSet, kept: FieldSet, shape: Shape, field: WireField | None = None) -> None:
    """Remove from a value what nobody wants any more; what others own stays."""
    for element, below in dropped.items():
        if element == ITSELF:
            continue
        others = kept.get(element)
        if element.startswith("f:"):
            _prune_field(value, element[2:], below, others, shape)
        elif isinstance(value, list):
            _prune_element(value, element, below, others, kept_as(value, shape, field))


def _prune_field(value: Any, name: str, below: FieldSet, others: FieldSet | None, shape: Shape) -> None:
    if not isinstance(value, dict) or name not in value:
        return
    inner, field = child_of(shape, name)
    is_leaf = not [element for element in below if element != ITSELF]
    if is_leaf:
        if others is None:
            del value[name]
        return
    value[name] = _shallow(value[name])
    _prune(value[name], below, others or {}, inner, field)
    if value[name] in ({}, []) and others is None:
        del value[name]


def _prune_element(value: list[Any], element: str, below: FieldSet, others: FieldSet | None, kept: Kept) -> None:
    found = next((index for index, (name, _) in enumerate(list_elements(value, kept)) if name == element), None)
    if found is None:
        return
    if others is None and (ITSELF in below or not below):
        del value[found]
        return
    if isinstance(value[found], dict):
        value[found] = {**value[found]}
        rest = {name: deeper for name, deeper in below.items() if name.removeprefix("f:") not in kept.keys}
        _prune(value[found], rest, others or {}, kept.shape.items or ANY_SHAPE)


def _shallow(value: Any) -> Any:
    return {**value} if isinstance(value, dict) else [*value] if isinstance(value, list) else value


def _single(path: Path) -> FieldSet:
    fields: FieldSet = {}
    for element in reversed(path):
        fields = {element: fields}
    return fields


def _conflict_error(conflicts: list[tuple[Owner, Path]]) -> RequestError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_owner_text(owner)}", "field": field_text(path)}
        for owner, path in conflicts
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        text = f"Apply failed with {len(causes)} conflicts: {_group_text(conflicts)}"
    return RequestError(409, "Conflict", text, details={"causes": causes})


def _group_text(conflicts: list[tuple[Owner, Path]]) -> str:
    groups: dict[str, list[str]] = {}
    for owner, path in conflicts:
        groups.setdefault(_owner_text(owner), []).append(field_text(path))
    return "\n".join(
        f"conflicts with {owner}:\n" + "\n".join(f"- {path}" for path in paths) for owner, paths in groups.items()
    )


def _owner_text(owner: Owner) -> str:
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    if owner.operation == "Update":
        text += f" using {owner.api_version}"
    return text
