"""Nodes that are grouped get the answers that they would get each for itself, whatever changes in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import NodeSearch, allocate_first, allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Refused
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import (
    allocated,
    claim,
    counter_set,
    device_id,
    match,
    node,
    on_nodes,
    request,
    result,
    slice_,
    snapshot,
)
from tests.property import test_search_properties as searched

DRIVER = "gpu.example.test"
NODES = tuple(node(f"n{number}", labels={"rack": f"r{number % 2}"}) for number in range(4))
READS = (
    'device.attributes["gpu.example.test"].kind == "x"',
    'device.attributes["gpu.example.test"].missing == "x"',
    'device.attributes[device.driver].kind == "x"',
    '"numa" in device.attributes["gpu.example.test"]',
    'device.attributes["gpu.example.test"].uuid.endsWith("1")',
    'device.capacity["gpu.example.test"].memory.isGreaterThan(quantity("3"))',
    'has(device.attributes["gpu.example.test"].kind) && device.driver == "gpu.example.test"',
)


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    found = draw(searched.devices(name))
    odd = draw(
        st.sampled_from([{}] * 6 + [{"v": DeviceAttribute.version("1.0.0")}, {"v": DeviceAttribute.version("bad")}])
    )
    both = draw(st.sampled_from([{}] * 6 + [{f"{DRIVER}/kind": DeviceAttribute.of("y")}]))
    return replace(found, attributes={**both, **found.attributes, **odd})


@st.composite
def local_pools(draw: st.DrawFn) -> tuple[tuple[Device, ...], bool]:
    """The devices of a node's own pool, and whether it has counters."""
    count = draw(st.integers(1, 4))
    found = tuple(draw(devices(f"d{number}")) for number in range(count))
    has_counters = draw(st.booleans())
    return (found if has_counters else tuple(replace(item, consumes_counters=()) for item in found)), has_counters


def build_local(name: str, layout: tuple[tuple[Device, ...], bool]) -> list[ResourceSlice]:
    """The slices of a node's own pool, with devices that each have a uuid of their own."""
    found = [
        replace(item, attributes={**item.attributes, "uuid": DeviceAttribute.of(f"{name}-{item.name}")})
        for item in layout[0]
    ]
    if not layout[1]:
        return [slice_(*found, name=f"{name}-0", node=name)]
    counters = slice_(name=f"{name}-1", node=name, slice_count=2, shared_counters=(counter_set("card", {"u": 3}),))
    return [slice_(*found, name=f"{name}-0", node=name, slice_count=2), counters]


@st.composite
def network_pools(draw: st.DrawFn) -> list[ResourceSlice]:
    """A pool that several nodes share, of some kind; or none."""
    kind = draw(st.sampled_from(["none", "none", "all", "rack", "each", "gap", "twice"]))
    found = [draw(devices(f"net{number}")) for number in range(2)]
    found = [replace(item, consumes_counters=()) for item in found]
    if kind == "none":
        return []
    if kind == "rack":
        return [slice_(*found, name="net", node=None, pool="net", node_selector=on_nodes(rack="r1"))]
    if kind == "each":
        places = [replace(item, node_name=f"n{number}") for number, item in enumerate(found)]
        return [slice_(*places, name="net", node=None, pool="net", per_device_node_selection=True)]
    if kind == "twice":
        found = [found[0], replace(found[1], name="net0")]
    return [slice_(*found, name="net", node=None, pool="net", all_nodes=True, slice_count=2 if kind == "gap" else 1)]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    layouts = draw(st.lists(local_pools(), min_size=1, max_size=2))
    local = [item for place in NODES for item in build_local(place.name, draw(st.sampled_from(layouts)))]
    return snapshot(*NODES, *local, *draw(network_pools()))


