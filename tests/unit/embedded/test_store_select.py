"""Selectors of lists and watches."""

from __future__ import annotations

import pytest

from claimsmith.embedded.store_labels import parse_labels
from claimsmith.embedded.store_select import Selection, field_value, parse_fields
from claimsmith.errors import RequestError

LABELS = {"app": "web", "tier": "front", "size": "7"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app=web",
        "app==web",
        " app = web , tier = front ",
        "app in (web, db)",
        "app notin (db)",
        "old notin (db)",
        "app!=db",
        "missing!=x",
        "app",
        "!missing",
        "size>6,size<8",
        "app in (web),tier,!missing,tier!=back",
    ],
)
def test_labels_match(text: str) -> None:
    assert all(requirement.matches(LABELS) for requirement in parse_labels(text))


@pytest.mark.parametrize(
    "text", ["app=db", "app in (db)", "app notin (web)", "missing", "!app", "size>7", "app<3", "app!=web", "app="]
)
def test_labels_do_not_match(text: str) -> None:
    assert not all(requirement.matches(LABELS) for requirement in parse_labels(text))


@pytest.mark.parametrize(
    "text", ["=", "app=web,", "a b", "app in web", "app in (web", "-x=1", "app=a b", "size>big", "app=" + "x" * 64]
)
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"unable to parse requirement|expected: ") as caught:
        parse_labels(text)
    assert caught.value.status == 400


def test_fields_are_compared_as_text() -> None:
    value = {"metadata": {"name": "a"}, "spec": {"unschedulable": True, "count": 3}}

    assert [field_value(value, path) for path in ("spec.unschedulable", "spec.count", "spec.x.y")] == ["true", "3", ""]


def test_an_absent_field_equals_the_empty_text() -> None:
    selection = Selection(fields=parse_fields("spec.nodeName="))

    assert selection.matches({"metadata": {}, "spec": {}})


def test_field_selectors_can_exclude() -> None:
    selection = Selection(fields=parse_fields("status.phase!=Failed,metadata.name=a"))

    assert selection.matches({"metadata": {"name": "a"}, "status": {"phase": "Running"}})
    assert not selection.matches({"metadata": {"name": "a"}, "status": {"phase": "Failed"}})


def test_field_selectors_can_hold_commas() -> None:
    assert parse_fields(r"reason=a\,b\=c")[0].value == "a,b=c"


def test_what_is_no_field_selector_is_refused() -> None:
    with pytest.raises(RequestError, match="invalid selector"):
        parse_fields("metadata.name")
