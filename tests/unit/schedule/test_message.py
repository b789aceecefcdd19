from __future__ import annotations

from claimsmith.model.decision import Reason
from claimsmith.schedule.message import render_refusal


def reason(text: str) -> Reason:
    return Reason(kind="node", text=text)


def test_reasons_are_counted_over_nodes_with_the_most_frequent_first() -> None:
    refused = {"a": (reason("node is not ready"),), "b": (reason("x"), reason("y")), "c": (reason("x"),)}

    assert render_refusal(refused) == "0/3 nodes can take the pod; 2 nodes: x; 1 node: node is not ready; 1 node: y"


def test_a_cluster_without_nodes_says_so() -> None:
    assert render_refusal({}) == "0/0 nodes can take the pod: the cluster has no node; add one"