@st.composite
def wanted_claims(draw: st.DrawFn) -> tuple[ResourceClaim, ...]:
    if draw(st.booleans()):
        return tuple(draw(searched.claims(number)) for number in range(draw(st.sampled_from([1, 1, 2]))))
    requests = [
        request(f"r{place}", draw(st.sampled_from(READS)), count=draw(st.sampled_from([1, 1, 2])))
        for place in range(draw(st.sampled_from([1, 1, 2])))
    ]
    constraints = draw(st.sampled_from([[], [match(f"{DRIVER}/numa")], [match(f"{DRIVER}/uuid")]]))
    return (claim("c0", *requests, constraints=constraints),)


def hold(found: ResourceSlice, item: Device) -> ResourceClaim:
    """A claim that holds a device, or a share of it."""
    place = device_id(item.name)._replace(pool=found.pool)
    share = {"share": "s", "consumed": dict.fromkeys(item.capacity, "2")} if item.allow_multiple_allocations else {}
    got: DeviceResult = result(place, **share)  # type: ignore[arg-type]
    return allocated(claim(f"held-{found.pool}-{item.name}"), got)


def toggle_holder(
    cluster: PreparedCluster, now: ClusterSnapshot, found: ResourceSlice, data: st.DataObject
) -> ClusterSnapshot:
    """Let a claim take a device of the slice, or give it back."""
    held = hold(found, data.draw(st.sampled_from(found.devices)))
    known = now.claims.get(held.ref)
    others = {ref: other for ref, other in now.claims.items() if ref != held.ref}
    cluster.see_claim(known, None if known else held)
    return replace(now, claims=others if known else {**others, held.ref: held})


def change_slice(
    cluster: PreparedCluster, now: ClusterSnapshot, found: ResourceSlice, data: st.DataObject
) -> ClusterSnapshot:
    """Let a slice change, or go."""
    devices = data.draw(st.sampled_from([found.devices[1:], found.devices[::-1], None]))
    changed = [] if devices is None else [replace(found, devices=devices)]
    slices = [part for item in now.slices for part in (changed if item is found else [item])]
    after = replace(now, slices=tuple(slices)) if any(item.devices for item in slices) else now
    cluster.update(after)
    return after


def without_steps(decisions: Iterable[Decision]) -> list[Decision]:
    return [replace(decision, steps=0) for decision in decisions]


def search_each(cluster: PreparedCluster, claims: tuple[ResourceClaim, ...]) -> list[Decision]:
    """The decision for each node, searched for on that node."""
    plan = cluster.plan(claims)
    return [NodeSearch(cluster, plan, place, SearchLimits()).decide(lambda: "share") for place in NODES]


@given(
    before=clusters(),
    claims=wanted_claims(),
    data=st.data(),
    deviations=st.sampled_from([OURS, OURS, LIKE_UPSTREAM]),
    features=st.sampled_from([Features(), Features.all(), Features.none()]),
)
def test_grouped_nodes_get_the_answers_of_nodes_asked_one_by_one(
    before: ClusterSnapshot,
    claims: tuple[ResourceClaim, ...],
    data: st.DataObject,
    deviations: frozenset[Deviation],
    features: Features,
) -> None:
    cluster = PreparedCluster.from_snapshot(before, features, deviations=deviations)
    now = before
    for _ in range(4):
        found = data.draw(st.sampled_from([item for item in now.slices if item.devices]))
        now = data.draw(st.sampled_from([toggle_holder, toggle_holder, change_slice]))(cluster, now, found, data)
        alone = search_each(PreparedCluster.from_snapshot(now, features, deviations=deviations), claims)
        grouped = list(allocate_on_nodes(cluster, claims, nodes=NODES, share_ids=lambda: "share"))

        assert without_steps(grouped) == without_steps(alone)
        first = allocate_first(cluster, claims, nodes=NODES, share_ids=lambda: "share")
        ends = (
            item for item in alone if isinstance(item, Allocation) or (isinstance(item, Refused) and not item.node_only)
        )
        assert replace(first, steps=0) == replace(next(ends, Pending()), steps=0)
