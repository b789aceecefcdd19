"""scheduling.k8s.io/v1beta1 between JSON and the model: pod groups and the workloads that they are made from.

Parsing a PodGroup puts in the default of the API: its pods may be disrupted one by one.
Source: k8s.io/api v0.37.2 scheduling/v1beta1/types.go.
"""

from __future__ import annotations

from typing import Any, Final

from claimsmith.api.decode import Source, convert, to_json_value
from claimsmith.api.kinds import POD_GROUP, WORKLOAD
from claimsmith.api.metadata import encode_conditions, encode_metadata, parse_conditions, parse_metadata
from claimsmith.api.wire import scheduling_v1beta1 as wire
from claimsmith.model.podgroup import (
    CompositeTemplate,
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    Workload,
    WorkloadOwner,
    WorkloadTemplateRef,
)
from claimsmith.model.workload import PodClaim

__all__ = ["API_VERSION", "encode_pod_group", "encode_workload", "parse_pod_group", "parse_workload"]

API_VERSION: Final = POD_GROUP.api_version


def parse_pod_group(obj: Source, *, source: str = "") -> PodGroup:
    """Return the pod group that an object describes.

    Args:
        obj: Decoded JSON, JSON text, or the wire type.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, wire.PodGroup, _build_group, source=source, api_version=API_VERSION)


def parse_workload(obj: Source, *, source: str = "") -> Workload:
    """Return the workload that an object describes (see `parse_pod_group`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, wire.Workload, _build_workload, source=source, api_version=API_VERSION)


def _build_group(source: wire.PodGroup) -> PodGroup:
    spec, status = source.spec, source.status or wire.PodGroupStatus()
    reference = spec.workload_ref
    return PodGroup(
        metadata=parse_metadata(source.metadata),
        spec=_build_spec(spec, "single"),
        template=None
        if reference is None
        else WorkloadTemplateRef(workload=reference.workload_name, template=reference.template_name),
        parent=spec.parent_composite_pod_group_name or "",
        claim_names={entry.name: entry.resource_claim_name for entry in status.resource_claim_statuses or ()},
        conditions=parse_conditions(status.conditions),
    )


def _build_spec(source: wire.PodGroupSpec | wire.PodGroupTemplate, disruption_mode: str) -> PodGroupSpec:
    gang = source.scheduling_policy.gang
    return PodGroupSpec(
        min_count=None if gang is None else gang.min_count,
        topology_keys=_build_topology(source.scheduling_constraints),
        claims=tuple(
            PodClaim(
                name=entry.name,
                claim_name=entry.resource_claim_name,
                template_name=entry.resource_claim_template_name,
            )
            for entry in source.resource_claims or ()
        ),
        disruption_mode=_build_mode(source.disruption_mode) or disruption_mode,
        priority_class=source.priority_class_name or "",
        priority=source.priority,
        preemption_policy=source.preemption_policy or "",
    )


def _build_topology(
    source: wire.PodGroupSchedulingConstraints | wire.CompositePodGroupSchedulingConstraints | None,
) -> tuple[str, ...]:
    return tuple(entry.key for entry in (source.topology if source is not None else None) or ())


def _build_mode(source: wire.DisruptionMode | wire.CompositeDisruptionMode | None) -> str:
    if source is None:
        return ""
    return "all" if source.all is not None else "single" if source.single is not None else ""


def _build_workload(source: wire.Workload) -> Workload:
    spec = source.spec
    owner = spec.controller_ref
    return Workload(
        metadata=parse_metadata(source.metadata),
        owner=None
        if owner is None
        else WorkloadOwner(kind=owner.kind, name=owner.name, api_group=owner.api_group or ""),
        groups=_build_templates(spec.pod_group_templates),
        composites=_build_composites(spec.composite_pod_group_templates),
    )


def _build_templates(source: list[wire.PodGroupTemplate] | None) -> tuple[PodGroupTemplate, ...]:
    return tuple(PodGroupTemplate(name=entry.name, spec=_build_spec(entry, "")) for entry in source or ())


def _build_composites(source: list[wire.CompositePodGroupTemplate] | None) -> tuple[CompositeTemplate, ...]:
    return tuple(_build_composite(entry) for entry in source or ())


def _build_composite(source: wire.CompositePodGroupTemplate) -> CompositeTemplate:
    gang = source.scheduling_policy.gang
    return CompositeTemplate(
        name=source.name,
        min_group_count=None if gang is None else gang.min_group_count,
        topology_keys=_build_topology(source.scheduling_constraints),
        groups=_build_templates(source.pod_group_templates),
        composites=_build_composites(source.composite_pod_group_templates),
        disruption_mode=_build_mode(source.disruption_mode),
        priority_class=source.priority_class_name or "",
        priority=source.priority,
        preemption_policy=source.preemption_policy or "",
    )


