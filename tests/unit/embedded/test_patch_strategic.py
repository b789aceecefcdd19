"""Strategic merge patch on pods.

Source of the expectations: k8s.io/apimachinery v0.37.2 pkg/util/strategicpatch/patch_test.go, rewritten for pods.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from claimsmith.api.kinds import POD
from claimsmith.embedded.api.patch_strategic import apply_strategic_patch
from claimsmith.embedded.api.served import get_kind
from claimsmith.errors import RequestError

SHAPE = get_kind(POD).shape


def patched(value: dict[str, Any], patch: Any) -> dict[str, Any]:
    return apply_strategic_patch(value, patch, SHAPE)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "one"} for name in names]}}


def names_in(value: dict[str, Any]) -> list[str]:
    return [found["name"] for found in value["spec"]["containers"]]


def test_lists_with_a_merge_key_are_merged_by_it() -> None:
    result = patched(containers("a", "b"), {"spec": {"containers": [{"name": "b", "image": "two"}]}})

    assert result == {"spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]}}


def test_a_new_element_is_appended() -> None:
    assert names_in(patched(containers("a"), {"spec": {"containers": [{"name": "b"}]}})) == ["a", "b"]


def test_an_element_can_be_deleted() -> None:
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}

    assert names_in(patched(containers("a", "b"), patch)) == ["b"]


def test_deleting_an_element_that_is_not_there_changes_nothing() -> None:
    patch = {"spec": {"containers": [{"name": "x", "$patch": "delete"}]}}

    assert names_in(patched(containers("a"), patch)) == ["a"]


def test_a_list_can_be_replaced() -> None:
    patch = {"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}

    assert names_in(patched(containers("a", "b"), patch)) == ["c"]


def test_an_object_can_be_replaced() -> None:
    value = {"metadata": {"labels": {"a": "1", "b": "2"}}}

    assert patched(value, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}) == {
        "metadata": {"labels": {"c": "3"}}
    }


def test_null_removes_a_field() -> None:
    value = {"metadata": {"labels": {"a": "1", "b": "2"}}}

    assert patched(value, {"metadata": {"labels": {"a": None}}}) == {"metadata": {"labels": {"b": "2"}}}


def test_a_list_without_merge_rules_is_replaced() -> None:
    value = {"spec": {"containers": [{"name": "a", "command": ["x", "y"]}]}}

    assert patched(value, {"spec": {"containers": [{"name": "a", "command": ["z"]}]}}) == {
        "spec": {"containers": [{"name": "a", "command": ["z"]}]}
    }


def test_plain_values_are_added_once() -> None:
    value = {"metadata": {"finalizers": ["a", "b"]}}

    assert patched(value, {"metadata": {"finalizers": ["b", "c"]}}) == {"metadata": {"finalizers": ["a", "b", "c"]}}


def test_plain_values_can_be_deleted() -> None:
    value = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}

    assert patched(value, patch) == {"metadata": {"finalizers": ["b", "c"]}}


def test_plain_values_can_be_added_deleted_and_put_in_order_at_once() -> None:
    value = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
            "finalizers": ["c"],
        }
    }

    assert patched(value, patch) == {"metadata": {"finalizers": ["c", "b"]}}


def test_elements_take_the_order_that_the_patch_sets() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}}

    assert names_in(patched(containers("a", "b", "c"), patch)) == ["c", "a", "b"]


def test_elements_that_the_order_does_not_name_keep_their_place() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "new"}, {"name": "b"}],
            "containers": [{"name": "new"}],
        }
    }

    assert names_in(patched(containers("a", "b", "c"), patch)) == ["new", "a", "b", "c"]


def test_retain_keys_drops_the_other_fields() -> None:
    value = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}

    assert patched(value, patch) == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_directives_do_not_end_up_in_new_elements() -> None:
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {"medium": None}}]}}

    assert patched({"spec": {}}, patch) == {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}


def test_deleting_an_object_that_is_not_there_adds_nothing() -> None:
    assert patched({"spec": {}}, {"spec": {"securityContext": {"$patch": "delete"}}}) == {"spec": {}}


def test_an_atomic_map_is_merged_field_by_field_all_the_same() -> None:
    value = {"spec": {"nodeSelector": {"a": "1"}}}

    assert patched(value, {"spec": {"nodeSelector": {"b": "2"}}}) == {"spec": {"nodeSelector": {"a": "1", "b": "2"}}}


def test_the_patched_object_stays_as_it_is() -> None:
    value = containers("a", "b")
    before = copy.deepcopy(value)
    patched(value, {"spec": {"containers": [{"name": "a", "image": "two"}, {"name": "b", "$patch": "delete"}]}})

    assert value == before


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ([], "a strategic merge patch is an object"),
        ({"$patch": "explode"}, "unknown patch type"),
        ({"spec": {"containers": [{"image": "x"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": ["x"]}}, "must be objects"),
        ({"spec": {"containers": [{"name": {}}]}}, "must be a plain value"),
        ({"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}, "unknown patch type"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, "must be lists"),
        ({"metadata": {"finalizers": [{}]}}, "a list of plain values was expected"),
        ({"spec": {"$retainKeys": "x"}}, r"\$retainKeys must be a list"),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, "must contain all fields"),
    ],
)
def test_a_patch_that_makes_no_sense_is_a_bad_request(patch: Any, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        patched({"spec": {"containers": [{"name": "a"}]}, "metadata": {"finalizers": ["a"]}}, patch)
    assert caught.value.status == 400
