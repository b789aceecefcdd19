"""What a decision for a gang says is proven of it."""

from __future__ import annotations

from typing import Literal

import pytest

from claimsmith.allocate.batch import JointDecision
from claimsmith.cli.joint_words import describe_joint, encode_joint, list_gang_lines
from claimsmith.daemons.offline_decision import OfflineDecision

TERMS = (("placed", 2), ("pack", 2))


def answer(status: Literal["optimal", "feasible", "searched"], **more: str) -> JointDecision:
    return JointDecision(decisions={}, status=status, objective=TERMS, bound=(("placed", 2), ("pack", 1)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (answer("optimal"), "proven to be the best: placed 2, pack 2"),
        (
            answer("feasible"),
            "not proven to be the best: placed 2, pack 2; the best that there could be: placed 2, pack 1",
        ),
        (
            answer("searched", reason="the solver is not installed; install claimsmith[solver]"),
            "found by search alone, nothing is proven of it: placed 2, pack 2; "
            "the solver is not installed; install claimsmith[solver]",
        ),
        (None, "its pods were tried one after the other, so that nothing is proven of it"),
    ],
)
def test_it_is_said_what_is_proven(found: JointDecision | None, text: str) -> None:
    assert describe_joint(found) == text


def test_programs_are_told_too() -> None:
    assert encode_joint(answer("optimal"))["objective"] == {"placed": 2, "pack": 2}
    assert encode_joint(None)["status"] == "in-turn"


def test_each_gang_that_has_its_nodes_has_one_line() -> None:
    pods = [
        OfflineDecision(target=f"pod/{name}", outcome="allocated", group=group, joint=answer("optimal"))
        for name, group in (("a", "podgroup/default/g"), ("b", "podgroup/default/g"), ("c", ""))
    ]
    pods.append(OfflineDecision(target="pod/d", outcome="pending", group="podgroup/default/h"))

    assert list_gang_lines(pods) == ["podgroup/default/g: proven to be the best: placed 2, pack 2"]
