"""What a failure leads to depends on its cause, on how often it comes, and on what is said in the configuration."""

from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import (
    APPLICATION_XIDS,
    UNHEALTHY_KEY,
    CauseRule,
    Escalation,
    HealthPolicy,
    parse_health_policy,
)

DRIVER, NODE = "gpu.example.test", "node-a"
GPU = DeviceId(DRIVER, NODE, "gpu-0")


def graded(*rules: CauseRule, hold_max_s: float = 600, forget_s: float = 3600) -> HealthTaints:
    policy = HealthPolicy(rules=rules, hold_s=10, hold_max_s=hold_max_s, forget_s=forget_s)
    return HealthTaints(DRIVER, NODE, policy)


def fail(health: HealthTaints, now_s: float, cause: str = "hot", device: str = "gpu-0") -> None:
    health.note(DeviceHealth(device=device, healthy=False, cause=cause, message=f"{cause} happened"), now_s)


def recover(health: HealthTaints, now_s: float, device: str = "gpu-0") -> None:
    health.note(DeviceHealth(device=device, healthy=True), now_s)


def effects(health: HealthTaints, now_s: float) -> list[str]:
    return [taint.effect for taint in health.taints(now_s).get(GPU, ())]


# --- effects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", APPLICATION_XIDS)
def test_an_error_of_an_application_has_no_effect(cause: str) -> None:
    health = graded()
    fail(health, 0, cause)

    assert effects(health, 0) == []
    assert health.unhealthy(0) == frozenset()


@pytest.mark.parametrize("number", [48, 63, 64, 74, 79, 95, 109, 4711])
def test_other_numbers_keep_new_pods_away(number: int) -> None:
    health = graded()
    fail(health, 0, f"xid-{number}")

    assert effects(health, 0) == ["NoSchedule"]


def test_a_rule_of_ones_own_comes_before_the_standard_ones() -> None:
    health = graded(CauseRule(causes=("xid-31", "xid-9?"), effect="NoExecute", key="example.test/xid", value="bad"))
    fail(health, 0, "xid-31")

    assert health.taints(0)[GPU] == (DeviceTaint(key="example.test/xid", value="bad", effect="NoExecute"),)


def test_a_later_harmless_cause_does_not_hide_a_serious_one() -> None:
    health = graded()
    fail(health, 0, "xid-79")
    fail(health, 1, "xid-31")

    assert [taint.value for taint in health.taints(1)[GPU]] == ["xid-79"]


def test_two_serious_causes_are_two_taints_that_one_recovery_ends() -> None:
    health = graded()
    fail(health, 0, "xid-79")
    fail(health, 1, "xid-48")
    recover(health, 2)

    assert [taint.value for taint in health.taints(2)[GPU]] == ["xid-79", "xid-48"]
    assert health.taints(12) == {}


# --- damping ----------------------------------------------------------------------------------------------------------


def test_a_device_is_tainted_at_the_report_that_the_rule_names() -> None:
    health = graded(CauseRule(reports=3, within_s=60))
    found = []
    for now_s in (0, 30, 60):
        fail(health, now_s)
        found.append(effects(health, now_s))

    assert found == [[], [], ["NoSchedule"]]


def test_reports_that_lie_too_far_apart_do_not_add_up() -> None:
    health = graded(CauseRule(reports=3, within_s=60))
    for now_s in (0, 30, 61):
        fail(health, now_s)

    assert effects(health, 61) == []


def test_reports_add_up_over_short_recoveries() -> None:
    health = graded(CauseRule(reports=2, within_s=60))
    fail(health, 0)
    recover(health, 1)
    fail(health, 2)

    assert effects(health, 2) == ["NoSchedule"]


def test_a_failure_that_lasts_needs_no_further_report() -> None:
    health = graded(CauseRule(reports=99, lasting_s=20))
    fail(health, 5)

    assert health.find_next_s(5) == 25
    assert (effects(health, 24.9), effects(health, 25)) == ([], ["NoSchedule"])


def test_a_failure_that_ends_in_time_has_no_effect() -> None:
    health = graded(CauseRule(reports=99, lasting_s=20))
    fail(health, 5)
    recover(health, 24)

    assert effects(health, 1000) == []
    assert health.find_next_s(1000) is None


# --- return -----------------------------------------------------------------------------------------------------------


def test_a_rule_has_its_own_time_until_the_return() -> None:
    health = graded(CauseRule(causes=("hot",), hold_s=100))
    fail(health, 0)
    recover(health, 1)

    assert health.find_next_s(1) == 101


