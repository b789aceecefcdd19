"""What quotas leave for further pods of a namespace and their claims.

Source: pkg/quota/v1/evaluator/core of kubernetes v1.37.2 (resource_claims.go, pods.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, ResourceClaimSpec, SubRequest
from claimsmith.model.names import ClaimRef
from claimsmith.model.policy import QuotaScope, ResourceQuota
from claimsmith.model.quantity import format_milli
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Container, Pod

__all__ = ["QuotaLimit", "count_claim", "count_pod", "find_quota_limit"]

PER_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""End of the name under which quotas count the devices of a class."""
CLAIM_COUNT: Final = "count/resourceclaims.resource.k8s.io"

_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimit:
    """The quota that runs out first.

    Args:
        quota: `namespace/name`.
        resource: What it counts.
        hard: The most that it allows, in thousandths.
        used: What is used of it now, in thousandths.
        wanted: What one copy takes, in thousandths; > 0.
    """

    quota: str
    resource: str
    hard: int
    used: int
    wanted: int

    @property
    def copies(self) -> int:
        """How many copies it leaves room for."""
        return max(0, (self.hard - self.used) // self.wanted)

    @property
    def text(self) -> str:
        """The same for people."""
        used, hard, wanted = (format_milli(amount) for amount in (self.used, self.hard, self.wanted))
        return f"quota {self.quota}: {used} of {hard} {self.resource} used, {wanted} for each"


def find_quota_limit(snapshot: ClusterSnapshot, pod: Pod) -> QuotaLimit | None:
    """Return the quota that allows the fewest copies of a pod with its claims; None when no quota counts them.

    What is used is counted on the snapshot, so that changes of it count too.
    """
    namespace = pod.metadata.namespace
    quotas = [quota for quota in snapshot.quotas if quota.metadata.namespace == namespace]
    limits = [limit for quota in quotas for limit in _find_limits(snapshot, quota, pod)]
    return min(limits, key=lambda limit: limit.copies, default=None)


def _find_limits(snapshot: ClusterSnapshot, quota: ResourceQuota, pod: Pod) -> Iterator[QuotaLimit]:
    wanted: Counter[str] = Counter()
    if _covers(quota.scopes, pod):
        wanted.update(count_pod(pod))
    if not quota.scopes:
        for spec in _made_claims(snapshot, pod):
            wanted.update(count_claim(spec))
    wanted = Counter({name: amount for name, amount in wanted.items() if amount > 0 and name in quota.hard})
    if not wanted:
        return
    used = _count_used(snapshot, quota)
    for name, amount in sorted(wanted.items()):
        yield QuotaLimit(
            quota=str(quota.ref),
            resource=name,
            hard=quota.hard[name].milli_value(),
            used=used[name],
            wanted=amount,
        )


def _made_claims(snapshot: ClusterSnapshot, pod: Pod) -> Iterator[ResourceClaimSpec]:
    """Yield what the claims ask for that are made for each copy of a pod."""
    for entry in pod.claims:
        template = snapshot.templates.get(ClaimRef(pod.metadata.namespace, entry.template_name or ""))
        if template is not None:
            yield template.spec


def _count_used(snapshot: ClusterSnapshot, quota: ResourceQuota) -> Counter[str]:
    used: Counter[str] = Counter()
    namespace = quota.metadata.namespace
    for pod in snapshot.pods.values():
        if pod.metadata.namespace == namespace and not pod.finished and _covers(quota.scopes, pod):
            used.update(count_pod(pod))
    if not quota.scopes:
        for claim in snapshot.claims.values():
            if claim.metadata.namespace == namespace:
                used.update(count_claim(claim.spec))
    return used


def count_claim(spec: ResourceClaimSpec) -> Mapping[str, int]:
    """Return what quotas count of a claim, in thousandths: of alternatives the worst of each class."""
    counted: Counter[str] = Counter({CLAIM_COUNT: 1000})
    for request in spec.requests:
        worst: dict[str, int] = {}
        for alternative in request.alternatives:
            worst[alternative.device_class] = max(worst.get(alternative.device_class, 0), _count_devices(alternative))
        counted.update({f"{name}{PER_CLASS}": 1000 * count for name, count in worst.items()})
    return counted


def _count_devices(request: SubRequest) -> int:
    if request.allocation_mode == "All":
        return ALLOCATION_RESULTS_MAX
    return request.count if request.allocation_mode == "ExactCount" else 0


def count_pod(pod: Pod) -> Mapping[str, int]:
    """Return what quotas count of a pod, in thousandths."""
    counted = Counter({"pods": 1000, "count/pods": 1000})
    for kind, amounts in (("requests", _sum_up(pod, "requests")), ("limits", _sum_up(pod, "limits"))):
        for name, amount in amounts.items():
            counted[f"{kind}.{name}"] = amount
            if kind == "requests" and name in _PLAIN:
                counted[name] = amount
    return counted


def _sum_up(pod: Pod, kind: str) -> dict[str, int]:
    """Add up requests or limits: the larger of what starts and what runs, unless the pod as a whole says otherwise."""
    running: Counter[str] = Counter()
    starting: Counter[str] = Counter()
    for container in pod.init_containers:
        if container.restart_policy == "Always":
            running.update(_amounts(container, kind))
        else:
            starting |= running + Counter(_amounts(container, kind))
    for container in pod.containers:
        running.update(_amounts(container, kind))
    overall = pod.requests if kind == "requests" else pod.limits
    return {**(running | starting), **{name: amount.milli_value() for name, amount in overall.items()}}


def _amounts(container: Container, kind: str) -> dict[str, int]:
    amounts = container.requests if kind == "requests" else container.limits
    return {name: amount.milli_value() for name, amount in amounts.items()}


def _covers(scopes: Iterable[QuotaScope], pod: Pod) -> bool:
    return all(_is_in_scope(scope, pod) for scope in scopes)


def _is_in_scope(scope: QuotaScope, pod: Pod) -> bool:
    """Tell whether a pod is in a scope; deadlines of pods are not known, so that none counts as terminating."""
    is_best_effort = not any(item.requests or item.limits for item in (*pod.containers, *pod.init_containers))
    match scope.name:
        case "NotTerminating":
            return True
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _matches_class(scope, pod.priority_class)
        case _:
            return False


def _matches_class(scope: QuotaScope, name: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in scope.values
        case _:
            return name not in scope.values
