"""Rules of a node tell of its failures and of nothing else; those of others are never touched."""

from __future__ import annotations

import re
from typing import Any

import pytest

from claimsmith.model.names import DeviceId
from claimsmith.publish.health import Failure
from claimsmith.publish.health_policy import UNHEALTHY_KEY, Effect
from claimsmith.publish.taintrules import RuleOwner, RulePlan, plan_taint_rules
from claimsmith.validate.names import check_subdomain

OWNER = RuleOwner(node="node-a", node_uid="u1")
GPU = DeviceId("gpu.example.test", "node-a", "gpu-0")


def failure(value: str = "xid-79", effect: Effect = "NoSchedule", message: str = "lost") -> Failure:
    return Failure(device=GPU, cause=value, effect=effect, key=UNHEALTHY_KEY, value=value, message=message)


def plan(*failures: Failure, existing: list[dict[str, Any]] | None = None, owner: RuleOwner = OWNER) -> RulePlan:
    return plan_taint_rules(owner, {GPU: failures} if failures else {}, existing or [])


def stored(*failures: Failure, owner: RuleOwner = OWNER) -> list[dict[str, Any]]:
    """Return rules as a server gives them back."""
    found = []
    for number, rule in enumerate(plan(*failures, owner=owner).creates):
        taint = {name: text for name, text in rule["spec"]["taint"].items() if text}
        spec = {**rule["spec"], "taint": {**taint, "timeAdded": "2030-01-01T00:00:00Z"}}
        found.append({**rule, "metadata": {**rule["metadata"], "uid": f"u{number}"}, "spec": spec})
    return found


def test_a_failure_becomes_a_rule_for_that_device_alone() -> None:
    (rule,) = plan(failure()).creates

    assert rule["spec"] == {
        "deviceSelector": {"driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0"},
        "taint": {"key": UNHEALTHY_KEY, "value": "xid-79", "effect": "NoSchedule"},
    }


def test_a_rule_goes_when_its_node_goes() -> None:
    (rule,) = plan(failure()).creates

    assert [(item["kind"], item["uid"]) for item in rule["metadata"]["ownerReferences"]] == [("Node", "u1")]


@pytest.mark.parametrize("node", ["node-a", f"{'a' * 45}.{'b' * 30}"], ids=["short", "long"])
def test_a_rule_has_a_name_that_no_other_node_may_take(node: str) -> None:
    owner = RuleOwner(node=node)
    (rule,) = plan(failure(), owner=owner).creates

    assert re.fullmatch(f"claimsmith-health-{re.escape(owner.label.replace('.-', '-'))}-[0-9a-f]{{20}}", name_of(rule))
    assert list(check_subdomain(name_of(rule), "name")) == []


def name_of(rule: dict[str, Any]) -> str:
    return str(rule["metadata"]["name"])


def test_rules_that_are_right_are_left_alone() -> None:
    assert plan(failure(), existing=stored(failure())).writes == 0


def test_a_cause_without_a_name_is_no_endless_change() -> None:
    assert plan(failure(""), existing=stored(failure(""))).writes == 0


def test_a_rule_whose_failure_is_over_is_deleted() -> None:
    existing = stored(failure())

    assert plan(existing=existing).deletes == tuple(existing)


def test_a_stronger_effect_changes_the_rule_and_keeps_its_time() -> None:
    found = plan(failure(effect="NoExecute"), existing=stored(failure()))

    (patch,) = found.updates.values()
    assert (found.creates, found.deletes) == ((), ())
    assert patch["spec"]["taint"] == {"key": UNHEALTHY_KEY, "value": "xid-79", "effect": "NoExecute"}


def test_a_new_message_is_written_without_the_rest() -> None:
    (patch,) = plan(failure(message="still lost"), existing=stored(failure())).updates.values()

    assert patch == {"metadata": {"annotations": {"claimsmith.dev/message": "still lost"}}}


def test_causes_that_make_the_same_taint_are_one_rule_of_the_stronger_effect() -> None:
    found = plan(failure(effect="NoSchedule"), failure(effect="NoExecute")).creates

    assert [rule["spec"]["taint"]["effect"] for rule in found] == ["NoExecute"]


def test_rules_of_other_nodes_and_people_are_never_touched() -> None:
    other = stored(failure(), owner=RuleOwner(node="node-b"))
    by_hand = {"metadata": {"name": "mine", "labels": {}}, "spec": {"taint": {"key": "a", "effect": "NoExecute"}}}

    assert plan(existing=[*other, by_hand]).writes == 0


def test_nodes_with_long_names_are_told_apart() -> None:
    one, other = (RuleOwner(node=f"{'n' * 80}.{end}.example.test").label for end in "ab")

    assert one != other
    assert len(one) <= 63