def test_a_device_that_must_not_return_stays_until_it_is_released() -> None:
    health = graded(CauseRule(returns=False))
    fail(health, 0)
    recover(health, 1)
    before = effects(health, 1e6)

    assert health.release(GPU, 1e6)
    assert (before, effects(health, 1e6)) == (["NoSchedule"], [])


def test_a_device_that_still_fails_is_not_released() -> None:
    health = graded(CauseRule(returns=False))
    fail(health, 0)

    assert not health.release(GPU, 5)
    assert effects(health, 5) == ["NoSchedule"]


def test_the_clock_of_a_caller_that_goes_back_changes_nothing() -> None:
    health = graded()
    fail(health, 100)
    recover(health, 50)

    assert health.find_next_s(0) == 110


# --- escalation -------------------------------------------------------------------------------------------------------


def test_a_cause_that_comes_back_gets_a_stronger_effect() -> None:
    health = graded(CauseRule(escalation=Escalation(failures=3)))
    found = []
    for now_s in (0, 100, 200):
        fail(health, now_s)
        found += effects(health, now_s)
        recover(health, now_s + 1)

    assert found == ["NoSchedule", "NoSchedule", "NoExecute"]


def test_failing_again_while_it_is_to_return_escalates_as_well() -> None:
    health = graded(CauseRule(escalation=Escalation(failures=2, returns=False)))
    fail(health, 0)
    recover(health, 1)
    fail(health, 2)
    recover(health, 3)

    assert effects(health, 1e6) == ["NoExecute"]
    assert [change.kind for change in health.take_changes()] == ["reported", "tainted", "escalated", "reported"]


def test_a_device_that_was_healthy_for_long_starts_anew() -> None:
    health = graded(CauseRule(escalation=Escalation(failures=2)), forget_s=1000)
    fail(health, 0)
    recover(health, 1)
    fail(health, 1001)

    assert effects(health, 1001) == ["NoSchedule"]


def test_a_harmless_cause_may_become_serious_when_it_repeats() -> None:
    health = graded(CauseRule(effect="none", escalation=Escalation(failures=3, effect="NoSchedule")))
    found = []
    for now_s in (0, 1, 2):
        fail(health, now_s)
        found.append(effects(health, now_s))

    assert found == [[], [], ["NoSchedule"]]


# --- what is told -----------------------------------------------------------------------------------------------------


def test_changes_are_told_once_with_cause_and_message() -> None:
    health = graded()
    fail(health, 0, "xid-79")
    recover(health, 1)
    health.taints(11)
    changes = health.take_changes()

    assert [(change.kind, change.effect) for change in changes] == [
        ("reported", "none"), ("tainted", "NoSchedule"), ("returned", "none"),
    ]  # fmt: skip
    assert {(change.cause, change.message) for change in changes} == {("xid-79", "xid-79 happened")}
    assert health.take_changes() == ()


def test_the_kubelet_is_told_what_the_policy_makes_of_a_report() -> None:
    health = graded()
    fail(health, 0, "xid-31")
    fail(health, 0, "xid-79", device="gpu-1")
    health.note(DeviceHealth(device="gpu-2", healthy=None), 0)

    found = {item.device: (item.healthy, item.message) for item in health.graded(0)}
    assert found == {"gpu-0": (True, ""), "gpu-1": (False, "xid-79: xid-79 happened"), "gpu-2": (None, "")}


def test_a_device_is_unhealthy_for_the_kubelet_until_it_returns() -> None:
    health = graded()
    fail(health, 0)
    recover(health, 1)

    assert [health.graded(now_s)[0].healthy for now_s in (10.9, 11)] == [False, True]


# --- a restart --------------------------------------------------------------------------------------------------------


def test_a_restart_makes_no_broken_device_usable() -> None:
    before = graded()
    fail(before, 0, "xid-79")
    after = graded()
    after.adopt(before.taints(0), 1000)

    assert after.taints(1000) == before.taints(0)


def test_an_adopted_taint_goes_when_health_has_lasted() -> None:
    health = graded()
    health.adopt({GPU: (DeviceTaint(key=UNHEALTHY_KEY, value="xid-79", effect="NoSchedule"),)}, 0)
    recover(health, 5)

    assert health.find_next_s(5) == 15
    assert effects(health, 15) == []


