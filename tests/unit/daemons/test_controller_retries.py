"""When a pod is touched whose claims could not be prepared."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.daemons.controller_retries import FailedPrepare, RetryBook, RetryPolicy, parse_failure
from claimsmith.errors import InputError
from claimsmith.model.names import PodRef

POLICY = RetryPolicy(first_s=1.0, factor=2.0, longest_s=5.0, tries_max=4)


def failed(uid: str = "uid-1", failures: int = 1) -> FailedPrepare:
    return FailedPrepare(pod=PodRef("team", "train"), uid=uid, failures=failures, at="2026-01-01T00:00:00Z")


def test_pauses_grow_up_to_the_longest_and_then_the_pod_is_left_alone() -> None:
    book = RetryBook(POLICY)

    assert [book.plan(failed()) for _ in range(6)] == [1.0, 2.0, 4.0, 5.0, None, None]


def test_each_pod_has_pauses_of_its_own() -> None:
    book = RetryBook(POLICY)
    book.plan(failed("uid-1"))

    assert book.plan(failed("uid-2")) == 1.0
    assert (book.tries("uid-1"), book.tries("uid-2"), book.tries("uid-3")) == (1, 1, 0)


def event(**changes: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "team", "name": "train", "uid": "uid-1"}
    return {"involvedObject": about, "count": 3, "lastTimestamp": "2026-01-01T00:00:00Z", **changes}


def test_an_event_tells_which_pod_has_failed_how_often_and_when() -> None:
    assert parse_failure(event()) == failed(failures=3)


def test_a_series_of_events_tells_it_too() -> None:
    series = {"count": 7, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    found = parse_failure(event(series=series, count=None, lastTimestamp=None))

    assert (found.failures, found.at) == (7, "2026-01-01T00:01:00.000000Z")


@pytest.mark.parametrize("about", [{"kind": "Node", "name": "n", "uid": "u"}, {"kind": "Pod", "name": "p"}, {}])
def test_an_event_about_anything_else_is_left_alone(about: dict[str, str]) -> None:
    with pytest.raises(InputError, match="allowed a pod; it is left alone"):
        parse_failure(event(involvedObject=about))
