from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.cluster.cache import ClusterCache, Reservation
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import PodRef
from claimsmith.model.workload import NodeAllocatableClaim, Pod
from claimsmith.testing.builders import (
    allocated,
    claim,
    claim_ref,
    gpu,
    klass,
    node,
    pod,
    quantities,
    slice_,
    taint,
    taint_rule,
)

REF = PodRef("default", "p")
CLAIM = claim("c", resource_version="5")


@pytest.fixture
def cache() -> ClusterCache:
    found = ClusterCache()
    found.see_node(None, node("node-a"))
    found.see_class(None, klass())
    found.see_claim(None, CLAIM)
    found.see_pod(None, pod("p", "c"))
    return found


def decided() -> ResourceClaim:
    return allocated(CLAIM, "gpu-0", reserved_for=["p"])


def assume(cache: ClusterCache) -> Pod:
    waiting = cache.pods[REF]
    cache.assume(Reservation(pod=waiting, node="node-a", claims=(decided(),)))
    return waiting


def place(cache: ClusterCache) -> str:
    return cache.pods[REF].node_name


def is_held(cache: ClusterCache) -> bool:
    found = cache.claims.find(claim_ref("c"))
    return found is not None and found.allocation is not None


def test_an_assumed_decision_is_in_the_next_snapshot(cache: ClusterCache) -> None:
    assume(cache)
    found = cache.snapshot()

    assert found.pods[REF].node_name == "node-a"
    assert found.claims[claim_ref("c")].allocation is not None


def test_a_snapshot_stays_the_same_until_something_changes(cache: ClusterCache) -> None:
    first = cache.snapshot()
    same = cache.snapshot() is first
    cache.see_node(None, node("node-b"))

    assert (same, cache.snapshot() is first, set(first.nodes)) == (True, False, {"node-a"})


def test_a_forgotten_decision_leaves_no_trace(cache: ClusterCache) -> None:
    waiting = assume(cache)
    cache.forget(waiting)

    assert (place(cache), is_held(cache), cache.find_reservation(waiting)) == ("", False, None)


def test_a_forgotten_decision_keeps_what_was_written(cache: ClusterCache) -> None:
    waiting = assume(cache)
    written = decided()
    cache.confirm_claim(replace(written, metadata=replace(written.metadata, resource_version="7")))
    cache.forget(waiting)

    assert (place(cache), is_held(cache)) == ("", True)


def test_a_late_status_change_does_not_unassume_a_bound_pod(cache: ClusterCache) -> None:
    waiting = assume(cache)
    cache.finish(waiting)
    cache.see_pod(waiting, pod("p", "c", claim_names={"x": "y"}))

    assert place(cache) == "node-a"


def test_the_node_that_the_server_shows_wins_over_the_assumed_one(cache: ClusterCache) -> None:
    waiting = assume(cache)
    cache.see_pod(waiting, pod("p", "c", node_name="node-z"))
    cache.forget(waiting)

    assert place(cache) == "node-z"


def test_a_pod_deleted_while_its_writes_are_under_way_frees_its_claims_when_they_fail(cache: ClusterCache) -> None:
    waiting = assume(cache)
    cache.see_pod(waiting, None)
    cache.forget(waiting)

    assert (REF in cache.pods, is_held(cache)) == (False, False)


def test_listeners_hear_of_assumed_and_forgotten_nodes(cache: ClusterCache) -> None:
    heard: list[tuple[str | None, str | None]] = []

    def listen(old: Pod | None, new: Pod | None) -> None:
        heard.append((old.node_name if old else None, new.node_name if new else None))

    cache.subscribe_pods(listen)
    cache.forget(assume(cache))

    assert heard == [(None, ""), ("", "node-a"), ("node-a", "")]


def test_slices_are_in_order_of_name_and_the_same_tuple_while_none_changes(cache: ClusterCache) -> None:
    for name in ("b", "a", "C"):
        cache.see_slice(None, slice_(gpu("gpu-0"), name=name))
    first = cache.snapshot().slices
    cache.see_pod(None, pod("q"))

    assert [item.name for item in first] == ["C", "a", "b"]
    assert cache.snapshot().slices is first


def test_taint_rules_come_and_go(cache: ClusterCache) -> None:
    rule = taint_rule(taint=taint())
    cache.see_taint_rule(None, rule)
    before = cache.snapshot().taint_rules
    cache.see_taint_rule(rule, None)

    assert (before, cache.snapshot().taint_rules) == ((rule,), ())


TAKEN = (NodeAllocatableClaim(claim="c", mapping=quantities({"cpu": 2})),)


def assume_taking(cache: ClusterCache) -> Pod:
    waiting = cache.pods[REF]
    cache.assume(Reservation(pod=waiting, node="node-a", claims=(decided(),), node_allocatable=TAKEN))
    return waiting


def test_an_assumed_pod_takes_what_its_devices_take_of_the_node(cache: ClusterCache) -> None:
    waiting = assume_taking(cache)
    cache.see_pod(waiting, replace(waiting, priority=7))

    assert (cache.pods[REF].priority, cache.pods[REF].node_allocatable) == (7, TAKEN)


def test_a_forgotten_pod_is_what_the_server_showed_last(cache: ClusterCache) -> None:
    waiting = assume_taking(cache)
    shown = replace(waiting, priority=7)
    cache.see_pod(waiting, shown)
    cache.forget(waiting)

    assert cache.pods[REF] == shown


def test_a_claim_is_promised_to_others_while_a_decision_that_uses_it_is_written(cache: ClusterCache) -> None:
    waiting, other = cache.pods[REF], pod("other", "c")
    cache.assume(Reservation(pod=waiting, node="node-a", uses=frozenset({claim_ref("c")})))
    during = cache.is_promised(claim_ref("c"), besides=other), cache.is_promised(claim_ref("c"), besides=waiting)
    cache.finish(waiting)

    assert (during, cache.is_promised(claim_ref("c"), besides=other)) == ((True, False), False)
