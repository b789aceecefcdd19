"""Strategic merge patch: lists are merged by the keys that the types of the API declare.

Source: k8s.io/apimachinery v0.37.2 pkg/util/strategicpatch/patch.go; Kubernetes' description of strategic merge patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from claimsmith.api.shapes import ANY_SHAPE, Shape, WireField
from claimsmith.embedded.store_faults import bad_request

__all__ = ["apply_strategic_patch"]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"

Json = dict[str, Any]


def apply_strategic_patch(value: Json, patch: Any, shape: Shape) -> Json:
    """Return an object after a strategic merge patch; neither argument is changed.

    Args:
        value: The object.
        patch: The decoded patch.
        shape: The fields of the object, with their merge keys.

    Raises:
        RequestError: 400, the patch can't be understood.
    """
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _merge_object(value, patch, shape)


def _merge_object(value: Json, patch: Json, shape: Shape) -> Json:
    directive = patch.get(_DIRECTIVE)
    if directive is not None:
        if directive == "replace":
            return {key: found for key, found in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        if directive != "merge":
            raise bad_request(f"unknown patch type found: {str(directive)[:80]}")
    merged = _retain(value, patch)
    for key, change in patch.items():
        if key.startswith("$"):
            continue
        field = shape.fields.get(key)
        if change is None or (key not in merged and _is_deletion(change)):
            merged.pop(key, None)
        else:
            merged[key] = _merge_field(merged.get(key), change, field, _inner(shape, field), _list_rules(patch, key))
    for key in _only_list_rules(patch):
        if isinstance(merged.get(key), list):
            field = shape.fields.get(key)
            merged[key] = _merge_field(merged[key], [], field, _inner(shape, field), _list_rules(patch, key))
    return merged


def _is_deletion(change: Any) -> bool:
    return isinstance(change, dict) and change.get(_DIRECTIVE) == "delete"


def _inner(shape: Shape, field: WireField | None) -> Shape:
    if field is not None:
        return field.shape
    return shape.items or ANY_SHAPE


class _ListRules:
    """What a patch says of a list besides its elements: those to delete, and the order."""

    __slots__ = ("deleted", "order")

    def __init__(self, deleted: list[Any], order: list[Any] | None) -> None:
        self.deleted, self.order = deleted, order


def _list_rules(patch: Json, key: str) -> _ListRules:
    deleted, order = patch.get(_DELETE_FROM + key) or [], patch.get(_ORDER + key)
    if not isinstance(deleted, list) or not (order is None or isinstance(order, list)):
        raise bad_request(f"invalid patch: the directives of {key[:80]} must be lists")
    return _ListRules(deleted, order)


def _only_list_rules(patch: Json) -> list[str]:
    """Return the lists of which a patch has directives but no elements."""
    names = [key.split("/", 1)[1] for key in patch if key.startswith((_ORDER, _DELETE_FROM))]
    return [name for name in dict.fromkeys(names) if name not in patch]


def _retain(value: Json, patch: Json) -> Json:
    retained = patch.get(_RETAIN)
    if retained is None:
        return {**value}
    if not isinstance(retained, list):
        raise bad_request("invalid patch: $retainKeys must be a list")
    if any(key not in retained for key, change in patch.items() if not key.startswith("$") and change is not None):
        raise bad_request("invalid patch: $retainKeys must contain all fields that the patch sets")
    return {key: found for key, found in value.items() if key in retained}


def _merge_field(value: Any, change: Any, field: WireField | None, shape: Shape, rules: _ListRules) -> Any:
    strategies = field.patch_strategy.split(",") if field is not None else []
    if isinstance(change, dict):
        if "replace" in strategies or not isinstance(value, dict):
            return _merge_object({}, change, shape)
        return _merge_object(value, change, shape)
    if isinstance(change, list) and field is not None and "merge" in strategies:
        known = value if isinstance(value, list) else []
        items = shape.items or ANY_SHAPE
        if field.patch_merge_key:
            return _merge_objects(known, change, field.patch_merge_key, items, rules.order)
        return _merge_scalars(known, change, rules)
    return change


def _merge_scalars(value: list[Any], change: list[Any], rules: _ListRules) -> list[Any]:
    merged = [item for item in value if item not in rules.deleted]
    merged += [item for item in dict.fromkeys(_hashable(change)) if item not in merged]
    return _put_in_order(merged, value, change if rules.order is None else rules.order)


def _hashable(values: list[Any]) -> list[Any]:
    if any(isinstance(item, (dict, list)) for item in values):
        raise bad_request("invalid patch: a list of plain values was expected")
    return values


def _merge_objects(value: list[Any], change: list[Any], key: str, shape: Shape, order: list[Any] | None) -> list[Any]:
    _check_elements(change, key)
    plain = [item for item in change if item.get(_DIRECTIVE) not in ("replace", "delete")]
    if any(item.get(_DIRECTIVE) == "replace" for item in change):
        return [_merge_object({}, item, shape) for item in plain]
    deleted = [item[key] for item in change if item.get(_DIRECTIVE) == "delete"]
    merged = [item for item in value if not (isinstance(item, dict) and item.get(key) in deleted)]
    positions = {item.get(key): index for index, item in enumerate(merged) if isinstance(item, dict)}
    for item in plain:
        found = positions.get(item[key])
        if found is None:
            positions[item[key]] = len(merged)
            merged.append(_merge_object({}, item, shape))
        else:
            merged[found] = _merge_object(merged[found], item, shape)
    if order is None:
        return merged
    return _put_objects_in_order(merged, value, order, key)


def _check_elements(change: list[Any], key: str) -> None:
    for item in change:
        if not isinstance(item, dict):
            raise bad_request(f"invalid patch: the elements of a list merged by {key} must be objects")
        directive = item.get(_DIRECTIVE)
        if directive not in (None, "merge", "replace", "delete"):
            raise bad_request(f"unknown patch type found: {str(directive)[:80]}")
        if key not in item and directive != "replace":
            raise bad_request(f"map: {str(item)[:120]} does not contain declared merge key: {key}")
        if isinstance(item.get(key), (dict, list)):
            raise bad_request(f"invalid patch: merge key {key} must be a plain value")


def _put_objects_in_order(merged: list[Json], value: list[Any], order: list[Any], key: str) -> list[Any]:
    wanted = [item.get(key) for item in order if isinstance(item, dict)]
    by_key = {item.get(key): item for item in merged}
    known = [item.get(key) for item in value if isinstance(item, dict)]
    return [by_key[name] for name in _put_in_order(list(by_key), known, wanted)]


def _put_in_order(merged: list[Any], before: list[Any], order: list[Any]) -> list[Any]:
    """Return the elements in a wanted order; those that it does not name keep their place relative to the others.

    Source: mergeSortedSlice in strategicpatch/patch.go.
    """
    named = [item for item in order if item in merged]
    others = [item for item in merged if item not in order]
    places: Mapping[Any, int] = {item: index for index, item in enumerate(before)}
    result: list[Any] = []
    while others and named:
        left, right = places.get(others[0]), places.get(named[0])
        first = others if left is not None and right is not None and left < right else named
        result.append(first.pop(0))
    return [*result, *others, *named]
