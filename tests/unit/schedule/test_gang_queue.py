"""Gangs in the scheduler's queue: one entry for all pods of a group."""

from __future__ import annotations

import pytest

from claimsmith.model.podgroup import PodGroupRef
from claimsmith.schedule.gangs import Gang
from claimsmith.schedule.queue import GATHER_S, Change, PodQueue, QueuedPod
from claimsmith.testing.builders import pod, pod_group

REF = PodGroupRef("default", "gang")


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


def gang(*names: str, least: int = 2, priority: int = 0, has_group: bool = True) -> Gang:
    waiting = tuple(pod(name, pod_group="gang", priority=priority) for name in names)
    return Gang(ref=REF, group=pod_group(least=least) if has_group else None, waiting=waiting)


def pop(queue: PodQueue) -> QueuedPod:
    item = queue.pop_ready()
    assert item is not None
    return item


def pods_of(item: QueuedPod) -> list[str]:
    assert item.gang is not None
    return [member.ref.name for member in item.gang.waiting]


def test_a_gang_comes_out_as_one(queue: PodQueue) -> None:
    queue.add_gang(gang("a", "b"))

    assert pods_of(pop(queue)) == ["a", "b"]
    assert queue.pop_ready() is None


def test_a_pod_may_have_the_name_of_a_group(queue: PodQueue) -> None:
    queue.add_gang(gang("a", "b"))
    queue.add(pod("gang"))

    assert len(queue) == 2
    assert {pop(queue).name, pop(queue).name} == {"group default/gang", "default/gang"}


def test_a_gang_of_higher_priority_comes_before_pods(queue: PodQueue) -> None:
    queue.add(pod("low"))
    queue.add_gang(gang("a", "b", priority=5))

    assert [pop(queue).name, pop(queue).name] == ["group default/gang", "default/low"]


def test_a_gang_that_is_not_complete_waits(queue: PodQueue) -> None:
    queue.add_gang(gang("a"))

    assert queue.pop_ready() is None
    assert queue.next_in_s() == GATHER_S


def test_a_gang_that_stays_incomplete_is_given_out_to_be_told_of(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a"))
    clock.now_s += GATHER_S

    assert pods_of(pop(queue)) == ["a"]


def test_the_last_pod_lets_a_gang_out_at_once(queue: PodQueue) -> None:
    queue.add_gang(gang("a"))
    queue.add_gang(gang("a", "b"))

    assert pods_of(pop(queue)) == ["a", "b"]


def test_the_group_lets_its_pods_out(queue: PodQueue) -> None:
    queue.add_gang(gang("a", "b", has_group=False))
    early = queue.pop_ready()
    queue.add_gang(gang("a", "b"))

    assert early is None
    assert pods_of(pop(queue)) == ["a", "b"]


def test_an_incomplete_gang_is_not_let_out_by_changes_in_the_cluster(queue: PodQueue) -> None:
    queue.add_gang(gang("a"))
    queue.hear(Change("node", "n"))

    assert queue.pop_ready() is None


def test_a_pod_more_lets_a_waiting_gang_out_after_its_backoff(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a", "b"))
    queue.postpone(pop(queue), lambda _: False)
    queue.add_gang(gang("a", "b", "c"))
    clock.now_s += 1.0

    assert pods_of(pop(queue)) == ["a", "b", "c"]


def test_a_lower_count_lets_a_waiting_gang_out(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a", "b", least=2))
    queue.postpone(pop(queue), lambda _: False)
    queue.add_gang(gang("a", "b", least=1))
    clock.now_s += 1.0

    assert pods_of(pop(queue)) == ["a", "b"]


def test_the_same_gang_again_changes_nothing(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a", "b"))
    queue.postpone(pop(queue), lambda _: False)
    queue.add_gang(gang("a", "b"))
    clock.now_s += 20.0

    assert queue.pop_ready() is None


def test_a_pod_that_comes_during_the_decision_counts_for_it(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a", "b"))
    item = pop(queue)
    queue.add_gang(gang("a", "b", "c"))
    queue.postpone(item, lambda _: False)
    clock.now_s += 1.0

    assert pods_of(pop(queue)) == ["a", "b", "c"]


def test_pods_that_come_back_after_a_trial_are_no_news(queue: PodQueue, clock: Clock) -> None:
    queue.add_gang(gang("a", "b"))
    item = pop(queue)
    queue.add_gang(gang("a"))
    queue.add_gang(gang("a", "b"))
    queue.postpone(item, lambda _: False)
    clock.now_s += 20.0

    assert queue.pop_ready() is None


def test_a_gang_that_is_removed_is_forgotten(queue: PodQueue) -> None:
    queue.add_gang(gang("a", "b"))
    queue.remove_gang(REF)

    assert (len(queue), queue.pop_ready()) == (0, None)


def test_a_change_that_helps_lets_a_gang_out(queue: PodQueue) -> None:
    queue.add_gang(gang("a", "b"))
    queue.postpone(pop(queue), lambda change: change.kind == "slice")
    queue.hear(Change("slice"))

    assert pods_of(pop(queue)) == ["a", "b"]


def test_the_next_one_is_taken_only_if_it_is_accepted(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.add_gang(gang("b", "c"))
    queue.add(pod("d"))
    taken = [queue.pop_next(lambda item: item.gang is None) for _ in range(2)]

    assert [item.name if item else "" for item in taken] == ["default/a", ""]
    assert pop(queue).name == "group default/gang"


def test_the_next_one_may_be_in_backoff_when_a_change_helps_it(queue: PodQueue) -> None:
    queue.add(pod("a"))
    queue.postpone(pop(queue), lambda change: change.kind == "slice")
    early = queue.pop_next(lambda _: True)
    queue.hear(Change("slice"))
    late = queue.pop_next(lambda _: True)

    assert early is None
    assert late is not None
