from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from claimsmith.model.names import PodRef
from claimsmith.schedule.queue import RETRY_MAX_S, Change, PodQueue, QueuedPod
from claimsmith.testing.builders import pod

FREED = Change("claim-freed", "default/c")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> PodQueue:
    return PodQueue(clock)


def popped(queue: PodQueue) -> QueuedPod:
    item = queue.pop_ready()
    assert item is not None
    return item


def names(queue: PodQueue) -> list[str]:
    found = []
    while (item := queue.pop_ready()) is not None:
        found.append(item.pod.metadata.name)
    return found


def test_pods_come_in_the_order_in_which_they_arrived(queue: PodQueue, clock: Clock) -> None:
    for name in ("b", "a", "c"):
        queue.add(pod(name))
        clock.now_s += 1.0

    assert names(queue) == ["b", "a", "c"]


def test_a_higher_priority_comes_first(queue: PodQueue) -> None:
    queue.add(pod("low", priority=1))
    queue.add(pod("high", priority=9))

    assert names(queue) == ["high", "low"]


def test_a_pod_in_decision_is_not_given_out_twice(queue: PodQueue) -> None:
    queue.add(pod("a"))
    popped(queue)
    queue.add(pod("a", phase="Pending"))

    assert queue.pop_ready() is None


def test_a_change_that_helps_lets_a_pod_out_before_the_end_of_its_backoff(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: change.kind == "claim-freed")
    queue.hear(FREED)

    assert names(queue) == ["a"]


def test_pods_that_are_not_in_backoff_come_first(queue: PodQueue) -> None:
    queue.add(pod("a", priority=9))
    queue.postpone(popped(queue))
    queue.hear(FREED)
    queue.add(pod("b"))

    assert names(queue) == ["b", "a"]


def test_of_pods_in_backoff_a_higher_priority_comes_first(queue: PodQueue) -> None:
    for name, priority in (("low", 1), ("high", 9)):
        queue.add(pod(name, priority=priority))
        queue.postpone(popped(queue))
    queue.hear(FREED)

    assert names(queue) == ["high", "low"]


def test_a_pod_whose_attempt_failed_by_an_error_waits_for_the_end_of_its_backoff(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.retry(popped(queue))
    queue.hear(FREED)
    early = names(queue)
    clock.now_s += 1.0

    assert (early, names(queue)) == ([], ["a"])


def test_a_pod_that_no_change_helps_stays_where_it_is(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue))

    assert names(queue) == []


def test_a_change_that_does_not_help_leaves_a_pod_waiting(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: change.kind == "slice")
    clock.now_s += 60.0
    queue.hear(FREED)

    assert names(queue) == []


def test_a_change_during_the_decision_counts(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    item = popped(queue)
    queue.hear(FREED)
    queue.postpone(item, lambda change: change.kind == "claim-freed")
    clock.now_s += 1.0

    assert names(queue) == ["a"]


def test_a_change_before_the_decision_does_not_count(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.hear(FREED)
    queue.postpone(popped(queue), lambda change: change.kind == "claim-freed")
    clock.now_s += 60.0

    assert names(queue) == []


def test_the_backoff_doubles_up_to_ten_seconds(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    pauses_s = []
    for _ in range(6):
        queue.retry(popped(queue))
        pauses_s.append(queue.next_in_s())
        clock.now_s += 10.0

    assert pauses_s == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_pod_that_could_not_be_tried_has_no_backoff(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: change == FREED, backoff=False)
    queue.hear(FREED)

    assert popped(queue).attempts == 1


def test_a_pod_that_nothing_helps_is_tried_again_in_the_end(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: False)
    clock.now_s += RETRY_MAX_S

    assert names(queue) == ["a"]


def test_a_pod_can_ask_to_be_tried_again_soon(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: False, within_s=15.0)
    clock.now_s += 15.0

    assert names(queue) == ["a"]


def test_a_removed_pod_does_not_come_back_from_its_decision(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    item = popped(queue)
    queue.remove(PodRef("default", "a"))
    queue.retry(item)
    clock.now_s += 60.0

    assert (names(queue), len(queue)) == ([], 0)


def test_a_pod_made_anew_under_the_same_name_starts_afresh(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.retry(popped(queue))
    first = pod("a")
    queue.add(replace(first, metadata=replace(first.metadata, uid="other")))

    assert popped(queue).attempts == 1


def test_a_waiting_pod_whose_claims_get_names_is_tried(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: False, backoff=False)
    queue.add(pod("a", claim_names={"gpu": "a-gpu-x"}))

    assert names(queue) == ["a"]


def test_a_pod_whose_claims_get_names_during_its_decision_is_tried_again(queue: PodQueue) -> None:
    queue.add(pod("a"))
    item = popped(queue)
    queue.add(pod("a", claim_names={"gpu": "a-gpu-x"}))
    queue.postpone(item, lambda change: False, backoff=False)

    assert names(queue) == ["a"]


def test_a_status_change_of_a_waiting_pod_is_no_reason_to_try_it(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: False)
    clock.now_s += 60.0
    queue.add(pod("a", phase="Unknown"))

    assert names(queue) == []


async def test_waiting_for_a_pod_ends_when_one_comes(queue: PodQueue) -> None:
    waiting = asyncio.create_task(queue.pop())
    await asyncio.sleep(0)
    queue.add(pod("a"))

    assert (await asyncio.wait_for(waiting, 60)).pod.metadata.name == "a"


async def test_a_clock_that_jumps_is_noticed_when_asked_to_look_again(queue: PodQueue, clock: Clock) -> None:
    queue.add(pod("a"))
    queue.postpone(popped(queue), lambda change: False)
    waiting = asyncio.create_task(queue.pop())
    await asyncio.sleep(0)
    clock.now_s += 3600.0
    queue.look_again()

    assert (await asyncio.wait_for(waiting, 60)).pod.metadata.name == "a"
