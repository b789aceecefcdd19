"""Where a pod goes by a policy."""

from __future__ import annotations

from itertools import count

import pytest

from claimsmith.allocate.policy import nodestates, placing
from claimsmith.allocate.policy.demand import DemandCounter, DemandProfile
from claimsmith.allocate.policy.objective import FRAGMENTATION, PACK, POLICIES, SPREAD, Policy
from claimsmith.allocate.policy.placing import Placer, place_claims
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Pending, Refused
from claimsmith.model.device import Device
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    device,
    node,
    quantity,
    request,
    slice_,
    snapshot,
    sub,
)

KIND = 'device.attributes["gpu.example.test"].kind == "{}"'


def shared(name: str, *, kind: str = "gpu", **amounts: int) -> Device:
    found = {key: capacity(amount) for key, amount in amounts.items()}
    return device(name, attributes={"kind": kind}, capacity=found, allow_multiple_allocations=True)


def part(name: str, kind: str = "gpu", **amounts: int) -> ResourceClaim:
    wanted = {key: quantity(amount) for key, amount in amounts.items()}
    return claim(name, request("r", KIND.format(kind), capacity=wanted))


class Placing:
    """Places pods one after the other and counts what they hold."""

    def __init__(self, policy: Policy, *objects: Node | ResourceSlice, profile: DemandProfile | None = None) -> None:
        found = snapshot(*objects)
        self.cluster = PreparedCluster.from_snapshot(found)
        self.nodes = tuple(found.nodes.values())
        self.placer = Placer(self.cluster, policy, profile=profile)
        self.numbers = count()

    def place(self, wanted: ResourceClaim) -> str:
        """The device that the pod got."""
        decision = self.placer.place((wanted,), nodes=self.nodes, share_ids=lambda: f"s{next(self.numbers)}")
        if not isinstance(decision, Allocation):
            return type(decision).__name__
        self.cluster.hold(allocated(wanted, *decision.results[0].results))
        return "+".join(f"{item.pool}/{item.device}" for item in decision.results[0].results)

    def know(self, *pods: ResourceClaim) -> None:
        counter = DemandCounter()
        counter.add_all(self.cluster.plan((pod,)) for pod in pods)
        self.placer = Placer(self.cluster, self.placer.policy, profile=counter.profile())


def two_nodes(*devices: Device) -> list[Node | ResourceSlice]:
    names = ("n0", "n1")
    return [*(node(name) for name in names), *(slice_(*devices, name=name, node=name, pool=name) for name in names)]


def test_pack_goes_to_the_node_that_is_used_and_spread_to_the_other() -> None:
    found = {}
    for policy in (PACK, SPREAD):
        placing = Placing(policy, *two_nodes(device("a"), device("b")))
        found[policy.name] = (placing.place(claim("one")), placing.place(claim("two")))

    assert found == {"pack": ("n0/a", "n0/b"), "spread": ("n0/a", "n1/a")}


def test_a_small_wish_gets_the_small_device() -> None:
    large, small = (device(name, capacity={"memory": capacity(size)}) for name, size in (("a", 80), ("b", 20)))

    assert Placing(PACK, *two_nodes(large, small)).place(claim("one")) == "n0/b"


def test_a_node_with_the_better_alternative_comes_first() -> None:
    objects: list[Node | ResourceSlice] = [
        node("n0"),
        node("n1"),
        slice_(device("half", attributes={"kind": "half"}), name="n0", node="n0", pool="n0"),
        slice_(device("whole", attributes={"kind": "whole"}), name="n1", node="n1", pool="n1"),
    ]
    wish = alternatives("r", sub("first", KIND.format("whole")), sub("second", KIND.format("half")))

    assert Placing(FRAGMENTATION, *objects).place(claim("one", wish)) == "n1/whole"


def test_a_part_fills_the_hole_that_it_leaves_no_waste_in() -> None:
    placing = Placing(FRAGMENTATION, *two_nodes(shared("a", milli=10), shared("b", milli=10)))
    placing.know(*[part("p", milli=6)] * 5, *[part("p", milli=4)] * 5)
    first = [placing.place(part(f"large-{number}", milli=6)) for number in range(2)]

    assert first == ["n0/a", "n0/b"]
    assert [placing.place(part(f"small-{number}", milli=4)) for number in range(2)] == ["n0/a", "n0/b"]


def test_demand_that_is_learned_gives_the_same_order_as_one_that_is_known() -> None:
    pods = [part(f"p{number}", milli=6 if number % 2 else 4) for number in range(20)]
    orders = []
    for learns in (True, False):
        placing = Placing(FRAGMENTATION, *two_nodes(shared("a", milli=10), shared("b", milli=10)))
        if not learns:
            placing.know(*pods)
        for pod in pods:
            placing.placer.observe((pod,))
        orders.append([placing.place(pod) for pod in pods[:8]])

    assert orders[0] == orders[1]


