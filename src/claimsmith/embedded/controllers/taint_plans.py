"""When pods must leave tainted devices, and what a taint rule reports of it: pure.

Source: claimEvictionTime, podEvictionTime and maybeUpdateRuleStatus in kubernetes v1.37.2
pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from claimsmith.embedded.api.ages import parse_time
from claimsmith.embedded.controllers.claim_plans import find_owning_pod, find_pod_claims
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.device import DeviceTaint
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.pool import DeviceTaintRule
from claimsmith.model.workload import Pod
from claimsmith.schedule.groupclaims import is_owned_by_group_of, is_used_by

__all__ = [
    "EVICTION_IN_PROGRESS",
    "EvictingTaint",
    "Eviction",
    "RuleCounts",
    "build_rule_condition",
    "plan_claim_eviction",
    "plan_pod_eviction",
    "rule_selects",
]

EVICTION_IN_PROGRESS: Final = "EvictionInProgress"
"""Type of the condition of a taint rule. Source: DeviceTaintConditionEvictionInProgress of resource.k8s.io/v1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictingTaint:
    """A taint with the effect NoExecute on a device, and where it comes from.

    Args:
        rule_uid: uid of the DeviceTaintRule; empty when the driver published the taint.
        source: The rule or slice, for people.
    """

    taint: DeviceTaint
    rule_uid: str = ""
    source: str = ""


FindTaints = Callable[[DeviceId], Iterable[EvictingTaint]]
"""Gives the evicting taints of a device: those of its newest slice, then those of rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """When a pod must go, and why.

    Args:
        at_s: Seconds since 1970.
        taints: All taints that are not tolerated for ever, also those that alone would strike later.
    """

    at_s: float
    taints: tuple[EvictingTaint, ...]

    @property
    def rule_uids(self) -> frozenset[str]:
        """The rules among the reasons."""
        return frozenset(item.rule_uid for item in self.taints if item.rule_uid)

    @property
    def reason(self) -> str:
        """Where the taints come from, for people."""
        return ", ".join(dict.fromkeys(item.source for item in self.taints))


def plan_claim_eviction(claim: ResourceClaim, find_taints: FindTaints) -> Eviction | None:
    """Return when pods that use an allocated claim must go; None when they may stay.

    A toleration counts only if its effect is literally NoExecute: an empty one lets a device be allocated, but does
    not keep a pod on it. The tolerations are those saved in the allocation. A taint without a time, which no API server
    stores, evicts nobody.
    """
    earliest: float | None = None
    taints: dict[EvictingTaint, None] = {}
    for result in claim.allocation.results if claim.allocation is not None else ():
        for found in find_taints(result.device_id):
            at_s = _find_time(result, found.taint)
            if at_s is None:
                continue
            taints[found] = None
            earliest = at_s if earliest is None else min(earliest, at_s)
    return None if earliest is None else Eviction(at_s=earliest, taints=tuple(taints))


def _find_time(result: DeviceResult, taint: DeviceTaint) -> float | None:
    """When a taint drives out the users of a device, in seconds since 1970; None for never."""
    added_s = parse_time(taint.time_added) if taint.time_added else None
    if added_s is None:
        return None
    seconds: list[int] = []
    for toleration in result.tolerations:
        if toleration.effect == "NoExecute" and toleration.tolerates(taint):
            if toleration.toleration_seconds is None:
                return None
            seconds.append(max(toleration.toleration_seconds, 0))
    return added_s + min(seconds, default=0)


def plan_pod_eviction(
    pod: Pod,
    find_claim: Callable[[ClaimRef], ResourceClaim | None],
    find_eviction: Callable[[ClaimRef], Eviction | None],
) -> Eviction | None:
    """Return when a pod must go; None when it may stay, or has no node yet.

    Args:
        pod: The pod.
        find_claim: Gives a claim as it is stored.
        find_eviction: Gives the eviction of a claim's users.
    """
    if not pod.node_name:
        return None
    found: list[Eviction] = []
    for ref, must_own in find_pod_claims(pod):
        claim, eviction = find_claim(ref), find_eviction(ref)
        if claim is None or eviction is None or not is_used_by(claim, pod):
            continue
        if not must_own or find_owning_pod(claim)[1] == pod.uid or is_owned_by_group_of(claim, pod):
            found.append(eviction)
    if not found:
        return None
    taints = dict.fromkeys(taint for eviction in found for taint in eviction.taints)
    return Eviction(at_s=min(eviction.at_s for eviction in found), taints=tuple(taints))


def rule_selects(rule: DeviceTaintRule, device: DeviceId) -> bool:
    """Tell whether a rule is for a device; one without a selector is for none. Source: ruleMatchesDevice."""
    return (
        rule.selects
        and rule.driver in (None, device.driver)
        and rule.pool in (None, device.pool)
        and rule.device in (None, device.device)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCounts:
    """What a rule concerns.

    Args:
        published, allocated: Devices that it selects, in slices and in allocations.
        pods, namespaces: Pods that it drives out, or would, and in how many namespaces they are.
        evicted: Pods that were evicted because of it since the controller started.
    """

    published: int = 0
    allocated: int = 0
    pods: int = 0
    namespaces: int = 0
    evicted: int = 0


def build_rule_condition(rule: DeviceTaintRule, counts: RuleCounts) -> dict[str, object]:
    """Return the condition EvictionInProgress of a rule, without its time; the texts are upstream's."""
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if rule.taint.effect == "NoExecute":
        reason = "Completed" if counts.evicted else "NotStarted"
        message = ""
        if counts.pods:
            status, reason = "True", "PodsPendingEviction"
            message = f"{_count(counts.pods, 'pod needs', 'pods need')} to be evicted in {_namespaces(counts)}."
    elif rule.taint.effect == "None":
        reason, message = "NoEffect", _dry_run_text(counts)
    if counts.evicted:
        told = f"{_count(counts.evicted, 'pod', 'pods')} evicted since starting the controller."
        message = f"{message} {told}" if message else told
    return {
        "type": EVICTION_IN_PROGRESS,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule.metadata.generation,
    }


def _dry_run_text(counts: RuleCounts) -> str:
    return (
        f"{_count(counts.published, 'published device', 'published devices')} selected. "
        f"{_count(counts.allocated, 'allocated device', 'allocated devices')} selected. "
        f"{_count(counts.pods, 'pod', 'pods')} would be evicted in {_namespaces(counts)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )


def _namespaces(counts: RuleCounts) -> str:
    return _count(counts.namespaces, "namespace", "different namespaces")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
