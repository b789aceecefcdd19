"""Pools of a node: generations, completeness, validity."""

from __future__ import annotations

from collections.abc import Sequence

from claimsmith.allocate.prepared.pools import GatheredPools, PoolView, build_pool, gather_pools
from claimsmith.allocate.prepared.records import SliceRecord
from claimsmith.model.features import Features
from claimsmith.model.names import PoolId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import consumes, counter_set, device, node, on_nodes, slice_

ALL = Features.all()


def gather(*slices: ResourceSlice, features: Features = ALL, counters_everywhere: bool = False) -> GatheredPools:
    records = [SliceRecord(item, position=place) for place, item in enumerate(slices)]

    def find_slices(pool: PoolId) -> Sequence[SliceRecord]:
        return [record for record in records if record.slice.pool_id == pool]

    return gather_pools(
        node(),
        sorted(records, key=lambda record: not record.slice.node_name),
        find_slices=find_slices,
        features=features,
        counters_everywhere=counters_everywhere,
    )


def view(*slices: ResourceSlice, features: Features = ALL) -> PoolView:
    (parts,) = gather(*slices, features=features).pools
    return build_pool(parts, features)


def names(found: PoolView) -> list[str]:
    return [record.device.name for record in found.devices]


def test_a_newer_generation_replaces_an_older_one() -> None:
    old = slice_(device("old"), name="s1", generation=1)
    new = slice_(device("new"), name="s2", generation=2)

    assert names(view(old, new)) == names(view(new, old)) == ["new"]


def test_a_pool_with_a_slice_missing_is_incomplete_and_says_how_many_there_are() -> None:
    found = view(slice_(device(), slice_count=2, generation=8))

    assert (found.incomplete, found.found, found.expected, found.generation) == (True, 1, 2, 8)
    assert not found.usable


def test_slices_for_other_nodes_make_a_pool_complete() -> None:
    here = slice_(device("here"), name="s1", pool="p", slice_count=2)
    there = slice_(device("there"), name="s2", pool="p", slice_count=2, node="node-b")
    found = view(here, there)

    assert names(found) == ["here"]
    assert [record.device.name for record in found.elsewhere] == ["there"]


def test_a_newer_generation_for_another_node_makes_the_pool_obsolete() -> None:
    here = slice_(device(), name="s1", pool="p", slice_count=2)
    newer = slice_(device(), name="s2", pool="p", generation=2, node="node-b")
    found = gather(here, newer)

    assert found.pools == ()
    assert found.obsolete == (PoolId("gpu.example.test", "p"),)


def test_a_complete_pool_is_not_compared_with_newer_generations_elsewhere() -> None:
    here = slice_(device("here"), name="s1", pool="p")
    newer = slice_(device(), name="s2", pool="p", generation=2, node="node-b")

    assert names(view(here, newer)) == ["here"]


def test_the_first_slice_in_the_list_says_how_many_there_should_be() -> None:
    one = slice_(device("a"), name="s1", pool="p", slice_count=1)
    two = slice_(device("b"), name="s2", pool="p", slice_count=2)

    assert view(one, two).incomplete
    assert not view(two, one).incomplete


def test_devices_follow_the_names_of_their_slices() -> None:
    late = slice_(device("z0"), device("z1"), name="z", pool="p", slice_count=2)
    early = slice_(device("a0"), name="a", pool="p", slice_count=2)

    assert names(view(late, early)) == ["a0", "z0", "z1"]


def test_a_device_name_used_twice_makes_the_pool_invalid() -> None:
    found = view(slice_(device("a"), device("a")))

    assert (found.invalid, found.usable) == ("duplicate device name a", False)


def test_a_counter_set_named_twice_makes_the_pool_invalid() -> None:
    sets = (counter_set("cs", {"u": 1}),)
    found = view(
        slice_(name="s1", slice_count=2, shared_counters=sets), slice_(name="s2", slice_count=2, shared_counters=sets)
    )

    assert found.invalid == "duplicate counter set name cs"


def test_an_unknown_counter_makes_the_pool_invalid_even_on_another_node() -> None:
    counters = slice_(name="s0", pool="p", slice_count=3, shared_counters=(counter_set("cs", {"u": 1}),))
    here = slice_(device("a"), name="s1", pool="p", slice_count=3)
    there = slice_(device("b", counters=[consumes("cs", {"v": 1})]), name="s2", pool="p", slice_count=3, node="node-b")

    assert "counter v not found in counter set cs" in view(counters, here, there).invalid


def test_an_unknown_counter_set_makes_the_pool_invalid() -> None:
    assert "counter set cs not found" in view(slice_(device(counters=[consumes("cs", {"u": 1})]))).invalid


def test_a_node_selector_reaches_the_nodes_that_match() -> None:
    here = slice_(device("a"), node=None, pool="net", node_selector=on_nodes(zone="a"))

    assert gather(here).pools == ()


def test_one_device_for_the_node_makes_a_per_device_slice_count() -> None:
    mixed = slice_(
        device("here", node_name="node-a"),
        device("there", node_name="node-b"),
        node=None,
        pool="net",
        per_device_node_selection=True,
    )
    elsewhere = slice_(device("there", node_name="node-b"), node=None, pool="far", per_device_node_selection=True)
    found = gather(mixed, elsewhere)

    assert [parts.id.pool for parts in found.pools] == ["net"]


def test_slices_of_partitions_are_ignored_while_the_gate_is_off() -> None:
    counters = slice_(name="s0", slice_count=1, shared_counters=(counter_set("cs", {"u": 1}),))

    assert gather(counters, features=Features(partitionable_devices=False)).pools == ()


def test_slices_with_groups_are_ignored_while_the_gate_is_off() -> None:
    grouped = slice_(device(counters=[consumes("cs", {"u": 1}, groups=("g",))]), name="s1", slice_count=2)
    plain = slice_(device("plain"), name="s2", slice_count=2)

    assert view(grouped, plain, features=Features()).incomplete


def test_the_stable_implementation_sees_network_counters_of_every_node() -> None:
    far = slice_(node=None, pool="p", node_selector=on_nodes(zone="b"), shared_counters=(counter_set("cs", {"u": 1}),))

    assert gather(far).pools == ()
    assert len(gather(far, counters_everywhere=True).pools) == 1


def test_an_unreadable_node_selector_is_reported() -> None:
    test = NodeSelectorRequirement(key="zone", operator="Near", values=("a",))
    selector = NodeSelector(terms=(NodeSelectorTerm(match_expressions=(test,)),))
    found = gather(slice_(device(), name="s1", node=None, pool="net", node_selector=selector))

    assert found.pools == ()
    assert [bad.slice for bad in found.bad_selectors] == ["s1"]
