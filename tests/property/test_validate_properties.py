"""The rules of the API on generated objects of every kind and version."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.api.kinds import OLDER_KINDS, RESOURCE_POOL_STATUS_REQUEST, SERVED_KINDS, Kind
from claimsmith.api.versions import convert_to_hub
from claimsmith.validate import validate_create, validate_status_update, validate_update
from tests.property.api_objects import object_of

KINDS = [*SERVED_KINDS, RESOURCE_POOL_STATUS_REQUEST]


def drawn_of(kinds: list[Kind]) -> st.SearchStrategy[tuple[Kind, dict[str, Any]]]:
    """A kind and an object of it."""
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), object_of(kind)))


@given(drawn=drawn_of(KINDS), data=st.data())
def test_whatever_is_wrong_comes_back_as_values(drawn: tuple[Kind, dict[str, Any]], data: st.DataObject) -> None:
    kind, new = drawn
    old = data.draw(object_of(kind))
    issues = [
        *validate_create(kind, new),
        *validate_update(kind, old, new),
        *validate_status_update(kind, old, new),
    ]

    assert all(issue.path and issue.message for issue in issues)


@given(drawn=drawn_of(KINDS))
def test_an_object_that_stays_has_not_changed_what_must_stay(drawn: tuple[Kind, dict[str, Any]]) -> None:
    kind, obj = drawn
    issues = [*validate_update(kind, obj, obj), *validate_status_update(kind, obj, obj)]

    assert [issue for issue in issues if issue.detail == "field is immutable"] == []


@given(drawn=drawn_of(list(OLDER_KINDS)))
def test_an_older_object_breaks_the_rules_that_it_breaks_as_v1(drawn: tuple[Kind, dict[str, Any]]) -> None:
    kind, obj = drawn

    assert validate_create(kind, obj) == validate_create(kind.hub, convert_to_hub(obj, kind))
