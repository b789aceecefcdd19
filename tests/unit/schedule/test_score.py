from __future__ import annotations

from claimsmith.model.claim import AllocationResult
from claimsmith.model.names import DeviceId
from claimsmith.schedule.score import Placement, get_rank, has_alternatives, order_nodes
from claimsmith.schedule.usage import UsageIndex
from claimsmith.testing.builders import alternatives, claim, node, pod, request, result, sub

CHOICE = claim("c", alternatives("r", sub("best"), sub("good"), sub("last")))


def chosen(*requests: str) -> AllocationResult:
    device = DeviceId("d", "p", "x")
    return AllocationResult(results=tuple(result(device, request=name) for name in requests))


def names(placement: Placement) -> list[str]:
    nodes = [node(name, allocatable={"cpu": 4}) for name in ("c", "a", "b")]
    usage = UsageIndex.of_pods([pod("x", node_name="a", requests={"cpu": 2})])
    return [item.name for item in order_nodes([(item, usage.find(item)) for item in nodes], placement=placement)]


def test_spreading_prefers_the_emptiest_node_and_then_the_name() -> None:
    assert names("spread") == ["b", "c", "a"]


def test_packing_prefers_the_fullest_node() -> None:
    assert names("pack") == ["a", "b", "c"]


def test_an_earlier_alternative_ranks_higher() -> None:
    ranks = [get_rank([CHOICE], [chosen(f"r/{name}")]) for name in ("best", "good", "last")]

    assert ranks == [8, 7, 6]


def test_two_devices_of_one_alternative_count_once() -> None:
    assert get_rank([CHOICE], [chosen("r/best", "r/best")]) == 8


def test_plain_requests_do_not_rank() -> None:
    plain = claim("c", request("r"))

    assert (get_rank([plain], [chosen("r")]), has_alternatives([plain]), has_alternatives([CHOICE])) == (0, False, True)


def test_pods_that_ask_for_nothing_of_a_resource_come_and_go() -> None:
    index, pods = UsageIndex(), [pod(name, node_name="a", requests={"cpu": 0}) for name in ("x", "y")]
    for item in pods:
        index.see_pod(None, item)
    for item in pods:
        index.see_pod(item, None)

    assert index.find(node("a")).amounts == {}
