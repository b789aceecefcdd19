"""What no node offers to all pods of one claim."""

from __future__ import annotations

from claimsmith.schedule.sharing import describe_shortage, find_roomy_nodes, sum_requests
from claimsmith.schedule.usage import NodeUsage
from claimsmith.testing.builders import alternatives, claim, pod, request, sub

PODS = (pod("a", requests={"cpu": "2", "memory": "1Gi"}), pod("b", requests={"cpu": "2", "memory": "1Gi"}))


def usage(cpu: int, *, memory_bytes: int = 2**40, used: int = 0) -> NodeUsage:
    offered = {"cpu": cpu * 1000, "memory": memory_bytes * 1000, "pods": 100_000}
    return NodeUsage(offered=offered, amounts={"cpu": used * 1000})


def test_requests_are_added_up() -> None:
    assert sum_requests(PODS) == {"cpu": 4000, "memory": 2 * 2**30 * 1000, "pods": 2000}


def test_a_node_is_roomy_when_all_pods_fit_beside_those_that_are_there() -> None:
    found = find_roomy_nodes(sum_requests(PODS), {"a": usage(4), "b": usage(3), "c": usage(5, used=2)})

    assert found == {"a"}


def test_the_amount_that_most_nodes_lack_is_named_with_the_class() -> None:
    nodes = {"a": usage(3), "b": usage(3), "c": usage(8, memory_bytes=2**20)}
    text = describe_shortage(claim("shared", request("r", klass="gpu")), PODS, nodes)

    assert text == "pods a, b share claim default/shared: no node offers 4 cpu next to a free gpu"


def test_an_amount_of_memory_is_told_in_its_unit() -> None:
    text = describe_shortage(claim("shared", request("r")), PODS, {"a": usage(8, memory_bytes=2**30)})

    assert "no node offers 2Gi memory next to" in text


def test_alternatives_name_all_their_classes() -> None:
    wish = alternatives("r", sub("one", klass="big"), sub("two", klass="small"), sub("three", klass="big"))
    text = describe_shortage(claim("shared", wish), PODS, {"a": usage(1)})

    assert text.endswith("next to a free big or small")


def test_nothing_is_said_when_no_node_is_short() -> None:
    assert describe_shortage(claim("shared", request("r")), PODS, {"a": usage(8)}) == ""
