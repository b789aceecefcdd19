"""Moves that make room for refused pods: each way of finding them, and what holds while they are carried out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from claimsmith.allocate.policy.objective import FGD, PACK
from claimsmith.model.node import Node
from claimsmith.replay.cluster import Placed, ReplayCluster
from claimsmith.replay.migrate import migrate
from claimsmith.replay.rooms import Rooms
from claimsmith.replay.trace import TraceNode, TracePod
from tests.unit.replay.small_trace import make_trace, trace_node, trace_pod

State = tuple[list[tuple[TracePod, str]], list[tuple[dict[str, int], tuple[int, int]]], int]


class WatchedCluster(ReplayCluster):
    """A cluster that notes how many pods are without a place, and whether anything is ever used twice.

    Attributes:
        left, away_most: How many pods have left their places, and how many were without one at the same time.
        overdrawn: Nodes of which more was taken than there is, at any moment.
        refuses: Arrivals that it refuses from now on, by number.
    """

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        super().__init__(make_trace(nodes, [trace_pod()]), PACK)
        self.left = self.away_most = self.arrivals = 0
        self.overdrawn: list[str] = []
        self.refuses: frozenset[int] = frozenset()
        self._settled = 0

    def watch(self) -> None:
        """Start counting: everybody has a place now."""
        self.arrivals, self._settled = 0, len(self.placed)

    def place(self, pod: TracePod, *, on: Node | None = None) -> Placed | None:
        self.arrivals += 1
        placed = None if self.arrivals in self.refuses else super().place(pod, on=on)
        self._look()
        return placed

    def remove(self, placed: Placed) -> None:
        super().remove(placed)
        self.left += 1
        self._look()

    def _look(self) -> None:
        self.away_most = max(self.away_most, self._settled - len(self.placed))
        for name in self.snapshot.nodes:
            if min(*self.free_share(name), *self.free_milli(name).values()) < 0:
                self.overdrawn.append(name)


def put(cluster: ReplayCluster, node: str, *pods: TracePod) -> list[Placed]:
    """Place pods on a node."""
    found = [cluster.place(pod, on=cluster.snapshot.nodes[node]) for pod in pods]
    return [placed for placed in found if placed is not None]


def read(cluster: ReplayCluster) -> State:
    """What is where, and what is left."""
    pods = sorted(((item.pod, item.node) for item in cluster.placed.values()), key=repr)
    names = list(cluster.snapshot.nodes)
    return pods, [(cluster.free_milli(name), cluster.free_share(name)) for name in names], cluster.allocated_milli


def make_crowd(seed: int) -> tuple[WatchedCluster, list[TracePod]]:
    """A few nodes full of random pods, and the pods that did not fit."""
    chance = random.Random(seed)
    nodes = [
        trace_node(f"n{n}", cpu=chance.choice((12_000, 24_000)), gpus=n % 3 + 1, model="AB"[n % 2]) for n in range(6)
    ]
    cluster, refused = WatchedCluster(nodes), []
    for _ in range(40):
        milli = chance.choice((0, 200, 300, 500, 700, 1_000))
        pod = trace_pod(milli, cpu=chance.choice((1_000, 2_000, 5_000)), models=chance.choice(("", "", "A")))
        if cluster.place(pod, on=cluster.nodes[chance.randrange(6)]) is None and cluster.place(pod) is None:
            refused.append(pod)
    cluster.watch()
    return cluster, refused


def make_pair() -> ReplayCluster:
    """A full GPU of two halves, and two more of another model that are half full."""
    nodes = [trace_node(f"n{n}", gpus=1, model=model) for n, model in enumerate("ABB")]
    cluster = ReplayCluster(make_trace(nodes, [trace_pod()]), PACK)
    put(cluster, "n0", trace_pod(500), trace_pod(500))
    put(cluster, "n1", trace_pod(500, cpu=1_000))
    put(cluster, "n2", trace_pod(500, cpu=1_000))
    return cluster


def make_chain() -> ReplayCluster:
    """The only GPU of model A can be left for one of model B as soon as somebody leaves that for model C."""
    nodes = [trace_node(f"n{n}", gpus=1, model=model) for n, model in enumerate("ABC")]
    cluster = ReplayCluster(make_trace(nodes, [trace_pod()]), PACK)
    put(cluster, "n0", trace_pod(600, models="A|B"))
    put(cluster, "n1", trace_pod(500, models="B|C"))
    put(cluster, "n2", trace_pod(500, models="C"))
    return cluster


def test_a_pod_moves_beside_another_one_of_its_own_node() -> None:
    cluster = ReplayCluster(make_trace([trace_node()], [trace_pod()]), PACK)
    first, second, _ = put(cluster, "n0", trace_pod(900), trace_pod(800), trace_pod(200))
    cluster.remove(first)
    put(cluster, "n0", trace_pod(500))
    cluster.remove(second)
    before = sorted(cluster.free_milli("n0").values())

    assert migrate(cluster, [trace_pod()], most=1) == 1
    assert (before, sorted(cluster.free_milli("n0").values())) == ([500, 800], [0, 300])


def test_two_pods_of_one_node_leave_for_two_others() -> None:
    cluster = make_pair()

    assert migrate(cluster, [trace_pod(models="A")], most=2) == 2
    assert cluster.allocated_milli == 3_000


def test_a_pod_takes_the_place_that_another_one_leaves_for_a_third_node() -> None:
    cluster = make_chain()

    assert migrate(cluster, [trace_pod(models="A")], most=2) == 2
    assert Counter((placed.node, placed.pod.gpu_milli) for placed in cluster.placed.values()) == Counter(
        {("n0", 1_000): 1, ("n1", 600): 1, ("n2", 500): 2}
    )


@pytest.mark.parametrize("make", [make_pair, make_chain])
def test_what_needs_more_moves_than_allowed_is_left_alone(make: Callable[[], ReplayCluster]) -> None:
    cluster = make()
    before = read(cluster)

    assert migrate(cluster, [trace_pod(models="A")], most=1) == 0
    assert read(cluster) == before


def test_a_pod_that_fits_is_placed_without_a_move() -> None:
    cluster = make_pair()

    assert migrate(cluster, [trace_pod(500)], most=0) == 0
    assert cluster.allocated_milli == 2_500


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_everything_is_as_before_when_the_allocator_refuses_a_step(refused: int) -> None:
    nodes = [trace_node(f"n{n}", gpus=1, model=model) for n, model in enumerate("ABC")]
    cluster = WatchedCluster(nodes)
    put(cluster, "n0", trace_pod(600, models="A|B"))
    put(cluster, "n1", trace_pod(500, models="B|C"))
    put(cluster, "n2", trace_pod(500, models="C"))
    cluster.watch()
    cluster.refuses = frozenset((refused,))
    before = read(cluster)

    assert migrate(cluster, [trace_pod(models="A")], most=2) == 0
    assert read(cluster) == before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [0, 1, 4, 100])
def test_no_more_is_moved_than_allowed_and_all_are_at_home_but_the_pods_of_one_step(seed: int, most: int) -> None:
    cluster, refused = make_crowd(seed)
    running = Counter(placed.pod for placed in cluster.placed.values())
    moves = migrate(cluster, refused, most=most)
    after = Counter(placed.pod for placed in cluster.placed.values())

    assert moves == cluster.left <= most
    assert cluster.away_most <= 2
    assert cluster.overdrawn == []
    assert running <= after
    assert after - running <= Counter(refused)


@pytest.mark.parametrize("seed", range(4))
def test_no_pod_that_fits_is_left_waiting(seed: int) -> None:
    cluster, refused = make_crowd(seed)
    before = Counter(placed.pod for placed in cluster.placed.values())
    migrate(cluster, refused, most=3)
    placed = Counter(placed.pod for placed in cluster.placed.values()) - before
    waiting = Counter(refused) - placed

    assert [pod for pod in waiting if cluster.place(pod) is not None] == []


def test_moves_are_found_in_random_crowds() -> None:
    found = [migrate(*make_crowd(seed), most=100) for seed in range(6)]

    assert sum(found) >= 6


@pytest.mark.parametrize("seed", range(3))
def test_the_index_that_follows_moves_is_like_one_that_is_made_anew(seed: int) -> None:
    cluster, refused = make_crowd(seed)
    rooms = Rooms(cluster)
    kinds = {pod: rooms.get_kind(pod) for pod in (*refused, *(item.pod for item in cluster.placed.values()))}
    for kind in kinds.values():
        rooms.find_fitting(kind)
        rooms.find_replaceable(kind)
    gone = list(cluster.placed.values())[::3]
    for placed in gone:
        cluster.remove(placed)
    come = [found for pod in refused if (found := cluster.place(pod)) is not None]
    rooms.follow(gone, come)

    anew = Rooms(cluster)
    assert [describe(rooms, pod) for pod in kinds] == [describe(anew, pod) for pod in kinds]


def describe(rooms: Rooms, pod: TracePod) -> tuple[list[str], dict[TracePod, list[str]]]:
    """Where a pod fits, and in whose place it would."""
    kind = rooms.get_kind(pod)
    places = {
        other.pod: sorted(site.node.name for site in sites)
        for other, sites in rooms.find_replaceable(kind).items()
        if sites
    }
    return sorted(site.node.name for site in rooms.find_fitting(kind)), places


def test_fgd_gets_the_same_moves_twice() -> None:
    runs = []
    for _ in range(2):
        cluster = ReplayCluster(make_trace([trace_node(f"n{n}") for n in range(4)], [trace_pod()] * 3), FGD)
        pods = [trace_pod(milli, cpu=3_000) for milli in (700, 600, 300, 400, 500, 500, 800, 200, 900, 1_000, 1_000)]
        refused = [pod for pod in pods if cluster.place(pod) is None]
        runs.append((migrate(cluster, refused, most=10), read(cluster)))

    assert runs[0] == runs[1]
