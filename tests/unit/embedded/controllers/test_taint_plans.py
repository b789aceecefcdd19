from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.embedded.controllers.taint_index import TaintIndex
from claimsmith.embedded.controllers.taint_plans import (
    EvictingTaint,
    Eviction,
    RuleCounts,
    build_rule_condition,
    plan_claim_eviction,
    plan_pod_eviction,
)
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.device import DeviceTaint, DeviceToleration
from claimsmith.model.metadata import OwnerReference
from claimsmith.model.workload import PodClaim
from claimsmith.testing.builders import allocated, claim, device, device_id, pod, result, slice_, taint_rule

ADDED, ADDED_S = "2030-01-01T00:00:00Z", 1893456000.0


def taint(key: str = "broken", *, effect: str = "NoExecute", after_s: int = 0) -> DeviceTaint:
    minutes, seconds = divmod(after_s, 60)
    return DeviceTaint(key=key, effect=effect, time_added=f"2030-01-01T00:{minutes:02}:{seconds:02}Z")


def tolerate(seconds: int | None = None, *, key: str = "", effect: str = "NoExecute") -> DeviceToleration:
    return DeviceToleration(key=key, operator="Exists", effect=effect, toleration_seconds=seconds)


def holding(*tolerations: DeviceToleration, devices: tuple[str, ...] = ("gpu-0",)) -> ResourceClaim:
    return allocated(claim(), *(replace(result(name), tolerations=tolerations) for name in devices), reserved_for=["p"])


def leave_at(found: ResourceClaim, *taints: DeviceTaint) -> float | None:
    eviction = plan_claim_eviction(found, lambda _: [EvictingTaint(taint=item) for item in taints])
    return None if eviction is None else eviction.at_s - ADDED_S


def test_without_a_toleration_users_go_when_the_taint_is_added() -> None:
    assert leave_at(holding(), taint(after_s=5)) == 5


def test_a_toleration_without_seconds_lets_users_stay_for_ever() -> None:
    assert leave_at(holding(tolerate()), taint()) is None


@pytest.mark.parametrize("effect", ["", "NoSchedule"])
def test_a_toleration_counts_only_if_its_effect_is_literally_no_execute(effect: str) -> None:
    assert leave_at(holding(tolerate(effect=effect)), taint()) == 0


def test_the_shortest_of_several_tolerations_counts() -> None:
    assert leave_at(holding(tolerate(60), tolerate(30)), taint()) == 30


def test_one_toleration_for_ever_outweighs_a_limited_one() -> None:
    assert leave_at(holding(tolerate(60), tolerate()), taint()) is None


def test_negative_seconds_count_as_none() -> None:
    assert leave_at(holding(tolerate(-60)), taint(after_s=7)) == 7


def test_the_earliest_end_over_all_taints_counts() -> None:
    found = holding(tolerate(60, key="slow"), tolerate(10, key="fast"))

    assert leave_at(found, taint("slow"), taint("fast", after_s=20)) == 30


def test_a_toleration_of_another_key_does_not_count() -> None:
    assert leave_at(holding(tolerate(key="other")), taint()) == 0


def test_taints_of_every_device_of_the_claim_count() -> None:
    found = holding(devices=("gpu-0", "gpu-1"))
    eviction = plan_claim_eviction(
        found, lambda item: [EvictingTaint(taint=taint())] if item == device_id("gpu-1") else []
    )

    assert eviction is not None


def test_a_taint_without_a_time_drives_nobody_out() -> None:
    assert leave_at(holding(), DeviceTaint(key="broken", effect="NoExecute")) is None


def plan(user: Any, found: ResourceClaim) -> Eviction | None:
    due = Eviction(at_s=1.0, taints=())
    return plan_pod_eviction(user, lambda ref: found if ref == found.ref else None, lambda _: due)


def test_a_pod_that_uses_a_tainted_claim_must_go() -> None:
    assert plan(pod("p", "claim", node_name="n"), holding()) is not None


def test_a_pod_without_a_node_stays() -> None:
    assert plan(pod("p", "claim"), holding()) is None


def test_a_pod_for_which_the_claim_is_not_reserved_stays() -> None:
    assert plan(pod("q", "claim", node_name="n"), holding()) is None


def test_a_claim_from_a_template_counts_only_if_it_was_made_for_the_pod() -> None:
    user = pod("p", PodClaim(name="c", template_name="t"), node_name="n", claim_names={"c": "claim"})
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=user.uid, controller=True)
    foreign = holding()
    own = replace(foreign, metadata=replace(foreign.metadata, owner_references=(owner,)))

    assert (plan(user, foreign), plan(user, own) is not None) == (None, True)


