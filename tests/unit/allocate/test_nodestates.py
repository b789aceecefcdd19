"""Devices are equal for ratings when no request can tell them apart."""

from __future__ import annotations

from collections.abc import Iterable

from claimsmith.allocate.policy.nodestates import NodeState, NodeStates
from claimsmith.allocate.policy.objective import FRAGMENTATION
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.testing.builders import DRIVER, claim, gpu, node, request, slice_, snapshot
from tests.unit.allocate.solving import number_shares

NODES = (node("node-a"), node("node-b"))
CLUSTER = snapshot(
    *NODES,
    slice_(gpu("gpu-0", model="A100"), gpu("gpu-1", model="A100"), name="a", node="node-a"),
    slice_(gpu("gpu-2", model="A100"), gpu("gpu-3", model="H100"), name="b", node="node-b"),
)


def wants(name: str, attribute: str, value: str) -> ResourceClaim:
    return claim(name, request("r", f'device.attributes["{DRIVER}"].{attribute} == "{value}"'))


def look(*wanted: ResourceClaim) -> tuple[NodeState, NodeState]:
    """The states of both nodes after claims have been learned."""
    cluster = PreparedCluster.from_snapshot(CLUSTER)
    states = NodeStates(cluster)
    for item in wanted:
        plan = cluster.plan((item,))
        states.learn(asked.shape for group in plan.claims[0].groups for asked in group.alternatives)
    first, second = (states.find(cluster.view_node(place)) for place in NODES)
    return first, second


def place_all(*wanted: ResourceClaim) -> list[str]:
    """The devices that claims would get, each as if it were the only one."""
    placer = Placer(PreparedCluster.from_snapshot(CLUSTER), FRAGMENTATION)
    return list(_place_each(placer, wanted))


def _place_each(placer: Placer, wanted: Iterable[ResourceClaim]) -> Iterable[str]:
    for item in wanted:
        decision = placer.place((item,), nodes=NODES, share_ids=number_shares())
        assert isinstance(decision, Allocation)
        yield decision.results[0].results[0].device


def test_cards_that_differ_in_what_nobody_reads_are_equal() -> None:
    first, second = look(claim("any"))

    assert first is second


def test_cards_that_differ_in_what_a_selector_reads_are_not() -> None:
    first, second = look(wants("h", "model", "H100"))

    assert first is not second


def test_an_attribute_that_is_read_later_tells_devices_apart_from_then_on() -> None:
    wanted = (claim("any"), wants("h", "model", "H100"), wants("u", "uuid", "GPU-gpu-1"))

    assert place_all(*wanted)[1:] == ["gpu-3", "gpu-1"]


def test_a_selector_that_reads_all_attributes_tells_all_devices_apart() -> None:
    wanted = claim("c", request("r", 'device.attributes.exists(domain, device.attributes[domain].uuid == "GPU-gpu-2")'))

    assert place_all(claim("any"), wanted)[1] == "gpu-2"


def test_a_selector_that_computes_the_domain_tells_all_devices_apart() -> None:
    wanted = claim("c", request("r", 'device.attributes[device.driver].uuid == "GPU-gpu-2"'))

    assert place_all(claim("any"), wanted)[1] == "gpu-2"


def test_states_that_are_dropped_leave_nothing_that_others_take_for_their_own() -> None:
    cluster = PreparedCluster.from_snapshot(CLUSTER)
    view = cluster.view_node(NODES[0])
    found = [NodeStates(cluster).find(view).pools[0] for _ in range(20)]

    assert len(set(found)) == 20
