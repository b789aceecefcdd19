"""JSON merge patch, by the examples of RFC 7386, appendix A."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.embedded.api.patch_merge import apply_merge_patch


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_merged(value: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(value, patch) == result


def test_the_patched_value_stays_as_it_is() -> None:
    value = {"a": {"b": 1}}
    apply_merge_patch(value, {"a": {"b": 2}})

    assert value == {"a": {"b": 1}}
