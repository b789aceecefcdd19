"""Plans carried out step by step: what is evicted, what stops it, and what is told to be left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from claimsmith.daemons.carryout import CarriedOut, CarryOut, Check, Step, Verdict
from claimsmith.errors import ApiError, ConflictError, ForbiddenError, NotFoundError, ThrottledError, UnreachableError
from claimsmith.model.names import PodRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from tests.unit.allocate.trying import cluster, ref, running

ONE, TWO = running("one", "a", "g0"), running("two", "b", "g0")
STEPS: tuple[Step, ...] = ((ONE[0],), (TWO[0],))
WHOLE = cluster({"a": 1, "b": 1}, ONE, TWO)


def fine(snapshot: ClusterSnapshot, left: Sequence[Step]) -> Verdict:
    del snapshot, left
    return Verdict()


@dataclass
class Cluster:
    """A server that notes evictions, and may refuse them; and the states that it shows, the last one for ever."""

    states: list[ClusterSnapshot] = field(default_factory=lambda: [WHOLE])
    refuses: dict[PodRef, ApiError] = field(default_factory=dict)
    evicted: list[tuple[PodRef, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    pauses: int = 0

    async def evict(self, pod: PodRef, *, uid: str = "") -> None:
        if pod in self.refuses:
            raise self.refuses[pod]
        self.evicted.append((pod, uid))

    async def read(self) -> ClusterSnapshot:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def pause(self, seconds: float) -> None:
        del seconds
        self.pauses += 1

    async def carry_out(self, check: Check = fine, patience_s: float | None = None) -> CarriedOut:
        plan = CarryOut(
            client=self, read=self.read, check=check, tell=self.told.append, patience_s=patience_s, pause=self.pause
        )
        return await plan.run(STEPS)


async def test_the_very_pods_of_the_plan_are_evicted_in_order() -> None:
    server = Cluster()
    done = await server.carry_out()

    assert done == CarriedOut(evicted=(ref("one"), ref("two")))
    assert server.evicted == [(pod.ref, pod.uid) for step in STEPS for pod in step]
    assert server.told == ["evicted default/one from a", "evicted default/two from b"]


async def test_each_step_is_looked_at_with_what_is_left() -> None:
    seen: list[int] = []

    def check(_: ClusterSnapshot, left: Sequence[Step]) -> Verdict:
        seen.append(len(left))
        return Verdict()

    await Cluster().carry_out(check)

    assert seen == [2, 1]


def after(count: int, verdict: Verdict) -> Callable[[ClusterSnapshot, Sequence[Step]], Verdict]:
    """A check that lets so many steps pass."""
    verdicts: Iterator[Verdict] = iter([*[Verdict()] * count, verdict])
    return lambda _snapshot, _left: next(verdicts)


async def test_a_change_stops_the_plan_before_anything_is_done() -> None:
    server = Cluster()
    done = await server.carry_out(after(0, Verdict(problem="changed")))

    assert (done, server.evicted) == (CarriedOut(left=(ref("one"), ref("two")), stopped="changed"), [])


async def test_a_change_on_the_way_leaves_the_rest_undone() -> None:
    done = await Cluster().carry_out(after(1, Verdict(problem="changed")))

    assert done == CarriedOut(evicted=(ref("one"),), left=(ref("two"),), stopped="changed")


async def test_what_is_not_needed_any_more_is_spared() -> None:
    done = await Cluster().carry_out(after(1, Verdict(is_needless=True)))

    assert done == CarriedOut(evicted=(ref("one"),), left=(ref("two"),))


async def test_a_budget_that_forbids_an_eviction_stops_the_plan() -> None:
    server = Cluster(refuses={ref("two"): ThrottledError("the disruption budget needs 1 healthy pod")})
    done = await server.carry_out()

    assert (done.evicted, done.left) == ((ref("one"),), (ref("two"),))
    assert done.stopped == "pod default/two may not be evicted now: the disruption budget needs 1 healthy pod"


@pytest.mark.parametrize("error", [NotFoundError("gone", status=404), ConflictError("another uid", status=409)])
async def test_a_pod_that_goes_in_that_moment_is_no_obstacle(error: ApiError) -> None:
    server = Cluster(refuses={ref("one"): error})
    done = await server.carry_out()

    assert done == CarriedOut(evicted=(ref("two"),))
    assert server.told[0] == "default/one has gone without that it was evicted"


@pytest.mark.parametrize("error", [UnreachableError("away"), ForbiddenError("may not", status=403)])
async def test_what_was_done_is_told_when_the_server_fails(error: ApiError) -> None:
    done = await Cluster(refuses={ref("two"): error}).carry_out()

    assert done == CarriedOut(evicted=(ref("one"),), left=(ref("two"),), stopped=str(error))


def with_pod(name: str, change: Callable[[Pod], Pod]) -> ClusterSnapshot:
    """The cluster with one pod changed."""
    return replace(WHOLE, pods={**WHOLE.pods, ref(name): change(WHOLE.pods[ref(name)])})


def as_another(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid="another"))


def as_ending(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize("change", [as_another, as_ending])
async def test_a_pod_that_is_another_one_or_ends_is_not_evicted(change: Callable[[Pod], Pod]) -> None:
    server = Cluster(states=[with_pod("one", change)])
    done = await server.carry_out()

    assert done == CarriedOut(evicted=(ref("two"),))


def without(*names: str) -> ClusterSnapshot:
    return replace(WHOLE, pods={key: pod for key, pod in WHOLE.pods.items() if key.name not in names})


async def test_the_next_step_waits_until_the_pods_have_ended_and_their_successors_have_nodes() -> None:
    gone = without("one")
    (heir, _) = running("heir", "b", "g0")
    waits = replace(gone, pods={**gone.pods, heir.ref: replace(heir, node_name="")})
    placed = replace(gone, pods={**gone.pods, heir.ref: heir})
    server = Cluster(states=[WHOLE, WHOLE, gone, waits, placed, placed, WHOLE])
    plan = CarryOut(
        client=server, read=server.read, check=fine, tell=server.told.append, patience_s=60, pause=server.pause
    )
    done = await plan.run(STEPS[:1])

    assert (done.stopped, server.pauses) == ("", 3)


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (WHOLE, "pod default/one has not ended after 0.05 s"),
        (without("one"), "what is made for pod default/one has no node after 0.05 s"),
    ],
)
async def test_a_step_that_takes_too_long_stops_the_plan(state: ClusterSnapshot, what: str) -> None:
    server = Cluster(states=[WHOLE, state])
    plan = CarryOut(client=server, read=server.read, check=fine, tell=server.told.append, patience_s=0.05)
    done = await plan.run(STEPS)

    assert (done.stopped, done.evicted, done.left) == (what, (ref("one"),), (ref("two"),))
