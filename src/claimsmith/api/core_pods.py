"""core/v1 Pod between JSON and the model, with the API's defaults put in."""

from __future__ import annotations

from typing import Any

from claimsmith.api.decode import Source, convert, to_json_value
from claimsmith.api.metadata import (
    encode_metadata,
    encode_node_selector,
    encode_quantities,
    parse_metadata,
    parse_node_selector,
    parse_quantities,
    read_quantity,
)
from claimsmith.api.wire import core_container, core_pod, core_pod_status, core_selection
from claimsmith.model.topology import NodeSelector
from claimsmith.model.workload import (
    Container,
    ContainerClaim,
    ExtendedResourceMapping,
    NodeAllocatableClaim,
    NodeAllocatableOverhead,
    Pod,
    PodClaim,
    PodToleration,
)

__all__ = ["encode_node_allocatable", "encode_pod", "parse_pod"]


def parse_pod(obj: Source, *, source: str = "") -> Pod:
    """Return the pod that an object describes.

    Defaults of the API are put in: scheduler name, restart policy, phase, requests that only have a limit.

    Args:
        obj: Decoded JSON, JSON text, or the wire type.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.

    Source: pkg/apis/core/v1/defaults.go in k8s.io/kubernetes v1.37.2.
    """
    return convert(obj, core_pod.Pod, _build_pod, source=source, api_version="v1")


def _build_pod(wire: core_pod.Pod) -> Pod:
    spec = wire.spec or core_pod.PodSpec()
    status = wire.status or core_pod_status.PodStatus()
    extended = status.extended_resource_claim_status
    return Pod(
        metadata=parse_metadata(wire.metadata),
        containers=tuple(_build_container(entry) for entry in spec.containers),
        init_containers=tuple(_build_container(entry) for entry in spec.init_containers or ()),
        claims=tuple(_build_claim(entry) for entry in spec.resource_claims or ()),
        node_name=spec.node_name or "",
        scheduler_name=spec.scheduler_name or "default-scheduler",
        scheduling_gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        node_selector=spec.node_selector or {},
        node_affinity=_build_affinity(spec.affinity),
        tolerations=tuple(_build_toleration(entry) for entry in spec.tolerations or ()),
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name or "",
        preemption_policy=spec.preemption_policy or "",
        overhead=parse_quantities(spec.overhead),
        requests=parse_quantities(spec.resources.requests) if spec.resources is not None else {},
        limits=parse_quantities(spec.resources.limits) if spec.resources is not None else {},
        restart_policy=spec.restart_policy or "Always",
        phase=status.phase or "Pending",
        claim_names={entry.name: entry.resource_claim_name for entry in status.resource_claim_statuses or ()},
        extended_claim_name=extended.resource_claim_name if extended is not None else "",
        extended_mappings=()
        if extended is None
        else tuple(_build_mapping(entry) for entry in extended.request_mappings),
        node_allocatable=tuple(
            _build_node_allocatable(entry) for entry in status.node_allocatable_resource_claim_statuses or ()
        ),
        pod_group=(spec.scheduling_group.pod_group_name or "") if spec.scheduling_group is not None else "",
    )


def _build_node_allocatable(wire: core_pod_status.NodeAllocatableResourceClaimStatus) -> NodeAllocatableClaim:
    return NodeAllocatableClaim(
        claim=wire.resource_claim_name,
        containers=tuple(wire.containers or ()),
        mapping=parse_quantities({entry.name: entry.quantity for entry in wire.mapping or ()}),
        overhead={entry.name: _build_overhead(entry) for entry in wire.overhead or ()},
    )


def _build_overhead(wire: core_pod_status.NodeAllocatableOverheadResources) -> NodeAllocatableOverhead:
    return NodeAllocatableOverhead(
        per_pod=None if wire.per_pod is None else read_quantity(wire.per_pod),
        per_container=None if wire.per_container is None else read_quantity(wire.per_container),
    )


def _build_container(wire: core_container.Container) -> Container:
    resources = wire.resources or core_container.ResourceRequirements()
    limits = parse_quantities(resources.limits)
    return Container(
        name=wire.name,
        image=wire.image or "",
        requests={**limits, **parse_quantities(resources.requests)},
        limits=limits,
        claims=tuple(ContainerClaim(name=entry.name, request=entry.request or "") for entry in resources.claims or ()),
        env={entry.name: entry.value or "" for entry in wire.env or () if entry.value_from is None},
        restart_policy=wire.restart_policy or "",
    )


def _build_claim(wire: core_pod.PodResourceClaim) -> PodClaim:
    return PodClaim(
        name=wire.name, claim_name=wire.resource_claim_name, template_name=wire.resource_claim_template_name
    )


def _build_affinity(wire: core_selection.Affinity | None) -> NodeSelector | None:
    node_affinity = wire.node_affinity if wire is not None else None
    if node_affinity is None or node_affinity.required_during_scheduling_ignored_during_execution is None:
        return None
    return parse_node_selector(node_affinity.required_during_scheduling_ignored_during_execution)


def _build_toleration(wire: core_selection.Toleration) -> PodToleration:
    return PodToleration(
        key=wire.key or "",
        operator=wire.operator or "Equal",
        value=wire.value or "",
        effect=wire.effect or "",
        toleration_seconds=wire.toleration_seconds,
    )


