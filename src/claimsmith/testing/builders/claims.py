"""Builders of claims, classes and what they got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypedDict, Unpack

from claimsmith.model.claim import (
    FINALIZER,
    AllocationConfig,
    AllocationResult,
    ConsumerReference,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DeviceResult,
    OpaqueConfig,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    Selector,
    SubRequest,
)
from claimsmith.model.device import DeviceToleration
from claimsmith.model.metadata import Metadata, OwnerReference
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders.devices import DRIVER, NODE, Amount, device_id, quantities

__all__ = [
    "CLASS",
    "NAMESPACE",
    "MetadataFields",
    "allocated",
    "alternatives",
    "claim",
    "claim_ref",
    "distinct",
    "klass",
    "match",
    "metadata",
    "opaque",
    "request",
    "result",
    "sub",
    "template",
]

CLASS: Final = "gpu"
"""Device class of all builders."""
NAMESPACE: Final = "default"
"""Namespace of all builders."""


class RequestFields(TypedDict, total=False):
    """Fields of a request that `request` and `sub` take by name."""

    allocation_mode: str
    admin_access: bool | None
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Amount] | None


class MetadataFields(TypedDict, total=False):
    """Fields of an object's metadata that a builder takes by name."""

    namespace: str
    generate_name: str
    uid: str
    resource_version: str
    generation: int
    creation_timestamp: str | None
    deletion_timestamp: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    owner_references: tuple[OwnerReference, ...]


def sub(
    name: str,
    *selectors: str,
    klass: str = CLASS,
    count: int = 1,
    **fields: Unpack[RequestFields],
) -> SubRequest:
    """Return one alternative of a request; selectors are CEL expressions."""
    return SubRequest(
        name=name,
        device_class=klass,
        selectors=tuple(Selector(expression=text) for text in selectors),
        count=count,
        allocation_mode=fields.get("allocation_mode", "ExactCount"),
        admin_access=fields.get("admin_access"),
        tolerations=fields.get("tolerations", ()),
        capacity=None if (amounts := fields.get("capacity")) is None else quantities(amounts),
    )


def request(
    name: str = "r", *selectors: str, klass: str = CLASS, count: int = 1, **fields: Unpack[RequestFields]
) -> DeviceRequest:
    """Return a request for exactly this; selectors are CEL expressions."""
    return DeviceRequest(name=name, exactly=sub("", *selectors, klass=klass, count=count, **fields))


def alternatives(name: str, *choices: SubRequest) -> DeviceRequest:
    """Return a request for the first available of several alternatives."""
    return DeviceRequest(name=name, first_available=choices)


def match(attribute: str, *requests: str) -> DeviceConstraint:
    """Return the constraint that devices agree in an attribute."""
    return DeviceConstraint(requests=requests, match_attribute=attribute)


def distinct(attribute: str, *requests: str) -> DeviceConstraint:
    """Return the constraint that devices differ in an attribute."""
    return DeviceConstraint(requests=requests, distinct_attribute=attribute)


def opaque(parameters: object, *requests: str, driver: str = DRIVER) -> DeviceConfig:
    """Return configuration for a driver."""
    return DeviceConfig(requests=requests, opaque=OpaqueConfig(driver=driver, parameters=parameters))


def metadata(name: str, fields: MetadataFields, *, namespaced: bool) -> Metadata:
    """Return metadata with a uid made from the name; `fields` replace any of it."""
    return replace(Metadata(name=name, uid=f"uid-{name}", namespace=NAMESPACE if namespaced else ""), **fields)


def klass(
    name: str = CLASS,
    *selectors: str,
    config: Iterable[DeviceConfig] = (),
    extended_resource_name: str | None = None,
    **fields: Unpack[MetadataFields],
) -> DeviceClass:
    """Return a device class; without selectors it takes the devices of the builders' driver."""
    texts = selectors or (f'device.driver == "{DRIVER}"',)
    return DeviceClass(
        metadata=metadata(name, fields, namespaced=False),
        selectors=tuple(Selector(expression=text) for text in texts),
        config=tuple(config),
        extended_resource_name=extended_resource_name,
    )


def claim(
    name: str = "claim",
    *requests: DeviceRequest,
    constraints: Iterable[DeviceConstraint] = (),
    config: Iterable[DeviceConfig] = (),
    **fields: Unpack[MetadataFields],
) -> ResourceClaim:
    """Return a claim that is not allocated; without requests it asks for one device of the default class."""
    spec = ResourceClaimSpec(requests=requests or (request(),), constraints=tuple(constraints), config=tuple(config))
    return ResourceClaim(metadata=metadata(name, fields, namespaced=True), spec=spec)


def template(
    name: str = "template", *requests: DeviceRequest, constraints: Iterable[DeviceConstraint] = ()
) -> ResourceClaimTemplate:
    """Return a template of claims."""
    spec = claim(name, *requests, constraints=constraints).spec
    return ResourceClaimTemplate(metadata=metadata(name, {}, namespaced=True), spec=spec)


def result(
    device: str | DeviceId,
    *,
    request: str = "r",
    share: str | None = None,
    consumed: Mapping[str, Amount] | None = None,
) -> DeviceResult:
    """Return one device that a claim got; text names a device of the default pool."""
    found = device_id(device) if isinstance(device, str) else device
    return DeviceResult(
        request=request,
        driver=found.driver,
        pool=found.pool,
        device=found.device,
        share_id=share,
        consumed_capacity=None if consumed is None else quantities(consumed),
    )


def allocated(
    claim: ResourceClaim,
    *results: DeviceResult | DeviceId | str,
    node: str | None = NODE,
    reserved_for: Iterable[ConsumerReference | str] = (),
    config: Iterable[AllocationConfig] = (),
) -> ResourceClaim:
    """Return the claim with devices; text in `reserved_for` names a pod of the builders."""
    got = tuple(item if isinstance(item, DeviceResult) else result(item, request=_first(claim)) for item in results)
    chosen = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node or "",))
    selector = NodeSelector(terms=(NodeSelectorTerm(match_fields=(chosen,)),)) if node else None
    consumers = (
        ConsumerReference(resource="pods", name=item, uid=f"uid-{item}") if isinstance(item, str) else item
        for item in reserved_for
    )
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=tuple(dict.fromkeys((*claim.metadata.finalizers, FINALIZER)))),
        allocation=AllocationResult(results=got, config=tuple(config), node_selector=selector),
        reserved_for=tuple(consumers),
    )


def _first(claim: ResourceClaim) -> str:
    return claim.spec.requests[0].name


def claim_ref(name: str = "claim", *, namespace: str = NAMESPACE) -> ClaimRef:
    """Return a claim's namespace and name."""
    return ClaimRef(namespace, name)
