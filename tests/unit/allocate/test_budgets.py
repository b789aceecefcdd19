"""How many pods disruption budgets allow to go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.whatif.budgets import BudgetLedger, find_allowed
from tests.unit.allocate.trying import Held, budget, cluster, running


def pods(count: int) -> list[Held]:
    return [running(f"p{n}", "a", app="web") for n in range(count)]


@pytest.mark.parametrize(
    ("spec", "count", "allowed"),
    [
        ({"max_unavailable": 1}, 3, 1),
        ({"max_unavailable": 0}, 3, 0),
        ({"max_unavailable": "50%"}, 3, 2),
        ({"max_unavailable": "100%"}, 3, 3),
        ({"min_available": 2}, 3, 1),
        ({"min_available": 5}, 3, 0),
        ({"min_available": "50%"}, 3, 1),
        ({"min_available": "100%"}, 3, 0),
        ({"min_available": "nonsense"}, 3, 0),
        ({}, 3, 0),
        ({"max_unavailable": 9}, 3, 3),
    ],
)
def test_what_a_budget_without_a_status_allows_follows_from_its_pods(
    spec: dict[str, int | str], count: int, allowed: int
) -> None:
    asked = replace(budget("keep", None, app="web"), **spec)  # type: ignore[arg-type]

    assert find_allowed(asked, cluster({"a": 1}, *pods(count))) == allowed


def test_what_the_status_says_counts() -> None:
    assert find_allowed(budget("keep", 7, maximum=0, app="web"), cluster({"a": 1})) == 7


def test_pods_that_wait_are_not_healthy() -> None:
    first, second = running("one", "a", app="web"), running("two", "a", app="web")
    waits = replace(second[0], node_name="", phase="Pending")

    assert find_allowed(budget("keep", None, maximum=1, app="web"), cluster({"a": 1}, first, waits)) == 0


def test_a_pod_that_its_budget_knows_to_be_gone_is_counted_already() -> None:
    gone = replace(budget("keep", 0, app="web"), disrupted_pods=frozenset({"one"}))
    one, two = running("one", "a", app="web"), running("two", "a", app="web")
    ledger = BudgetLedger.of(cluster({"a": 1}, one, two, gone))

    assert (ledger.take(one[0]), ledger.take(two[0])) == ((), ("default/keep",))


def test_a_pod_that_is_back_may_be_followed_by_another() -> None:
    one, two = running("one", "a", app="web"), running("two", "a", app="web")
    ledger = BudgetLedger.of(cluster({"a": 1}, one, two, budget("keep", 1, app="web")))
    ledger.take(one[0])
    ledger.give_back(one[0])

    assert ledger.take(two[0]) == ()


def test_a_pod_of_two_budgets_needs_both() -> None:
    one = running("one", "a", app="web", tier="x")
    snapshot = cluster({"a": 1}, one, budget("first", 1, app="web"), budget("second", 0, tier="x"))

    assert BudgetLedger.of(snapshot).take(one[0]) == ("default/second",)
    assert BudgetLedger.of(snapshot).count_violations([one[0]]) == 1