def _build_mapping(wire: core_pod_status.ContainerExtendedResourceRequest) -> ExtendedResourceMapping:
    return ExtendedResourceMapping(
        container=wire.container_name, resource=wire.resource_name, request=wire.request_name
    )


def encode_pod(value: Pod) -> dict[str, Any]:
    """Return a pod as JSON, with what the model knows of it. Never PUT it over a pod that has more."""
    return to_json_value(
        core_pod.Pod(
            api_version="v1",
            kind="Pod",
            metadata=encode_metadata(value.metadata),
            spec=_encode_spec(value),
            status=_encode_status(value),
        )
    )


def _encode_spec(value: Pod) -> core_pod.PodSpec:
    group = core_pod.PodSchedulingGroup(pod_group_name=value.pod_group) if value.pod_group else None
    resources = None
    if value.requests or value.limits:
        resources = core_container.ResourceRequirements(
            requests=encode_quantities(value.requests) or None, limits=encode_quantities(value.limits) or None
        )
    return core_pod.PodSpec(
        containers=[_encode_container(entry) for entry in value.containers],
        init_containers=[_encode_container(entry) for entry in value.init_containers] or None,
        resource_claims=[
            core_pod.PodResourceClaim(
                name=entry.name,
                resource_claim_name=entry.claim_name,
                resource_claim_template_name=entry.template_name,
            )
            for entry in value.claims
        ]
        or None,
        node_name=value.node_name or None,
        scheduler_name=value.scheduler_name,
        scheduling_gates=[core_pod.PodSchedulingGate(name=name) for name in value.scheduling_gates] or None,
        node_selector=dict(value.node_selector) or None,
        affinity=_encode_affinity(value.node_affinity),
        tolerations=[_encode_toleration(entry) for entry in value.tolerations] or None,
        priority=value.priority or None,
        priority_class_name=value.priority_class or None,
        preemption_policy=value.preemption_policy or None,
        overhead=encode_quantities(value.overhead) or None,
        resources=resources,
        restart_policy=value.restart_policy,
        scheduling_group=group,
    )


def _encode_container(value: Container) -> core_container.Container:
    resources = core_container.ResourceRequirements(
        requests=encode_quantities(value.requests) or None,
        limits=encode_quantities(value.limits) or None,
        claims=[
            core_container.ContainerResourceClaim(name=entry.name, request=entry.request or None)
            for entry in value.claims
        ]
        or None,
    )
    return core_container.Container(
        name=value.name,
        image=value.image or None,
        resources=resources if resources != core_container.ResourceRequirements() else None,
        env=[core_container.EnvVar(name=name, value=text) for name, text in value.env.items()] or None,
        restart_policy=value.restart_policy or None,
    )


def _encode_affinity(value: NodeSelector | None) -> core_selection.Affinity | None:
    if value is None:
        return None
    node_affinity = core_selection.NodeAffinity(
        required_during_scheduling_ignored_during_execution=encode_node_selector(value)
    )
    return core_selection.Affinity(node_affinity=node_affinity)


def _encode_toleration(value: PodToleration) -> core_selection.Toleration:
    return core_selection.Toleration(
        key=value.key or None,
        operator=value.operator,
        value=value.value or None,
        effect=value.effect or None,
        toleration_seconds=value.toleration_seconds,
    )


def _encode_status(value: Pod) -> core_pod_status.PodStatus:
    extended = None
    if value.extended_claim_name or value.extended_mappings:
        extended = core_pod_status.PodExtendedResourceClaimStatus(
            resource_claim_name=value.extended_claim_name,
            request_mappings=[
                core_pod_status.ContainerExtendedResourceRequest(
                    container_name=entry.container, resource_name=entry.resource, request_name=entry.request
                )
                for entry in value.extended_mappings
            ],
        )
    allocatable = [_encode_allocatable(entry) for entry in value.node_allocatable]
    return core_pod_status.PodStatus(
        phase=value.phase,
        node_allocatable_resource_claim_statuses=allocatable or None,
        resource_claim_statuses=[
            core_pod_status.PodResourceClaimStatus(name=name, resource_claim_name=claim)
            for name, claim in value.claim_names.items()
        ]
        or None,
        extended_resource_claim_status=extended,
    )


def encode_node_allocatable(value: NodeAllocatableClaim) -> dict[str, Any]:
    """Return an entry of `status.nodeAllocatableResourceClaimStatuses` as JSON, sorted by resource name."""
    return to_json_value(_encode_allocatable(value))


def _encode_allocatable(value: NodeAllocatableClaim) -> core_pod_status.NodeAllocatableResourceClaimStatus:
    return core_pod_status.NodeAllocatableResourceClaimStatus(
        resource_claim_name=value.claim,
        containers=list(value.containers) or None,
        mapping=[
            core_pod_status.NodeAllocatableMappedResources(name=name, quantity=amount)
            for name, amount in sorted(encode_quantities(value.mapping).items())
        ]
        or None,
        overhead=[_encode_overhead(name, entry) for name, entry in sorted(value.overhead.items())] or None,
    )


def _encode_overhead(name: str, value: NodeAllocatableOverhead) -> core_pod_status.NodeAllocatableOverheadResources:
    return core_pod_status.NodeAllocatableOverheadResources(
        name=name,
        per_pod=None if value.per_pod is None else str(value.per_pod),
        per_container=None if value.per_container is None else str(value.per_container),
    )
