"""What would help on which nodes: a relaxed text is told for exactly those nodes on which the claims fit with it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.explain.case import ClauseBook, build_case
from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.values import Fix
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    claim,
    device,
    device_id,
    klass,
    match,
    node,
    request,
    slice_,
    snapshot,
)
from tests.unit.allocate.explaining import why

DOMAIN = "gpu.example.test"
Object = Node | ResourceSlice | ResourceClaim


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Draw nodes whose devices differ in profile and place, some of them held by claims."""
    parts = st.tuples(st.sampled_from(["1g", "2g", "A100", "A-100"]), st.integers(0, 1), st.booleans())
    found: list[Object] = []
    for number, devices in enumerate(draw(st.lists(st.lists(parts, min_size=1, max_size=3), min_size=2, max_size=5))):
        name = f"n{number}"
        made = [
            device(f"d{k}", attributes={"profile": profile, "numa": numa})
            for k, (profile, numa, _) in enumerate(devices)
        ]
        found += [node(name), slice_(*made, name=f"s-{name}", node=name, pool=name)]
        for k, (_, _, is_held) in enumerate(devices):
            if is_held:
                found.append(allocated(claim(f"held-{name}-{k}"), device_id(f"d{k}", pool=name)))
    return found


@st.composite
def claims(draw: st.DrawFn) -> ResourceClaim:
    """Draw a claim for a profile that no device has."""
    text = f'device.attributes["{DOMAIN}"].profile == "{draw(st.sampled_from(["7g", "0g", "A100-80"]))}"'
    if draw(st.booleans()):
        text += f' && device.attributes["{DOMAIN}"].numa == {draw(st.integers(0, 2))}'
    constraints = [match(f"{DOMAIN}/numa")] if draw(st.booleans()) else []
    return claim("c", request("r", text, count=draw(st.integers(1, 2))), constraints=constraints)


def find_fitting(objects: list[Object], wanted: ResourceClaim, fix: Fix) -> set[str]:
    """Carry out the changes on each node, and return those on which the claim fits."""
    seen = snapshot(*objects, wanted, klass())
    cluster, fitting = PreparedCluster.from_snapshot(seen, Features.all()), set[str]()
    for item in seen.nodes.values():
        case = build_case(ClauseBook(cluster, (wanted,)), item)
        asked = replace(case.problem, claims=case.asked, classes=dict(cluster.classes))
        if isinstance(allocate(apply_changes(asked, fix.changes), share_ids=str), Allocation):
            fitting.add(item.name)
    return fitting


@settings(max_examples=60)
@given(clusters(), claims())
def test_a_relaxed_selector_is_told_for_all_nodes_on_which_it_helps(
    objects: list[Object], wanted: ResourceClaim
) -> None:
    for fix in why(*objects, wanted).fixes:
        if [change.op for change in fix.changes] == ["set-selectors"]:
            assert set(fix.nodes) == find_fitting(objects, wanted, fix), fix.text