def test_a_part_goes_where_the_processors_for_the_next_one_are_left() -> None:
    objects: list[Node | ResourceSlice] = [
        node("n0"),
        node("n1"),
        *(
            slice_(shared("a", milli=10), shared("host", kind="host", cpu=cpu), name=name, node=name, pool=name)
            for name, cpu in (("n0", 16), ("n1", 30))
        ),
    ]

    def pod(name: str, milli: int, cpu: int) -> ResourceClaim:
        gpu = request("gpu", KIND.format("gpu"), capacity={"milli": quantity(milli)})
        return claim(name, gpu, request("host", KIND.format("host"), capacity={"cpu": quantity(cpu)}))

    placing = Placing(FRAGMENTATION, *objects)
    placing.know(*[pod("p", 5, 10)] * 9, pod("q", 10, 10))

    assert placing.place(pod("one", 5, 10)) == "n1/a+n1/host"


def test_a_pod_that_fits_nowhere_is_pending() -> None:
    placing = Placing(FRAGMENTATION, *two_nodes(shared("a", milli=10)))

    assert placing.place(part("p", milli=11)) == "Pending"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_places_as_many_equal_pods_as_there_are_devices(policy: str) -> None:
    placing = Placing(POLICIES[policy], *two_nodes(device("a"), device("b")))

    placed = [placing.place(claim(f"c{number}")) for number in range(5)]
    assert sorted(placed) == ["Pending", "n0/a", "n0/b", "n1/a", "n1/b"]


def test_a_node_without_room_for_the_rest_of_the_pod_is_passed_over() -> None:
    placing = Placing(PACK, *two_nodes(device("a")))

    decision = placing.placer.place(
        (claim("one"),), nodes=placing.nodes, share_ids=lambda: "s", fits=lambda found: found.node == "n1"
    )
    assert isinstance(decision, Allocation)
    assert decision.node == "n1"


def test_a_claim_of_a_class_that_is_not_there_is_refused() -> None:
    placing = Placing(PACK, *two_nodes(device("a")))

    assert placing.place(claim("one", request("r", klass="missing"))) == Refused.__name__


def test_slices_that_come_later_are_seen() -> None:
    first = snapshot(*two_nodes())
    cluster = PreparedCluster.from_snapshot(first)
    placer, nodes = Placer(cluster, PACK), tuple(first.nodes.values())
    before = placer.place((claim("one"),), nodes=nodes, share_ids=lambda: "s")
    cluster.update(snapshot(*two_nodes(device("a"))))

    after = placer.place((claim("one"),), nodes=nodes, share_ids=lambda: "s")
    assert (type(before), type(after)) == (Pending, Allocation)


def test_without_a_placer_a_policy_needs_no_demand() -> None:
    cluster = PreparedCluster.from_snapshot(snapshot(*two_nodes(device("a"))))

    decision = place_claims(
        cluster, (claim("one"),), nodes=(node("n0"), node("n1")), policy=PACK, share_ids=lambda: "s"
    )
    assert isinstance(decision, Allocation)


def test_what_is_foreseen_is_what_comes_and_changes_nothing() -> None:
    pods = [part(f"p{number}", milli=milli) for number, milli in enumerate((6, 6, 4, 6, 6, 6))]
    placing = Placing(FRAGMENTATION, *two_nodes(shared("a", milli=10), shared("b", milli=10)))
    placing.know(*pods)

    plans = [placing.placer.cluster.plan((pod,)) for pod in pods]
    outlook = placing.placer.foresee(plans, nodes=placing.nodes)
    values = sum(map(placing.placer.value, placing.nodes))
    fragments = sum(map(placing.placer.fragments, placing.nodes))
    placed = [placing.place(pod) for pod in pods]
    assert outlook.placed == tuple(place != "Pending" for place in placed)
    assert outlook.value == sum(map(placing.placer.value, placing.nodes)) - values
    assert outlook.fragments == sum(map(placing.placer.fragments, placing.nodes)) - fragments


def test_answers_stay_the_same_when_too_much_is_known_and_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [part(f"p{number}", milli=6 if number % 3 else 4) for number in range(12)]
    orders = []
    for limit in (100_000, 0):
        monkeypatch.setattr(nodestates, "KNOWN_STATES_MAX", limit)
        monkeypatch.setattr(placing, "JOURNAL_MAX", limit)
        tried = Placing(FRAGMENTATION, *two_nodes(*(shared(name, milli=10) for name in "abc")))
        tried.know(*pods)
        orders.append([tried.place(pod) for pod in pods])

    assert orders[0] == orders[1]
