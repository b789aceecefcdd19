"""Rules of pods that users meet first: containers, claims, and what may change.

Source: ValidatePod, ValidatePodUpdate in k8s.io/kubernetes v1.37.2 pkg/apis/core/validation/validation.go; the many
rules of volumes, probes and security contexts are left to a real API server.

Deviates: pod-rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from claimsmith.api.metadata import read_quantity
from claimsmith.api.wire.core_container import Container, ResourceRequirements
from claimsmith.api.wire.core_pod import Pod, PodResourceClaim, PodSchedulingGroup, PodSpec
from claimsmith.validate.issues import (
    FieldIssue,
    duplicate,
    find_duplicates,
    forbidden,
    invalid,
    not_supported,
    required,
)
from claimsmith.validate.names import check_dns_label, check_label_key, check_subdomain
from claimsmith.validate.selection import check_node_selector

__all__ = ["check_pod", "check_pod_spec", "check_pod_update"]

_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_SECONDS_MAX: Final = 2**31 - 1
_OVERCOMMIT: Final = ("cpu", "memory", "ephemeral-storage")
_MUTABLE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod_spec(spec: PodSpec, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a new pod."""
    claims = spec.resource_claims or []
    for i, claim in enumerate(claims):
        yield from _check_claim(claim, f"{path}.resourceClaims[{i}]")
    yield from find_duplicates((claim.name for claim in claims), f"{path}.resourceClaims")
    if not spec.containers:
        yield required(f"{path}.containers")
    names = {claim.name for claim in claims}
    seen: set[str] = set()
    for kind, containers in (("initContainers", spec.init_containers or []), ("containers", spec.containers)):
        for i, container in enumerate(containers):
            where = f"{path}.{kind}[{i}]"
            yield from _check_container(container, where, names)
            if container.name in seen:
                yield duplicate(f"{where}.name", container.name)
            seen.add(container.name)
    if spec.scheduling_group is not None:
        yield from _check_group(spec.scheduling_group, f"{path}.schedulingGroup.podGroupName")
    if spec.restart_policy is not None and spec.restart_policy not in _RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", spec.restart_policy, _RESTART_POLICIES)
    yield from _check_placement(spec, path)


def _check_placement(spec: PodSpec, path: str) -> Iterator[FieldIssue]:
    gates = spec.scheduling_gates or []
    for i, gate in enumerate(gates):
        yield from check_label_key(gate.name, f"{path}.schedulingGates[{i}]")
    yield from find_duplicates((gate.name for gate in gates), f"{path}.schedulingGates")
    if spec.node_name:
        yield from check_subdomain(spec.node_name, f"{path}.nodeName")
        if gates:
            yield forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
    for key in spec.node_selector or {}:
        yield from check_label_key(key, f"{path}.nodeSelector")
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if node_affinity is not None and node_affinity.required_during_scheduling_ignored_during_execution is not None:
        where = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        yield from check_node_selector(node_affinity.required_during_scheduling_ignored_during_execution, where)


def _check_group(group: PodSchedulingGroup, path: str) -> Iterator[FieldIssue]:
    if group.pod_group_name is None:
        yield invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from check_subdomain(group.pod_group_name, path)


