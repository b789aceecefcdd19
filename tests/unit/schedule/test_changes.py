from __future__ import annotations

from dataclasses import replace

from claimsmith.schedule.changes import find_claim_change, find_node_change, find_pod_change
from claimsmith.schedule.queue import Change
from claimsmith.testing.builders import allocated, claim, node, pod

FREE = claim("c")
HELD = allocated(FREE, "gpu-0")


def test_devices_come_free_when_an_allocation_goes_or_its_claim_does() -> None:
    freed = Change("claim-freed", "default/c")

    assert (find_claim_change(HELD, FREE), find_claim_change(HELD, None)) == (freed, freed)


def test_other_changes_of_a_claim_free_nothing() -> None:
    kinds = {find_claim_change(*pair).kind for pair in ((None, FREE), (FREE, HELD), (HELD, HELD), (FREE, None))}

    assert kinds == {"claim"}


def test_a_heartbeat_of_a_node_helps_nobody() -> None:
    old = node("a")

    assert find_node_change(old, replace(old, metadata=replace(old.metadata, resource_version="9"))) is None


def test_a_node_that_comes_or_changes_may_help() -> None:
    ready = node("a")

    assert find_node_change(None, ready) == find_node_change(node("a", ready=False), ready) == Change("node", "a")


def test_a_node_that_goes_helps_nobody() -> None:
    assert find_node_change(node("a"), None) is None


def test_a_pod_that_ends_or_goes_leaves_room() -> None:
    running, done = pod("p", node_name="a"), pod("p", node_name="a", phase="Failed")

    assert find_pod_change(running, done) == find_pod_change(running, None) == Change("pod-freed", "a")


def test_a_pod_that_never_had_a_node_leaves_no_room() -> None:
    assert find_pod_change(pod("p"), None) is None