def encode_pod_group(value: PodGroup) -> dict[str, Any]:
    """Return a pod group as JSON; without a status when nothing of it is set."""
    reference = value.template
    spec = wire.PodGroupSpec(
        workload_ref=None
        if reference is None
        else wire.WorkloadReference(workload_name=reference.workload, template_name=reference.template),
        parent_composite_pod_group_name=value.parent or None,
        **_encode_spec(value.spec),
    )
    status = wire.PodGroupStatus(
        conditions=encode_conditions(value.conditions),
        resource_claim_statuses=[
            wire.PodGroupResourceClaimStatus(name=name, resource_claim_name=claim)
            for name, claim in value.claim_names.items()
        ]
        or None,
    )
    return to_json_value(
        wire.PodGroup(
            api_version=API_VERSION,
            kind=POD_GROUP.kind,
            metadata=encode_metadata(value.metadata),
            spec=spec,
            status=status if status != wire.PodGroupStatus() else None,
        )
    )


def _encode_spec(value: PodGroupSpec) -> dict[str, Any]:
    """Return the fields that a group and a template share."""
    if value.min_count is None:
        policy = wire.PodGroupSchedulingPolicy(basic=wire.BasicSchedulingPolicy())
    else:
        policy = wire.PodGroupSchedulingPolicy(gang=wire.GangSchedulingPolicy(min_count=value.min_count))
    topology = _encode_topology(value.topology_keys)
    return {
        "scheduling_policy": policy,
        "scheduling_constraints": wire.PodGroupSchedulingConstraints(topology=topology) if topology else None,
        "resource_claims": [
            wire.PodGroupResourceClaim(
                name=entry.name,
                resource_claim_name=entry.claim_name,
                resource_claim_template_name=entry.template_name,
            )
            for entry in value.claims
        ]
        or None,
        "disruption_mode": _encode_mode(value.disruption_mode),
        "priority_class_name": value.priority_class or None,
        "priority": value.priority,
        "preemption_policy": value.preemption_policy or None,
    }


def _encode_topology(keys: tuple[str, ...]) -> list[wire.TopologyConstraint]:
    return [wire.TopologyConstraint(key=key) for key in keys]


def _encode_mode(mode: str) -> wire.DisruptionMode | None:
    if mode == "all":
        return wire.DisruptionMode(all=wire.AllDisruptionMode())
    return wire.DisruptionMode(single=wire.SingleDisruptionMode()) if mode else None


def encode_workload(value: Workload) -> dict[str, Any]:
    """Return a workload as JSON."""
    owner = value.owner
    spec = wire.WorkloadSpec(
        controller_ref=None
        if owner is None
        else wire.TypedLocalObjectReference(kind=owner.kind, name=owner.name, api_group=owner.api_group or None),
        pod_group_templates=_encode_templates(value.groups),
        composite_pod_group_templates=_encode_composites(value.composites),
    )
    return to_json_value(
        wire.Workload(api_version=API_VERSION, kind=WORKLOAD.kind, metadata=encode_metadata(value.metadata), spec=spec)
    )


def _encode_templates(values: tuple[PodGroupTemplate, ...]) -> list[wire.PodGroupTemplate] | None:
    return [wire.PodGroupTemplate(name=entry.name, **_encode_spec(entry.spec)) for entry in values] or None


def _encode_composites(values: tuple[CompositeTemplate, ...]) -> list[wire.CompositePodGroupTemplate] | None:
    return [_encode_composite(entry) for entry in values] or None


def _encode_composite(value: CompositeTemplate) -> wire.CompositePodGroupTemplate:
    least = value.min_group_count
    policy = wire.CompositePodGroupSchedulingPolicy(
        basic=wire.CompositeBasicSchedulingPolicy() if least is None else None,
        gang=None if least is None else wire.CompositeGangSchedulingPolicy(min_group_count=least),
    )
    topology = _encode_topology(value.topology_keys)
    return wire.CompositePodGroupTemplate(
        name=value.name,
        scheduling_policy=policy,
        scheduling_constraints=wire.CompositePodGroupSchedulingConstraints(topology=topology) if topology else None,
        pod_group_templates=_encode_templates(value.groups),
        composite_pod_group_templates=_encode_composites(value.composites),
        disruption_mode=_encode_composite_mode(value.disruption_mode),
        priority_class_name=value.priority_class or None,
        priority=value.priority,
        preemption_policy=value.preemption_policy or None,
    )


def _encode_composite_mode(mode: str) -> wire.CompositeDisruptionMode | None:
    if mode == "all":
        return wire.CompositeDisruptionMode(all=wire.AllCompositeDisruptionMode())
    return wire.CompositeDisruptionMode(single=wire.SingleCompositeDisruptionMode()) if mode else None