def _check_claim(claim: PodResourceClaim, path: str) -> Iterator[FieldIssue]:
    if claim.name:
        yield from check_dns_label(claim.name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    name, template = claim.resource_claim_name, claim.resource_claim_template_name
    rule = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    if name is None and template is None:
        yield invalid(path, claim.name, rule)
    elif name is not None and template is not None:
        yield invalid(
            path, claim.name, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        )
    for field, value in (("resourceClaimName", name), ("resourceClaimTemplateName", template)):
        if value is not None:
            yield from check_subdomain(value, f"{path}.{field}")


def _check_container(container: Container, path: str, claims: set[str]) -> Iterator[FieldIssue]:
    if container.name:
        yield from check_dns_label(container.name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    if not container.image:
        yield required(f"{path}.image")
    if container.resources is not None:
        yield from _check_resources(container.resources, f"{path}.resources", claims)


def _check_resources(resources: ResourceRequirements, path: str, claims: set[str]) -> Iterator[FieldIssue]:
    limits = {name: read_quantity(amount) for name, amount in (resources.limits or {}).items()}
    requests = {name: read_quantity(amount) for name, amount in (resources.requests or {}).items()}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from check_label_key(name, f"{path}.{field}[{name}]")
            if amount.sign < 0:
                yield invalid(f"{path}.{field}[{name}]", str(amount), "must be greater than or equal to 0")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and amount > limit:
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests", str(amount), why)
        elif limit != amount and not (name in _OVERCOMMIT or "/" not in name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    seen: set[tuple[str, str]] = set()
    for i, entry in enumerate(resources.claims or ()):
        if entry.name not in claims:
            yield FieldIssue(type="NotFound", path=f"{path}.claims[{i}]", value=entry.name)
        key = (entry.name, entry.request or "")
        if key in seen or (entry.request and (entry.name, "") in seen):
            yield duplicate(f"{path}.claims[{i}]", "/".join(filter(None, key)))
        seen.add(key)


def check_pod_update(new: PodSpec, old: PodSpec, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a change of a pod's spec: little may change after creation."""
    if not new.containers:
        yield required(f"{path}.containers")
    for name, after, before in (
        ("containers", new.containers, old.containers),
        ("initContainers", new.init_containers or [], old.init_containers or []),
    ):
        if len(after) != len(before):
            yield forbidden(f"{path}.{name}", "pod updates may not add or remove containers")
            return
        for i, container in enumerate(after):
            yield from _check_image(container.image or "", f"{path}.{name}[{i}].image")
    deadline = _find_deadline_issue(new.active_deadline_seconds, old.active_deadline_seconds, path)
    if deadline is not None:
        yield deadline
        if new.active_deadline_seconds is not None:
            return
    yield from _check_rest_of_update(new, old, path)


def _check_image(image: str, path: str) -> Iterator[FieldIssue]:
    if not image:
        yield required(path)
    elif image.strip() != image:
        yield invalid(path, image, "must not have leading or trailing whitespace")


def _find_deadline_issue(new: int | None, old: int | None, path: str) -> FieldIssue | None:
    """Return what is wrong with a new deadline: it may come, and come nearer."""
    where = f"{path}.activeDeadlineSeconds"
    if new is None:
        return None if old is None else invalid(where, None, "must not update from a positive integer to nil value")
    if not 0 <= new <= _SECONDS_MAX:
        return invalid(where, new, f"must be between 0 and {_SECONDS_MAX}, inclusive")
    if old is not None and old < new:
        return invalid(where, new, "must be less than or equal to previous value")
    return None


def _check_rest_of_update(new: PodSpec, old: PodSpec, path: str) -> Iterator[FieldIssue]:
    gates_before = {gate.name for gate in old.scheduling_gates or ()}
    for i, gate in enumerate(new.scheduling_gates or ()):
        if gate.name not in gates_before:
            yield forbidden(
                f"{path}.schedulingGates[{i}].name", "only deletion is allowed, but found new scheduling gate"
            )
    if not _keeps_prefix(old.tolerations or [], new.tolerations or []):
        yield forbidden(f"{path}.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if _frozen_part(new, old, gated=bool(gates_before)) != _frozen_part(old, old, gated=bool(gates_before)):
        yield forbidden(path, _MUTABLE_RULE)


def _keeps_prefix(old: list[Any], new: list[Any]) -> bool:
    """Tell whether every toleration is still there, whatever its seconds."""

    def key(entry: Any) -> tuple[str, ...]:
        return (entry.key or "", entry.operator or "Equal", entry.value or "", entry.effect or "")

    return {key(entry) for entry in old} <= {key(entry) for entry in new}


def _frozen_part(spec: PodSpec, old: PodSpec, *, gated: bool) -> object:
    """Return what of a spec may not change; a gated pod may still be narrowed to fewer nodes."""
    plain = msgspec.to_builtins(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        plain.pop(name, None)
    if (old.termination_grace_period_seconds or 0) < 0 and spec.termination_grace_period_seconds == 1:
        plain["terminationGracePeriodSeconds"] = old.termination_grace_period_seconds
    if gated:
        plain.pop("nodeSelector", None)
        plain.pop("affinity", None)
    for name in ("containers", "initContainers"):
        for container in plain.get(name) or ():
            container.pop("image", None)
    return plain


def check_pod(pod: Pod) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a pod; an absent one has no containers."""
    yield from check_pod_spec(pod.spec or PodSpec(), "spec")
