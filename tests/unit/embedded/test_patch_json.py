"""JSON patch, by the examples of RFC 6902, appendix A."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.embedded.api.patch_json import MAX_OPERATIONS, apply_json_patch
from claimsmith.errors import RequestError


@pytest.mark.parametrize(
    ("value", "operation", "result"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, {"op": "add", "path": "/foo/1", "value": "qux"}, {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, {"op": "add", "path": "/foo/-", "value": ["abc"]}, {"foo": ["bar", ["abc"]]}),
        ({"foo": "bar"}, {"op": "add", "path": "/foo", "value": 1}, {"foo": 1}),
        ({"baz": "qux", "foo": "bar"}, {"op": "remove", "path": "/baz"}, {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, {"op": "remove", "path": "/foo/1"}, {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 9}, {"a": [9, 2]}),
        ({"foo": {"a": 1}, "x": {}}, {"op": "move", "from": "/foo/a", "path": "/x/b"}, {"foo": {}, "x": {"b": 1}}),
        ({"a": ["b", "c", "d"]}, {"op": "move", "from": "/a/0", "path": "/a/2"}, {"a": ["c", "d", "b"]}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a/b": 1, "m~n": 2}, {"op": "remove", "path": "/a~1b"}, {"m~n": 2}),
        ({"m~n": 2}, {"op": "test", "path": "/m~0n", "value": 2}, {"m~n": 2}),
        ({"a": 1}, {"op": "test", "path": "/missing", "value": None}, {"a": 1}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
    ],
)
def test_an_operation_changes_its_path(value: Any, operation: dict[str, Any], result: Any) -> None:
    assert apply_json_patch(value, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/list/1", "value": 1},
        {"op": "add", "path": "/missing/below", "value": 1},
        {"op": "explode", "path": "/text"},
        {"op": "add", "path": "text", "value": 1},
        {"op": "remove", "path": ""},
        {"op": "move", "path": "/text"},
        {"path": "/text"},
        None,
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "test", "path": "/list", "value": [2]},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "move", "from": "/list", "path": "/list/0"},
    ],
)
def test_an_operation_that_cannot_be_done_is_invalid(operation: dict[str, Any] | None) -> None:
    with pytest.raises(RequestError, match="the server rejected our request") as caught:
        apply_json_patch({"list": [1], "text": "t"}, [operation])
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "patch",
    [
        {},
        "text",
        [1],
        [{"op": 1, "path": "/a"}],
        [{"op": "add", "path": 1, "value": 1}],
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(RequestError, match="error decoding patch") as caught:
        apply_json_patch({}, patch)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a"}, {"a": None}),
        ({"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
        ({"op": "copy", "from": "/none", "path": "/a"}, {"a": None}),
        ({"op": "test", "path": "/a"}, {}),
    ],
)
def test_what_is_missing_is_null_as_upstream_takes_it(operation: dict[str, Any], result: dict[str, Any]) -> None:
    assert apply_json_patch({}, [operation]) == result


def test_null_is_a_patch_without_operations() -> None:
    assert apply_json_patch({"a": 1}, None) == {"a": 1}


def test_a_patch_of_too_many_operations_is_refused() -> None:
    patch = [{"op": "add", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1)

    with pytest.raises(RequestError, match="maximum operations") as caught:
        apply_json_patch({}, patch)
    assert caught.value.status == 413
