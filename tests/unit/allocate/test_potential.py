"""What a node is worth, and what of it lies in fragments, against the definitions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.policy.demand import DemandCounter, DemandProfile
from claimsmith.allocate.policy.objective import FGD, FRAGMENTATION, Policy
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node
from claimsmith.testing.builders import (
    allocated,
    claim,
    consumes,
    counter_set,
    device,
    device_id,
    node,
    quantity,
    request,
    result,
    slice_,
    snapshot,
)

KIND = 'device.attributes["gpu.example.test"].kind == "{}"'
WHOLE, CPU = 10, 40


@dataclass(frozen=True)
class Asked:
    """A pod: so much of each of some GPUs, and processors."""

    gpus: int
    part: int
    cpu: int

    def build(self, name: str = "pod") -> ResourceClaim:
        host = request("host", KIND.format("host"), capacity={"cpu": quantity(self.cpu)})
        if not self.gpus:
            return claim(name, host)
        gpus = request("gpus", KIND.format("gpu"), count=self.gpus, capacity={"milli": quantity(self.part)})
        return claim(name, gpus, host)


class Shown:
    """One node with GPUs of which parts are used, and the placer's view of it."""

    def __init__(self, used: list[int], cpu_used: int, pods: list[Asked], policy: Policy = FRAGMENTATION) -> None:
        gpus = [
            device(f"g{n}", attributes={"kind": "gpu"}, capacity={"milli": WHOLE}, allow_multiple_allocations=True)
            for n in range(len(used))
        ]
        host = device("h", attributes={"kind": "host"}, capacity={"cpu": CPU}, allow_multiple_allocations=True)
        self.cluster = PreparedCluster.from_snapshot(snapshot(slice_(*gpus, host)))
        self.node: Node = node()
        self.placer = Placer(self.cluster, policy, profile=self.count(pods))
        for number, amount in enumerate(used):
            if amount:
                self.hold(f"g{number}", milli=amount)
        if cpu_used:
            self.hold("h", cpu=cpu_used)

    def count(self, pods: list[Asked]) -> DemandProfile:
        counter = DemandCounter()
        counter.add_all(self.cluster.plan((pod.build(),)) for pod in pods)
        return counter.profile()

    def hold(self, name: str, **consumed: int) -> None:
        got = result(device_id(name), share=f"s-{name}", consumed=consumed)
        self.cluster.hold(allocated(claim(f"held-{name}"), got))


def count_fragments(pods: list[Asked], free: list[int], cpu: int) -> float:
    """The definition: what the typical pods, 95 % of all, can't use on average."""
    kinds = sorted({pod: pods.count(pod) for pod in pods}.items(), key=lambda item: (-item[1], pods.index(item[0])))
    typical: list[Asked] = []
    for pod, number in kinds:
        if len(typical) * 100 < len(pods) * 95:
            typical += [pod] * number
    total = 0
    for pod in typical:
        fitting = [room for room in free if room >= pod.part]
        hosted = pod.gpus and pod.cpu <= cpu and len(fitting) >= pod.gpus
        total += sum(free) - (sum(fitting) if hosted else 0)
    return 1000 * total / WHOLE / len(typical)


asked = st.one_of(
    st.builds(Asked, st.just(1), st.integers(1, WHOLE), st.integers(1, CPU)),
    st.builds(Asked, st.integers(1, 3), st.just(WHOLE), st.integers(1, CPU)),
    st.builds(Asked, st.just(0), st.just(0), st.integers(1, CPU)),
)
ANCHOR = [Asked(1, WHOLE, 1)] * 20
"""Makes sure that processors are what pods take besides GPUs."""


@settings(max_examples=25)
@given(
    used=st.lists(st.integers(0, WHOLE), min_size=1, max_size=4),
    cpu_used=st.integers(0, CPU),
    others=st.lists(asked, max_size=6),
)
def test_fragments_are_what_typical_pods_can_not_use(used: list[int], cpu_used: int, others: list[Asked]) -> None:
    pods = [*ANCHOR, *others]
    shown = Shown(used, cpu_used, pods)

    expected = count_fragments(pods, [WHOLE - amount for amount in used], CPU - cpu_used)
    assert shown.placer.fragments(shown.node) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("used", "cpu_used", "worth"),
    [
        ([0, 0], 0, 2000),
        ([10, 0], 0, 1000),
        ([6, 0], 0, 1500),
        ([4, 0], 0, 1500),
        ([4, 5], 0, 1000),
        ([8, 0], 0, 1000),
        ([5, 0], 25, 1000),
        ([5, 10], 25, 500),
        ([5, 5], 36, 0),
    ],
)
def test_a_node_is_worth_its_idle_devices_and_what_the_rest_can_still_hold(
    used: list[int], cpu_used: int, worth: int
) -> None:
    shown = Shown(used, cpu_used, [Asked(1, WHOLE, 8)] * 5 + [Asked(1, 5, 9)] * 3 + [Asked(1, 4, 9)] * 3)

    assert shown.placer.value(shown.node) == worth


def test_a_part_is_worth_the_share_of_pods_for_which_processors_are_left() -> None:
    pods = [Asked(1, WHOLE, 8)] * 5 + [Asked(1, 5, 4)] * 3 + [Asked(1, 5, 12)] * 1

    values = [Shown([5], used, pods) for used in (20, 30, 38)]
    assert [shown.placer.value(shown.node) for shown in values] == [500, 375, 0]


@pytest.mark.parametrize(
    ("policy", "rare", "fragments"), [(FRAGMENTATION, 1, 0), (FRAGMENTATION, 4, 2000 * 4 / 60), (FGD, 1, 2000 / 57)]
)
def test_few_pods_for_several_devices_do_not_count_but_in_fgd(policy: Policy, rare: int, fragments: float) -> None:
    pods = [Asked(3, WHOLE, 1)] * rare + [Asked(1, WHOLE, 1 + number % CPU) for number in range(59)]
    shown = Shown([0, 0, WHOLE], 0, pods, policy)

    assert shown.placer.fragments(shown.node) == pytest.approx(fragments, abs=1)


def test_a_partition_is_worth_something_while_the_counters_allow_it() -> None:
    parts = [
        device(name, counters=[consumes("card", {"slots": slots})]) for name, slots in (("a", 4), ("b", 3), ("c", 1))
    ]
    counters = slice_(name="counters", shared_counters=(counter_set("card", {"slots": 5}),), slice_count=2)
    cluster = PreparedCluster.from_snapshot(snapshot(slice_(*parts, slice_count=2), counters))
    placer = Placer(cluster, FRAGMENTATION)

    before = placer.value(node())
    cluster.hold(allocated(claim("one"), "b"))
    assert (before, placer.value(node())) == (3000, 1000)