def test_a_pod_goes_at_the_earliest_time_of_its_claims_for_all_their_reasons() -> None:
    first, second = EvictingTaint(taint=taint("a")), EvictingTaint(taint=taint("b"), rule_uid="r")
    claims = {name: allocated(claim(name), "gpu-0", reserved_for=["p"]) for name in ("c1", "c2")}
    evictions = {"c1": Eviction(at_s=9.0, taints=(first,)), "c2": Eviction(at_s=4.0, taints=(second,))}
    found = plan_pod_eviction(
        pod("p", "c1", "c2", node_name="n"), lambda ref: claims[ref.name], lambda ref: evictions[ref.name]
    )

    assert found == Eviction(at_s=4.0, taints=(first, second))


def tainted(*taints: DeviceTaint, generation: int = 1, name: str = "s") -> Any:
    return slice_(device("gpu-0", taints=taints), name=name, generation=generation)


def test_taints_of_slices_come_before_those_of_rules() -> None:
    index = TaintIndex()
    index.see_slice(None, tainted(taint("published")))
    index.see_rule(None, taint_rule("by-rule", taint=taint("ruled"), device="gpu-0"))

    assert [item.taint.key for item in index.find_taints(device_id("gpu-0"))] == ["published", "ruled"]


def test_only_the_effect_no_execute_evicts() -> None:
    index = TaintIndex()
    index.see_slice(None, tainted(taint(effect="NoSchedule"), taint(effect="None")))
    index.see_rule(None, taint_rule(taint=taint(effect="NoSchedule")))

    assert list(index.find_taints(device_id("gpu-0"))) == []


def test_slices_of_an_older_generation_do_not_count() -> None:
    index = TaintIndex()
    index.see_slice(None, tainted(taint(), name="old"))
    index.see_slice(None, tainted(generation=2, name="new"))

    assert list(index.find_taints(device_id("gpu-0"))) == []


def test_a_change_of_a_slice_names_the_devices_whose_taints_changed() -> None:
    index = TaintIndex()
    before = slice_(device("gpu-0"), device("gpu-1", taints=(taint(),)))
    after = slice_(device("gpu-0", taints=(taint(),)), device("gpu-1", taints=(taint(),)))
    index.see_slice(None, before)

    assert index.see_slice(before, after) == {device_id("gpu-0")}


def test_a_rule_strikes_a_device_that_is_not_published() -> None:
    index = TaintIndex()
    index.see_rule(None, taint_rule(taint=taint(), device="gone"))

    assert len(list(index.find_taints(device_id("gone")))) == 1


def test_a_rule_without_a_selector_strikes_nothing() -> None:
    index = TaintIndex()
    index.see_rule(None, replace(taint_rule(taint=taint()), selects=False))

    assert list(index.find_taints(device_id("gpu-0"))) == []


def test_a_rule_that_is_taken_back_strikes_nothing() -> None:
    index, rule = TaintIndex(), taint_rule(taint=taint())
    index.see_rule(None, rule)
    index.see_rule(rule, replace(rule, taint=taint(effect="None")))

    assert list(index.find_taints(device_id("gpu-0"))) == []


def condition(effect: str, **counts: int) -> tuple[object, object, object]:
    found = build_rule_condition(taint_rule(taint=taint(effect=effect)), RuleCounts(**counts))
    return found["status"], found["reason"], found["message"]


def test_a_rule_with_pods_to_evict_is_in_progress() -> None:
    text = "2 pods need to be evicted in 1 namespace. 1 pod evicted since starting the controller."

    assert condition("NoExecute", pods=2, namespaces=1, evicted=1) == ("True", "PodsPendingEviction", text)


def test_a_rule_that_evicted_its_pods_is_completed() -> None:
    text = "3 pods evicted since starting the controller."

    assert condition("NoExecute", evicted=3) == ("False", "Completed", text)


def test_a_rule_that_strikes_nobody_is_not_started() -> None:
    assert condition("NoExecute") == ("False", "NotStarted", "")


def test_a_dry_run_tells_what_would_happen() -> None:
    status, reason, text = condition("None", published=1, allocated=2, pods=3, namespaces=2)

    assert (status, reason, str(text).partition(" if ")[0]) == (
        "False",
        "NoEffect",
        "1 published device selected. 2 allocated devices selected. 3 pods would be evicted in 2 different namespaces",
    )


def test_other_effects_evict_nobody_and_say_so() -> None:
    expected = ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")

    assert condition("NoSchedule") == expected
