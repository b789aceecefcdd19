"""Which nodes are alike for a pod: told by what its requests can have, not by names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from claimsmith.allocate.prepared.groups import NodeGroup
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_first, allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Pending, Refused, Undecided
from claimsmith.model.deviations import LIKE_UPSTREAM
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import (
    allocated,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    device_id,
    klass,
    match,
    node,
    on_nodes,
    request,
    result,
    slice_,
    snapshot,
    taint,
    toleration,
)
from tests.unit.allocate.solving import number_shares

DRIVER = "gpu.example.test"
NODES = (node("a"), node("b"), node("c"))


def local(place: str, *devices: Device, **fields: object) -> ResourceSlice:
    return slice_(*devices, name=f"s-{place}", node=place, **fields)  # type: ignore[arg-type]


def prepare(*objects: ResourceSlice | ResourceClaim, features: Features | None = None) -> PreparedCluster:
    return PreparedCluster.from_snapshot(snapshot(*NODES, *objects), features)


def group(cluster: PreparedCluster, wanted: ResourceClaim, nodes: Iterable[Node] = NODES) -> list[str]:
    """The names of the nodes of each group, joined."""
    found: dict[NodeGroup, list[str]] = {}
    for place, alike in cluster.group_nodes(cluster.plan((wanted,))).scan(nodes):
        found.setdefault(alike, []).append(place.name)
    return sorted("".join(sorted(names)) for names in found.values())


def held(place: str, name: str, *, share: str | None = None, consumed: dict[str, int] | None = None) -> ResourceClaim:
    got = result(device_id(name, pool=place), share=share, consumed=consumed)
    return allocated(claim(f"held-{place}-{name}"), got)


def fits(cluster: PreparedCluster, wanted: ResourceClaim, nodes: Iterable[Node] = NODES) -> list[bool]:
    decisions = allocate_on_nodes(cluster, (wanted,), nodes=nodes, share_ids=number_shares())
    return [isinstance(decision, Allocation) for decision in decisions]


def test_nodes_with_equal_devices_are_alike_whatever_they_are_called() -> None:
    cluster = prepare(local("a", device("x")), local("b", device("y")), local("c", device("x"), device("y")))

    assert group(cluster, claim("c")) == ["ab", "c"]


def test_attributes_that_nobody_reads_make_no_difference() -> None:
    parts = [local(place, device(attributes={"uuid": place, "model": "m"})) for place in "abc"]
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].model == "m"'))

    assert group(prepare(*parts), wanted) == ["abc"]


def test_an_attribute_that_is_unique_counts_as_the_answer_of_the_selector_that_reads_it() -> None:
    parts = [local(place, device(attributes={"uuid": f"GPU-{place}"})) for place in "abc"]
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].uuid != "GPU-b"'))
    cluster = prepare(*parts)

    assert group(cluster, wanted) == ["ac", "b"]
    assert fits(cluster, wanted) == [True, False, True]


def test_a_selector_that_reads_every_attribute_is_asked_about_every_device() -> None:
    parts = [local(place, device(attributes={place: 1})) for place in "abc"]
    wanted = claim("c", request("r", '"b" in device.attributes["gpu.example.test"].map(key, key)'))

    assert fits(prepare(*parts), wanted) == [False, True, False]


def test_a_selector_that_computes_the_domain_is_asked_about_every_device() -> None:
    parts = [local(place, device(attributes={"kind": place})) for place in "abc"]
    wanted = claim("c", request("r", 'device.attributes[device.driver][?"kind"].orValue("") == "b"'))

    assert fits(prepare(*parts), wanted) == [False, True, False]


def test_capacity_decides() -> None:
    parts = [local(place, device(capacity={"memory": amount})) for place, amount in zip("abc", (4, 4, 8), strict=True)]
    cluster = prepare(*parts)

    assert group(cluster, claim("c", request("r", capacity={"memory": 6}))) == ["ab", "c"]


def test_amounts_that_are_equal_but_written_otherwise_are_told_apart() -> None:
    parts = [local("a", device(capacity={"m": "1500m"})), local("b", device(capacity={"m": "1.5"}))]

    assert group(prepare(*parts), claim("c"), NODES[:2]) == ["a", "b"]


def test_taints_decide_for_requests_that_do_not_tolerate_them() -> None:
    cluster = prepare(local("a", device(taints=[taint()])), local("b", device()), local("c"))

    assert group(cluster, claim("c")) == ["ac", "b"]


def test_tainted_devices_are_told_apart_by_their_taints() -> None:
    parts = [local(place, device(taints=[taint(f"example.test/{place}")])) for place in "abc"]
    wanted = claim("c", request("r", tolerations=(toleration("example.test/b"),)))

    assert fits(prepare(*parts), wanted) == [False, True, False]


def test_a_claim_that_takes_a_device_moves_its_node_to_another_group_and_back() -> None:
    cluster = prepare(*(local(place, device("x")) for place in "abc"))
    taken = held("b", "x")

    assert fits(cluster, claim("c")) == [True, True, True]
    cluster.see_claim(None, taken)
    assert (group(cluster, claim("c")), fits(cluster, claim("c"))) == (["ac", "b"], [True, False, True])
    cluster.see_claim(taken, None)
    assert (group(cluster, claim("c")), fits(cluster, claim("c"))) == (["abc"], [True, True, True])


def test_which_of_several_equal_devices_is_taken_makes_no_difference() -> None:
    parts = [local(place, device("x"), device("y")) for place in "abc"]
    cluster = prepare(*parts, held("a", "x"), held("b", "y"))

    assert group(cluster, claim("c")) == ["ab", "c"]


def test_devices_that_no_request_can_have_make_no_difference() -> None:
    fast, slow = device("x", attributes={"kind": "fast"}), device("y", attributes={"kind": "slow"})
    cluster = prepare(local("a", fast), local("b", fast, slow), local("c", fast, slow), held("c", "y"))
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].kind == "fast"'))

    assert group(cluster, wanted) == ["abc"]


def test_constraints_compare_values_within_a_node_only() -> None:
    def on(place: str, *roots: str) -> ResourceSlice:
        return local(place, *(device(f"d{number}", attributes={"root": root}) for number, root in enumerate(roots)))

    cluster = prepare(on("a", "p1", "p1"), on("b", "q7", "q7"), on("c", "p1", "q7"))
    wanted = claim("c", request("r", count=2), constraints=[match(f"{DRIVER}/root")])

    assert group(cluster, wanted) == ["ab", "c"]
    assert fits(cluster, wanted) == [True, True, False]


def test_constraints_compare_values_across_the_pools_of_a_node() -> None:
    def on(place: str, pool: str, root: str) -> ResourceSlice:
        return slice_(device(attributes={"root": root}), name=f"{pool}-{place}", node=place, pool=f"{pool}-{place}")

    parts = [on(place, pool, root) for place, pool, root in [("a", "p", "1"), ("a", "q", "1"), ("b", "p", "1")]]
    cluster = prepare(*parts, on("b", "q", "2"))
    wanted = claim("c", request("r", count=2), constraints=[match(f"{DRIVER}/root")])

    assert fits(cluster, wanted, NODES[1::-1]) == [False, True]


def test_lists_that_overlap_are_compared_by_their_elements() -> None:
    def on(place: str, *roots: tuple[int, ...]) -> ResourceSlice:
        return local(place, *(device(f"d{number}", attributes={"root": root}) for number, root in enumerate(roots)))

    cluster = prepare(on("a", (1, 2), (2, 3)), on("b", (1, 2), (3, 4)), features=Features.all())
    wanted = claim("c", request("r", count=2), constraints=[match(f"{DRIVER}/root")])

    assert fits(cluster, wanted, NODES[1::-1]) == [False, True]


def test_what_counters_have_left_decides() -> None:
    def on(place: str, left: int) -> list[ResourceSlice]:
        parts = [device(name, counters=[consumes("cs", {"u": 1})]) for name in ("x", "y")]
        counters = slice_(
            name=f"c-{place}", node=place, slice_count=2, shared_counters=(counter_set("cs", {"u": left}),)
        )
        return [local(place, *parts, slice_count=2), counters]

    cluster = prepare(*on("a", 2), *on("b", 2), *on("c", 1))
    wanted = claim("c", request("r", count=2))

    assert (group(cluster, wanted), fits(cluster, wanted)) == (["ab", "c"], [True, True, False])
    cluster.see_claim(None, held("b", "x"))
    assert fits(cluster, wanted) == [True, False, False]


def test_what_shares_take_decides_where_two_requests_may_share_a_device() -> None:
    shared = device("x", capacity={"m": capacity(8, default=1)}, allow_multiple_allocations=True)
    taken = [held(place, "x", share="s", consumed={"m": amount}) for place, amount in [("a", 1), ("b", 3)]]
    cluster = prepare(local("a", shared), local("b", shared), *taken)
    two = claim("c", request("r0", capacity={"m": 3}), request("r1", capacity={"m": 3}))

    assert fits(cluster, two, NODES[1::-1]) == [False, True]


def test_how_much_shares_take_makes_no_difference_to_a_single_request_that_fits() -> None:
    shared = device("x", capacity={"m": capacity(8, default=1)}, allow_multiple_allocations=True)
    taken = [held(place, "x", share="s", consumed={"m": amount}) for place, amount in [("a", 1), ("b", 2), ("c", 7)]]
    cluster = prepare(*(local(place, shared) for place in "abc"), *taken)

    assert group(cluster, claim("c", request("r", capacity={"m": 3}))) == ["ab", "c"]


def test_a_shared_pool_is_followed_on_all_its_nodes() -> None:
    net = slice_(device("x"), device("y"), name="net", node=None, pool="net", all_nodes=True)
    cluster = prepare(net)
    one, two = held("net", "x"), held("net", "y")

    assert fits(cluster, claim("c")) == [True, True, True]
    cluster.see_claim(None, one)
    cluster.see_claim(None, two)
    assert fits(cluster, claim("c")) == [False, False, False]
    cluster.see_claim(two, None)
    assert fits(cluster, claim("c")) == [True, True, True]


def test_pools_that_choose_their_nodes_by_a_label_are_seen_there_alone() -> None:
    racks = [node(name, labels={"rack": rack}) for name, rack in [("a", "r1"), ("b", "r2"), ("c", "r1")]]
    one, two = (
        slice_(device("x"), name=f"net-{rack}", node=None, pool=rack, node_selector=on_nodes(rack=rack))
        for rack in ("r1", "r2")
    )
    cluster = PreparedCluster.from_snapshot(snapshot(*racks, one, two, held("r1", "x")))
    taken = held("r2", "x")

    assert fits(cluster, claim("c"), racks) == [False, True, False]
    cluster.see_claim(None, taken)
    assert fits(cluster, claim("c"), racks) == [False, False, False]
    cluster.see_claim(taken, None)
    assert fits(cluster, claim("c"), racks) == [False, True, False]


def test_a_selector_matches_a_node_by_all_of_its_requirements() -> None:
    selector = on_nodes(rack="r1", zone="z1")
    net = slice_(device("x"), name="net", node=None, pool="net", node_selector=selector)
    both, one = node("a", labels={"rack": "r1", "zone": "z1"}), node("b", labels={"rack": "r1", "zone": "z2"})
    cluster = PreparedCluster.from_snapshot(snapshot(both, one, net))

    assert fits(cluster, claim("c"), [one, both]) == [False, True]


def test_devices_that_choose_their_nodes_are_told_apart() -> None:
    net = slice_(device("x", node_name="b"), name="net", node=None, pool="net", per_device_node_selection=True)

    assert fits(prepare(net), claim("c")) == [False, True, False]


def test_a_changed_slice_is_read_anew() -> None:
    before = snapshot(*NODES, *(local(place, device("x")) for place in "abc"))
    cluster = PreparedCluster.from_snapshot(before)

    assert group(cluster, claim("c")) == ["abc"]
    cluster.update(replace(before, slices=(*before.slices[:2], local("c", device("x", taints=[taint()])))))
    assert (group(cluster, claim("c")), fits(cluster, claim("c"))) == (["ab", "c"], [True, True, False])


def test_a_changed_slice_is_read_anew_beside_other_pools_of_its_node() -> None:
    bad, good = device("x", taints=[taint()]), device("x")
    before = snapshot(NODES[0], *(slice_(bad, name=pool, node="a", pool=pool) for pool in "pq"))
    cluster = PreparedCluster.from_snapshot(before)

    assert fits(cluster, claim("c"), NODES[:1]) == [False]
    cluster.update(replace(before, slices=(before.slices[0], slice_(good, name="q", node="a", pool="q"))))
    assert fits(cluster, claim("c"), NODES[:1]) == [True]


def test_the_first_slice_of_a_node_is_noticed() -> None:
    before = snapshot(*NODES, local("a", device("x")))
    cluster = PreparedCluster.from_snapshot(before)

    assert fits(cluster, claim("c")) == [True, False, False]
    cluster.update(replace(before, slices=(*before.slices, local("b", device("x")))))
    assert fits(cluster, claim("c")) == [True, True, False]


def test_a_second_slice_of_a_pool_is_noticed() -> None:
    before = snapshot(*NODES, local("a", device("x")))
    cluster = PreparedCluster.from_snapshot(before)
    more = slice_(device("y"), name="t-a", node="a", generation=2)

    assert fits(cluster, claim("c", request("r", count=2))) == [False, False, False]
    cluster.update(replace(before, slices=(*before.slices, more)))
    assert fits(cluster, claim("c")) == [True, False, False]


def test_a_node_that_changes_is_looked_at_anew() -> None:
    net = slice_(device("x"), name="net", node=None, pool="net", node_selector=on_nodes(rack="r1"))
    cluster = prepare(net)

    assert fits(cluster, claim("c"), [node("a")]) == [False]
    assert fits(cluster, claim("c"), [node("a", labels={"rack": "r1"})]) == [True]


def test_a_device_with_an_improper_version_is_looked_at_for_itself() -> None:
    bad = {"v": DeviceAttribute.version("one")}
    parts = [local(place, device(attributes=bad, capacity={"m": amount})) for place, amount in [("a", 4), ("b", 8)]]
    cluster = PreparedCluster.from_snapshot(snapshot(*NODES, replace(klass(), selectors=()), *parts))

    assert fits(cluster, claim("c", request("r", capacity={"m": 6})), NODES[:2]) == [False, True]


@pytest.mark.parametrize("first", ["with", "without"])
def test_of_an_attribute_that_is_there_with_and_without_domain_the_last_one_counts(first: str) -> None:
    forms = {"with": (f"{DRIVER}/kind", "x"), "without": ("kind", "y")}
    order = [first, *(form for form in forms if form != first)]
    one, two = (device(attributes=dict(forms[form] for form in forms_)) for forms_ in (order, order[::-1]))
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].kind == "x"'))

    assert fits(prepare(local("a", one), local("b", two)), wanted, NODES[:2]) == [first == "without", first == "with"]


def test_warnings_name_the_devices_of_each_node() -> None:
    cluster = prepare(*(local(place, device(f"x-{place}")) for place in "abc"))
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].missing == "x"'))
    decisions = allocate_on_nodes(cluster, (wanted,), nodes=NODES, share_ids=number_shares())

    named = [item.warnings[0].devices[0].device for item in decisions if isinstance(item, Pending)]
    assert named == ["x-a", "x-b", "x-c"]


def test_an_invalid_pool_is_an_error_of_its_node_like_upstream() -> None:
    parts = [local("a", device("x", attributes={"k": 1}), device("x")), local("b", device("y", attributes={"k": 1}))]
    before: ClusterSnapshot = snapshot(*NODES, *parts)
    cluster = PreparedCluster.from_snapshot(before, deviations=LIKE_UPSTREAM)
    wanted = claim("c", request("r", count=2))
    decisions = list(allocate_on_nodes(cluster, (wanted,), nodes=NODES[:2], share_ids=number_shares()))

    assert [type(decision) for decision in decisions] == [Refused, Pending]


def test_the_first_node_that_fits_gets_the_claim_and_alike_ones_are_searched_once() -> None:
    nodes = [node(f"n{number}") for number in range(50)]
    free, full = nodes[40], nodes[:40]
    slices = [local(item.name, device("x")) for item in nodes]
    cluster = PreparedCluster.from_snapshot(snapshot(*nodes, *slices, *(held(item.name, "x") for item in full)))
    decision = allocate_first(cluster, (claim("c"),), nodes=nodes, share_ids=number_shares())

    assert isinstance(decision, Allocation)
    assert decision.node == free.name


def test_a_claim_that_fits_nowhere_costs_one_search_for_each_group() -> None:
    nodes = {f"n{number}": node(f"n{number}") for number in range(60)}
    slices = [local(name, *(device(f"d{place}") for place in range(int(name[1:]) % 3))) for name in nodes]
    cluster = PreparedCluster.from_snapshot(snapshot(*nodes.values(), *slices))
    wanted = claim("c", *(request(f"r{number}") for number in range(3)))
    decision = allocate_first(cluster, (wanted,), nodes=nodes.values(), share_ids=number_shares())

    assert isinstance(decision, Pending)
    assert decision.steps <= 3 * 16
    assert len(group(cluster, wanted, nodes.values())) == 3


def test_a_search_that_gives_up_is_no_answer_for_nodes_that_are_alike() -> None:
    cluster = prepare(*(local(place, device("x")) for place in "abc"))
    wanted, short = claim("c", request("r0"), request("r1")), SearchLimits(budget_steps=1)
    decision = allocate_first(cluster, (wanted,), nodes=NODES, share_ids=number_shares(), limits=short)

    assert isinstance(decision, Undecided)
    assert isinstance(allocate_first(cluster, (wanted,), nodes=NODES, share_ids=number_shares()), Pending)


def test_nodes_whose_devices_differ_in_what_a_computed_domain_reads_are_not_alike() -> None:
    cluster = prepare(local("a", device("x", attributes={"k": 1})), local("b", device("x", attributes={"k": 2})))
    wanted = claim("c", request("r", "device.attributes[device.driver].k == 2"))
    decisions = list(allocate_on_nodes(cluster, (wanted,), nodes=NODES[:2], share_ids=number_shares()))

    assert [type(decision) for decision in decisions] == [Pending, Allocation]


def test_no_node_is_lost_when_all_is_forgotten_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [local(place, *(device(name) for name in "xyz"[:number])) for number, place in enumerate("abc", start=1)]
    monkeypatch.setattr("claimsmith.allocate.prepared.groups.KNOWN_STATES_MAX", 1)
    cluster, wanted = prepare(*parts), claim("c", request("r", count=2))

    assert (fits(cluster, wanted), fits(cluster, wanted, NODES[::-1])) == ([False, True, True], [True, True, False])
