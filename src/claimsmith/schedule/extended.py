"""Extended resources served by devices: from a container's `nvidia.com/gpu: 1` to requests of a claim. Pure.

Source: extendeddynamicresources.go and extendedresourcecache in kubernetes v1.37.2; KEP-5004.

Deviates: special-claim, two-classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from claimsmith.model.claim import DeviceClass, DeviceRequest, ResourceClaim, ResourceClaimSpec, SubRequest
from claimsmith.model.decision import Reason
from claimsmith.model.metadata import Metadata, OwnerReference
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.quantity import Quantity
from claimsmith.model.workload import Container, ExtendedResourceMapping, Pod

__all__ = [
    "EXTENDED_CLAIM_ANNOTATION",
    "IMPLICIT_PREFIX",
    "SPECIAL_NAME",
    "ExtendedPlan",
    "Served",
    "SpecialClaims",
    "find_claim_reasons",
    "find_extended_names",
    "find_served",
    "is_extended_claim",
    "plan_class_names",
    "plan_extended",
    "plan_served",
]

EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""With a class name behind it, an extended resource that every class offers."""

SPECIAL_NAME: Final = "<extended-resources>"
"""Name of the special claim before it is created: one that no object can have."""

_NATIVE_DOMAIN: Final = "kubernetes.io/"
_ZERO: Final = Quantity.from_int(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedPlan:
    """What the extended resources of a pod mean on one node.

    Args:
        claim: The special claim that the pod needs there, still to be created; None when devices serve nothing.
        mappings: Which request of the claim serves which resource of which container.
        unknown: Resources that neither the node nor a class offers: the pod does not fit.
    """

    claim: ResourceClaim | None = None
    mappings: tuple[ExtendedResourceMapping, ...] = ()
    unknown: tuple[str, ...] = ()


def plan_class_names(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class that serves each extended resource; of several the youngest, then the first by name."""
    names: dict[str, str] = {}
    ordered = sorted(classes, key=lambda item: item.name, reverse=True)
    ordered.sort(key=lambda item: item.metadata.creation_timestamp or "")
    for item in ordered:
        names[IMPLICIT_PREFIX + item.name] = item.name
    for item in ordered:
        if item.extended_resource_name:
            names[item.extended_resource_name] = item.name
    return names


def find_extended_names(pod: Pod) -> tuple[str, ...]:
    """Return the extended resources that the pod asks for, in order of name."""
    containers = (*pod.init_containers, *pod.containers)
    return tuple(
        sorted({name for item in containers for name, amount in _requests(item).items() if _counts(name, amount)})
    )


def is_extended_claim(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether a claim is the special claim of the pod."""
    return claim.metadata.annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true" and any(
        owner.uid == pod.uid and owner.controller for owner in claim.metadata.owner_references
    )


class SpecialClaims:
    """The special claims that exist, by the pod that they were made for."""

    def __init__(self) -> None:
        self._by_pod: dict[str, dict[ClaimRef, ResourceClaim]] = {}

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take in a change of a claim."""
        if old is not None and (uid := _find_user(old)):
            claims = self._by_pod.get(uid, {})
            claims.pop(old.ref, None)
            if not claims:
                self._by_pod.pop(uid, None)
        if new is not None and (uid := _find_user(new)):
            self._by_pod.setdefault(uid, {})[new.ref] = new

    def find(self, pod: Pod) -> ResourceClaim | None:
        """Return the special claim of a pod: the one that its status names, else any; None when there is none."""
        claims = self._by_pod.get(pod.uid, {})
        named = claims.get(ClaimRef(pod.metadata.namespace, pod.extended_claim_name))
        return named or next(iter(claims.values()), None)


def _find_user(claim: ResourceClaim) -> str:
    if claim.metadata.annotations.get(EXTENDED_CLAIM_ANNOTATION) != "true":
        return ""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), "")


def find_claim_reasons(pod: Pod, plan: ExtendedPlan, present: ResourceClaim | None, node: str) -> tuple[Reason, ...]:
    """Return why a node can't serve the pod's extended resources; empty when it can.

    A node where nothing is served by devices can't take a pod whose status names a special claim: its kubelet would
    wait for that claim, and the API server lets nobody take the name back.

    Args:
        pod: The pod.
        plan: What its extended resources mean on the node.
        present: The special claim that an earlier attempt made; None for none.
        node: Name of the node.

    Source: filterExtendedResources in extendeddynamicresources.go; podStatusStrategy in kubernetes v1.37.2
    pkg/registry/core/pod/strategy.go.
    """
    reasons = [
        Reason(kind="resources", node=node, text=f"neither the node nor a device class offers {name}")
        for name in plan.unknown
    ]
    if present is not None and (plan.claim is None or present.spec.requests != plan.claim.spec.requests):
        text = f"claim {present.ref} of an earlier attempt asks for something else than this node needs"
        reasons.append(Reason(kind="node", node=node, text=text))
    elif plan.claim is None and pod.extended_claim_name and not plan.unknown:
        text = f"the pod's status names the claim {pod.extended_claim_name!r}, which this node does not need"
        reasons.append(Reason(kind="node", node=node, text=text))
    return tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Who serves the extended resources of a pod on one node; what the node offers itself is in neither list.

    Args:
        by_devices: Resources that devices of a class serve, in order of name.
        unknown: Resources that neither the node nor a class offers.
    """

    by_devices: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def find_served(names: Iterable[str], node: Node, class_names: Mapping[str, str | None]) -> Served:
    """Return who serves extended resources on a node.

    What the node offers itself (through a device plugin) is not served by devices of a claim.

    Args:
        names: The resources, in order of name.
        node: The node.
        class_names: The class of each; None, or left out: no class offers it.
    """
    missing = [name for name in names if not node.allocatable.get(name, _ZERO) > _ZERO]
    return Served(
        by_devices=tuple(name for name in missing if class_names.get(name) is not None),
        unknown=tuple(name for name in missing if class_names.get(name) is None),
    )


def plan_extended(pod: Pod, node: Node, class_names: Mapping[str, str | None]) -> ExtendedPlan:
    """Return what serves the pod's extended resources on a node.

    Args:
        pod: The pod.
        node: The node.
        class_names: As `plan_class_names` returns it.
    """
    return plan_served(pod, find_served(find_extended_names(pod), node, class_names), class_names)


def plan_served(pod: Pod, served: Served, class_names: Mapping[str, str | None]) -> ExtendedPlan:
    """Return the special claim that a pod needs where devices serve some of its extended resources."""
    if served.unknown or not served.by_devices:
        return ExtendedPlan(unknown=served.unknown)
    requests: list[DeviceRequest] = []
    mappings: list[ExtendedResourceMapping] = []
    for name in served.by_devices:
        _plan_resource(pod, name, class_names[name] or "", (requests, mappings))
    requests.sort(key=lambda item: item.name)
    return ExtendedPlan(claim=_build_claim(pod, requests), mappings=tuple(mappings))


def _plan_resource(
    pod: Pod,
    name: str,
    class_name: str,
    into: tuple[list[DeviceRequest], list[ExtendedResourceMapping]],
) -> None:
    """Add the requests and mappings of one resource.

    Containers that stay get requests of their own. Init containers that end use the devices of containers that start
    later, and one shared request for what they need beyond that.
    """
    containers = (*pod.init_containers, *pod.containers)
    staying: list[DeviceRequest | None] = []
    long_mappings: list[ExtendedResourceMapping] = []
    for index, container in enumerate(containers):
        count = 0 if _ends(pod, index) else _count(container, name)
        request = _build_request(index, container, name, class_name, count) if count else None
        staying.append(request)
        if request is not None:
            long_mappings.append(ExtendedResourceMapping(container=container.name, resource=name, request=request.name))
    short = [
        _ShortNeed.plan(index, containers, name, staying[index:])
        for index in range(len(containers))
        if _ends(pod, index)
    ]
    most = max((need for need in short if need.extra), key=lambda need: need.extra, default=None)
    if most is not None:
        into[0].append(_build_request(most.index, containers[most.index], name, class_name, most.extra))
    into[0].extend(request for request in staying if request is not None)
    into[1].extend(long_mappings)
    for need in short:
        into[1].extend(
            ExtendedResourceMapping(container=containers[need.index].name, resource=name, request=used)
            for used in need.used
        )
        if need.extra and most is not None:
            shared = _request_name(most.index, containers[most.index], name)
            into[1].append(
                ExtendedResourceMapping(container=containers[need.index].name, resource=name, request=shared)
            )


@dataclass(frozen=True, slots=True)
class _ShortNeed:
    """What an init container that ends needs: devices of later containers, and how many beyond those."""

    index: int
    used: tuple[str, ...]
    extra: int

    @classmethod
    def plan(
        cls, index: int, containers: Sequence[Container], name: str, later: Iterable[DeviceRequest | None]
    ) -> _ShortNeed:
        left, used = _count(containers[index], name), []
        for request in later:
            if left <= 0:
                break
            if request is not None and request.exactly is not None:
                used.append(request.name)
                left -= request.exactly.count
        return cls(index, tuple(used), max(0, left))


def _ends(pod: Pod, index: int) -> bool:
    return index < len(pod.init_containers) and pod.init_containers[index].restart_policy != "Always"


def _requests(container: Container) -> dict[str, Quantity]:
    """Requests of a container; an extended resource may stand in its limits alone."""
    return {**container.limits, **container.requests}


def _count(container: Container, name: str) -> int:
    amount = _requests(container).get(name)
    return 0 if amount is None else amount.value()


def _counts(name: str, amount: Quantity) -> bool:
    """Whether a resource is an extended one and wanted at all. Source: IsExtendedResourceName in core/v1/helper."""
    if amount <= _ZERO or "/" not in name or name.startswith("requests."):
        return False
    return name.startswith(IMPLICIT_PREFIX) or _NATIVE_DOMAIN not in name


def _request_name(index: int, container: Container, name: str) -> str:
    return f"container-{index}-request-{sorted(_requests(container)).index(name)}"


def _build_request(index: int, container: Container, name: str, class_name: str, count: int) -> DeviceRequest:
    exactly = SubRequest(device_class=class_name, count=count)
    return DeviceRequest(name=_request_name(index, container, name), exactly=exactly)


def _build_claim(pod: Pod, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.uid, controller=True)
    metadata = Metadata(
        name=SPECIAL_NAME,
        namespace=pod.metadata.namespace,
        generate_name=f"{pod.metadata.name}-extended-resources-",
        annotations={EXTENDED_CLAIM_ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=ResourceClaimSpec(requests=tuple(requests)))
