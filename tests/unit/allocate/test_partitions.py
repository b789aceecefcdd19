"""How many partitions of each size are left, and what it costs to lose some."""

from __future__ import annotations

from math import log

from claimsmith.allocate.policy.nodestates import NodeStates, PoolState
from claimsmith.allocate.policy.objective import FRAGMENTATION
from claimsmith.allocate.policy.partitions import UNIT, PartitionSizes, PartitionTotals, measure_loss
from claimsmith.allocate.policy.placing import place_claims
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import DRIVER, claim, consumes, counter_set, device, node, request, slice_, snapshot
from tests.unit.allocate.cards import cards, holds, wants
from tests.unit.allocate.solving import number_shares

SIZES = (1, 2, 4)


def look(cluster: ClusterSnapshot) -> list[PoolState]:
    """The states of the cards."""
    prepared = PreparedCluster.from_snapshot(cluster)
    states = NodeStates(prepared)
    plans = [prepared.plan((wants(size),)) for size in SIZES]
    states.learn(plan.claims[0].groups[0].alternatives[0].shape for plan in plans)
    return [states.find(prepared.view_node(node)).pools[0] for node in cluster.nodes.values()]


def place(cluster: ClusterSnapshot, wanted: ResourceClaim) -> str:
    """The device that a claim gets, with its node."""
    decision = place_claims(
        PreparedCluster.from_snapshot(cluster),
        (wanted,),
        nodes=tuple(cluster.nodes.values()),
        policy=FRAGMENTATION,
        share_ids=number_shares(),
    )
    assert isinstance(decision, Allocation)
    return f"{decision.node}/{decision.results[0].results[0].device}"


def test_partitions_of_one_size_are_counted_together_wherever_they_lie() -> None:
    (pool,) = look(cards("node-a"))

    assert sorted(number for _, number in PartitionSizes().count(pool)) == [1, 2, 4]


def test_a_partition_in_use_takes_away_those_that_overlap_it() -> None:
    (pool,) = look(cards("node-a", holders=[holds("h", "s1-1")]))

    assert sorted(number for _, number in PartitionSizes().count(pool)) == [1, 3]


def test_cards_that_are_equally_used_are_one_state() -> None:
    holders = [holds("h", "s1-1"), holds("i", "s1-1", on="node-b")]
    first, second = look(cards("node-a", "node-b", holders=holders))

    assert first is second


def test_totals_follow_the_pools() -> None:
    free, used = look(cards("node-a", "node-b", holders=[holds("h", "s4-0", on="node-b")]))
    totals = PartitionTotals(PartitionSizes())
    totals.follow([("a", free), ("b", free)])
    totals.follow([("b", used)])

    assert sorted(totals.numbers) == [1, 2, 4]


def test_losing_one_of_few_costs_more_than_losing_one_of_many() -> None:
    assert measure_loss(((0, 1),), (1,)) == round(UNIT * log(2))
    assert measure_loss(((0, 1),), (99,)) == round(UNIT * log(100 / 99))


def test_what_comes_back_is_a_gain() -> None:
    assert measure_loss(((0, -1),), (0,)) == -round(UNIT * log(2))


def test_a_small_partition_goes_where_nothing_larger_is_lost() -> None:
    cluster = cards("node-a", "node-b", holders=[holds("h", "s1-3", on="node-b")])

    assert place(cluster, wants(1)) == "node-b/s1-2"


def test_the_only_one_of_a_size_is_kept_though_more_partitions_are_lost_elsewhere() -> None:
    """On the first node a wanted device shuts out three of thirteen common ones, on the second the only rare one."""
    counters = (counter_set("card", {"slots": 10}),)
    wanted, names = {"kind": "wanted"}, ("node-a", "node-b", "node-c")
    first = device("first", attributes=wanted, counters=(consumes("card", {"slots": 8}),))
    second = device("second", attributes=wanted, counters=(consumes("card", {"slots": 8}),))
    rare = device("rare", counters=(consumes("card", {"slots": 9}),))
    common = [device(f"common-{index}", counters=(consumes("card", {"slots": 3}),)) for index in range(10)]
    cluster = snapshot(
        *(node(name) for name in names),
        *(slice_(name=f"{name}-0", node=name, slice_count=2, shared_counters=counters) for name in names),
        slice_(first, *common[:3], name="node-a-1", node="node-a", slice_count=2),
        slice_(second, rare, name="node-b-1", node="node-b", slice_count=2),
        slice_(*common, name="node-c-1", node="node-c", slice_count=2),
    )
    selector = f'device.attributes["{DRIVER}"].?kind.orValue("") == "wanted"'

    assert place(cluster, claim("c", request("r", selector))) == "node-a/first"