def test_an_adopted_taint_of_a_device_that_is_known_to_be_healthy_goes_as_soon_as_that_has_lasted() -> None:
    health = graded()
    recover(health, 0)
    health.adopt({GPU: (DeviceTaint(key=UNHEALTHY_KEY, value="xid-79", effect="NoSchedule"),)}, 5)

    assert health.find_next_s(5) == 15


def test_an_adopted_taint_that_the_driver_confirms_stays() -> None:
    health = graded(hold_max_s=100)
    health.adopt({GPU: (DeviceTaint(key=UNHEALTHY_KEY, value="xid-79", effect="NoSchedule"),)}, 0)
    fail(health, 5, "xid-79")

    assert effects(health, 1e6) == ["NoSchedule"]


def test_an_adopted_taint_of_which_the_driver_never_speaks_goes_at_last() -> None:
    health = graded(hold_max_s=100)
    health.adopt({GPU: (DeviceTaint(key=UNHEALTHY_KEY, value="xid-79", effect="NoSchedule"),)}, 0)

    assert (effects(health, 99), effects(health, 100)) == (["NoSchedule"], [])


@pytest.mark.parametrize(
    "taint",
    [
        DeviceTaint(key="example.test/other", value="xid-79", effect="NoSchedule"),
        DeviceTaint(key=UNHEALTHY_KEY, value="xid-31", effect="NoSchedule"),
    ],
    ids=["a key of others", "a cause without effect by now"],
)
def test_taints_that_no_rule_makes_are_not_adopted(taint: DeviceTaint) -> None:
    health = graded()
    health.adopt({GPU: (taint,)}, 0)

    assert health.taints(0) == {}


def test_an_adopted_escalation_stays_escalated() -> None:
    health = graded(CauseRule(escalation=Escalation(failures=3)))
    health.adopt({GPU: (DeviceTaint(key=UNHEALTHY_KEY, value="hot", effect="NoExecute"),)}, 0)

    assert effects(health, 0) == ["NoExecute"]


# --- the configuration ------------------------------------------------------------------------------------------------


def test_a_section_becomes_a_policy() -> None:
    section = {
        "holdSeconds": 30,
        "taints": "rules",
        "spread": {"toSiblings": True},
        "rules": [
            {"causes": ["xid-7[49]"], "effect": "NoExecute", "reports": 2, "withinSeconds": 5, "returns": False,
             "escalation": {"failures": 4, "effect": "NoExecute"}},
        ],
    }  # fmt: skip
    policy = parse_health_policy(section)

    assert (policy.hold_s, policy.taints, policy.spread.to_siblings) == (30, "rules", True)
    assert policy.rules == (
        CauseRule(
            causes=("xid-7[49]",), effect="NoExecute", reports=2, within_s=5, returns=False,
            escalation=Escalation(failures=4),
        ),
    )  # fmt: skip


def test_a_section_that_is_left_out_is_the_default() -> None:
    assert parse_health_policy(None) == HealthPolicy()


@pytest.mark.parametrize(
    ("section", "mentions"),
    [
        ({"rules": [{"causes": ["xid-1O9"]}]}, r"health\.rules\[0\]\.causes\[0\]: found 'xid-1O9'"),
        ({"rules": [{"causes": []}]}, r"health\.rules\[0\]\.causes"),
        ({"rules": [{"causes": ["*"], "effect": "NoRun"}]}, r"health\.rules\[0\]\.effect"),
        ({"rules": [{"causes": ["*"], "reports": 0}]}, r"health\.rules\[0\]\.reports: found 0, allowed >= 1"),
        ({"rules": [{"causes": ["*"], "lastingSeconds": -1}]}, r"health\.rules\[0\]\.lastingSeconds: found -1"),
        ({"rules": [{"causes": ["*"], "key": "no key"}]}, r"health\.rules\[0\]\.key: found 'no key'"),
        ({"rules": [{"causes": ["*"], "escalation": {"failures": 1}}]}, r"health\.rules\[0\]\.escalation\.failures"),
        ({"holdSeconds": float("inf")}, r"health\.holdSeconds"),
        ({"factor": 0.5}, r"health\.factor: found 0\.5, allowed a number >= 1"),
        ({"holdSecond": 5}, r"health\.holdSecond: .*write holdSeconds"),
        ({"taints": "nowhere"}, r"health\.taints"),
        ([], r"health"),
    ],
)
def test_a_slip_in_the_section_is_named_with_its_field(section: object, mentions: str) -> None:
    with pytest.raises(FieldError, match=mentions):
        parse_health_policy(section)
