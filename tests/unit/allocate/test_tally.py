"""Reasons told once for many nodes: every node and device counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.explain.tally import tally_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.screening import NODE_OPERATIONS_FEATURE
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    claim,
    consumes,
    counter_set,
    device,
    device_id,
    match,
    node,
    request,
    result,
    slice_,
    snapshot,
    sub,
    taint,
)

DRIVER = "gpu.example.test"
NODES = tuple(node(f"n{number}") for number in range(20))
KIND = 'device.attributes["gpu.example.test"].kind == "{kind}"'


def local(place: str, *kinds: str, **fields: object) -> ResourceSlice:
    found = [device(f"d{number}", attributes={"kind": kind, "root": kind}) for number, kind in enumerate(kinds)]
    return slice_(*found, name=f"s-{place}", node=place, **fields)  # type: ignore[arg-type]


def tally(wanted: ResourceClaim, *objects: ResourceSlice | ResourceClaim) -> list[str]:
    cluster = PreparedCluster.from_snapshot(snapshot(*NODES, *objects))
    return [reason.text for reason in tally_reasons(cluster, (wanted,), nodes=NODES)]


def test_devices_that_fall_to_one_rule_are_told_together() -> None:
    wanted = claim("c", request("r", KIND.format(kind="z")))

    assert tally(wanted, *(local(item.name, "x", "y") for item in NODES)) == [
        '40 devices on 20 nodes: selector device.attributes["gpu.example.test"].kind == "z" is false'
    ]


def test_devices_in_use_are_told_apart_from_those_that_were_never_meant() -> None:
    held = [allocated(claim(f"h-{item.name}"), device_id("d0", pool=item.name)) for item in NODES]
    wanted = claim("c", request("r", KIND.format(kind="x")))

    assert tally(wanted, *(local(item.name, "x", "y") for item in NODES), *held) == [
        "20 devices on 20 nodes: in use",
        '20 devices on 20 nodes: selector device.attributes["gpu.example.test"].kind == "x" is false',
    ]


def test_nodes_with_too_few_devices_are_told_by_how_many_they_have() -> None:
    slices = [local(item.name, *"x" * (1 + number % 2)) for number, item in enumerate(NODES)]

    assert tally(claim("c", request("r", count=3)), *slices) == [
        "10 nodes: 3 devices needed, 1 can be had",
        "10 nodes: 3 devices needed, 2 can be had",
    ]


def test_nodes_without_devices_are_told() -> None:
    assert tally(claim("c"), local("n0")) == ["20 nodes: no devices"]


def test_a_pool_that_contradicts_itself_is_told_with_what_is_wrong() -> None:
    bad = slice_(device("x"), device("x"), name="s-n0", node="n0")
    wanted = claim("c", request("r", KIND.format(kind="z")))

    assert tally(wanted, bad, *(local(item.name, "x") for item in NODES[1:])) == [
        "1 node: pool gpu.example.test/n0 generation 1: duplicate device name x",
        '19 devices on 19 nodes: selector device.attributes["gpu.example.test"].kind == "z" is false',
    ]


def test_a_pool_whose_slices_for_the_node_are_outdated_is_told() -> None:
    old = slice_(device("x"), name="old", node="n0", pool="p", slice_count=2)
    new = slice_(device("x"), name="new", node="elsewhere", pool="p", generation=2)

    assert "1 node: pool gpu.example.test/p: its slices for this node are older than the newest generation" in tally(
        claim("c"), old, new
    )


def test_requests_that_can_only_not_be_served_together_are_told() -> None:
    wanted = claim("c", request("r", count=2), constraints=[match(f"{DRIVER}/root")])

    assert tally(wanted, *(local(item.name, "x", "y") for item in NODES)) == [
        "20 nodes: each request can be served on its own, but not all of them together"
    ]


def test_an_alternative_that_can_be_served_leaves_the_request_to_what_is_together() -> None:
    one = alternatives("r", sub("big", count=9), sub("small", count=1))
    reasons = tally(claim("c", one, request("s", count=2)), *(local(item.name, "x", "y") for item in NODES))

    assert reasons == [
        "20 nodes: 9 devices needed, 2 can be had",
        "20 nodes: each request can be served on its own, but not all of them together",
    ]


def test_taints_come_before_who_holds_the_device() -> None:
    tainted = [
        replace(made, devices=tuple(replace(item, taints=(taint(),)) for item in made.devices))
        for made in (local(item.name, "x") for item in NODES)
    ]
    held = allocated(claim("h"), device_id("d0", pool="n0"))

    assert tally(claim("c"), *tainted, held) == [
        "20 devices on 20 nodes: tainted example.test/broken:NoSchedule, which is not tolerated"
    ]


@pytest.mark.parametrize(
    ("net", "text"),
    [
        ({"slice_count": 2}, "20 nodes: pool gpu.example.test/net generation 1: 1 of 2 slices"),
        ({}, "40 devices on 20 nodes: in use"),
    ],
    ids=["incomplete", "in use"],
)
def test_pools_that_nodes_share_count_on_each_of_them(net: dict[str, int], text: str) -> None:
    shared = slice_(device("a"), device("b"), name="net", node=None, pool="net", all_nodes=True, **net)  # type: ignore[arg-type]
    held = [allocated(claim(f"h{name}"), device_id(name, pool="net")) for name in "ab"]

    assert text in tally(claim("c"), shared, *held)


def test_counters_are_told_by_what_is_left() -> None:
    parts = [device(name, counters=[consumes("cs", {"u": 1})]) for name in ("a", "b")]
    pools = [
        made
        for item in NODES
        for made in (
            slice_(*parts, name=f"s-{item.name}", node=item.name, slice_count=2),
            slice_(
                name=f"c-{item.name}", node=item.name, slice_count=2, shared_counters=(counter_set("cs", {"u": 1}),)
            ),
        )
    ]
    held = [allocated(claim(f"h-{item.name}"), result(device_id("a", pool=item.name))) for item in NODES]

    assert tally(claim("c"), *pools, *held) == [
        "20 devices on 20 nodes: in use",
        "20 devices on 20 nodes: counter u of set cs: 0 of 1 left, 1 needed",
    ]


def test_a_claim_that_is_refused_has_one_reason() -> None:
    assert tally(claim("c", request("r", count=33))) == ["33 devices requested, at most 32 allowed per claim"]


def test_what_a_node_lacks_is_told_of_that_node_alone() -> None:
    plain, able = NODES[0], replace(NODES[1], declared_features=frozenset({NODE_OPERATIONS_FEATURE}))
    slices = [replace(local(item.name, "x"), skip_node_operations=("NodePrepareResources",)) for item in (plain, able)]
    cluster = PreparedCluster.from_snapshot(snapshot(plain, able, *slices), Features.all())
    told = [
        [reason.text for reason in tally_reasons(cluster, (claim("c", request("r", count=2)),), nodes=nodes)]
        for nodes in ((plain,), (able,), (plain, able))
    ]

    assert sorted(told[0] + told[1]) == sorted(told[2])
