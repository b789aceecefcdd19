"""resource.k8s.io/v1 on the wire and in the model: claims, templates, classes, allocations.

Parsing puts in the defaults of the API: allocationMode ExactCount, count 1, toleration operator Equal.
Source: pkg/apis/resource/v1/defaults.go in k8s.io/kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import Any

from claimsmith.api.metadata import (
    encode_conditions,
    encode_metadata,
    encode_node_selector,
    encode_quantities,
    parse_conditions,
    parse_metadata,
    parse_node_selector,
    parse_quantities,
)
from claimsmith.api.resource_v1_slices import API_VERSION
from claimsmith.api.wire import meta
from claimsmith.api.wire import resource_claim as wire
from claimsmith.api.wire import resource_class as class_wire
from claimsmith.model.claim import (
    AllocatedDeviceStatus,
    AllocationConfig,
    AllocationResult,
    ConsumerReference,
    DerivedAttribute,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DeviceResult,
    NetworkData,
    OpaqueConfig,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    Selector,
    SubRequest,
)
from claimsmith.model.device import DeviceToleration

__all__ = [
    "build_allocation",
    "build_claim",
    "build_claim_spec",
    "build_class",
    "build_device_status",
    "build_template",
    "encode_allocation",
    "encode_claim",
    "encode_claim_spec",
    "encode_claim_status",
    "encode_class",
    "encode_device_status",
    "encode_template",
]


def build_claim(source: wire.ResourceClaim) -> ResourceClaim:
    """Return a claim of the model.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    status = source.status or wire.ResourceClaimStatus()
    return ResourceClaim(
        metadata=parse_metadata(source.metadata),
        spec=build_claim_spec(source.spec),
        allocation=build_allocation(status.allocation) if status.allocation is not None else None,
        reserved_for=tuple(_build_consumer(entry) for entry in status.reserved_for or ()),
        devices=tuple(build_device_status(entry) for entry in status.devices or ()),
    )


def build_claim_spec(source: wire.ResourceClaimSpec | None) -> ResourceClaimSpec:
    """Return what a claim asks for; an absent spec asks for nothing.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    devices = (source.devices if source is not None else None) or wire.DeviceClaim()
    return ResourceClaimSpec(
        requests=tuple(_build_request(entry) for entry in devices.requests or ()),
        constraints=tuple(
            DeviceConstraint(
                requests=tuple(entry.requests or ()),
                match_attribute=entry.match_attribute,
                distinct_attribute=entry.distinct_attribute,
            )
            for entry in devices.constraints or ()
        ),
        config=tuple(
            DeviceConfig(requests=tuple(entry.requests or ()), opaque=_build_opaque(entry.opaque))
            for entry in devices.config or ()
        ),
    )


def _build_request(source: wire.DeviceRequest) -> DeviceRequest:
    return DeviceRequest(
        name=source.name,
        exactly=None if source.exactly is None else _build_sub_request(source.exactly),
        first_available=tuple(_build_sub_request(entry) for entry in source.first_available or ()),
    )


def _build_sub_request(source: wire.ExactDeviceRequest | wire.DeviceSubRequest) -> SubRequest:
    return SubRequest(
        name=source.name if isinstance(source, wire.DeviceSubRequest) else "",
        device_class=source.device_class_name,
        selectors=_build_selectors(source.selectors),
        allocation_mode=source.allocation_mode or "ExactCount",
        count=source.count or 1,
        admin_access=source.admin_access if isinstance(source, wire.ExactDeviceRequest) else None,
        tolerations=_build_tolerations(source.tolerations),
        capacity=None if source.capacity is None else parse_quantities(source.capacity.requests),
        derived_attributes=tuple(
            DerivedAttribute(name=entry.name, expression=entry.expression) for entry in source.derived_attributes or ()
        ),
    )


def _build_selectors(source: list[wire.DeviceSelector] | None) -> tuple[Selector, ...]:
    return tuple(Selector(expression=None if entry.cel is None else entry.cel.expression) for entry in source or ())


def _build_tolerations(source: list[wire.DeviceToleration] | None) -> tuple[DeviceToleration, ...]:
    return tuple(
        DeviceToleration(
            key=entry.key or "",
            operator=entry.operator or "Equal",
            value=entry.value or "",
            effect=entry.effect or "",
            toleration_seconds=entry.toleration_seconds,
        )
        for entry in source or ()
    )


def _build_opaque(source: wire.OpaqueDeviceConfiguration | None) -> OpaqueConfig | None:
    return None if source is None else OpaqueConfig(driver=source.driver, parameters=source.parameters)


def build_allocation(source: wire.AllocationResult) -> AllocationResult:
    """Return what a claim got.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    devices = source.devices or wire.DeviceAllocationResult()
    return AllocationResult(
        results=tuple(_build_result(entry) for entry in devices.results or ()),
        config=tuple(
            AllocationConfig(
                source=entry.source, requests=tuple(entry.requests or ()), opaque=_build_opaque(entry.opaque)
            )
            for entry in devices.config or ()
        ),
        node_selector=None if source.node_selector is None else parse_node_selector(source.node_selector),
        allocation_timestamp=source.allocation_timestamp,
    )


def _build_result(source: wire.DeviceRequestAllocationResult) -> DeviceResult:
    consumed = source.consumed_capacity
    return DeviceResult(
        request=source.request,
        driver=source.driver,
        pool=source.pool,
        device=source.device,
        admin_access=source.admin_access,
        tolerations=_build_tolerations(source.tolerations),
        binding_conditions=tuple(source.binding_conditions or ()),
        binding_failure_conditions=tuple(source.binding_failure_conditions or ()),
        share_id=source.share_id,
        consumed_capacity=None if consumed is None else parse_quantities(consumed),
        skip_node_operations=tuple(source.skip_node_operations or ()),
    )


def _build_consumer(source: wire.ResourceClaimConsumerReference) -> ConsumerReference:
    return ConsumerReference(
        resource=source.resource, name=source.name, uid=source.uid, api_group=source.api_group or ""
    )


def build_device_status(source: wire.AllocatedDeviceStatus) -> AllocatedDeviceStatus:
    """Return what a driver reports of a device."""
    network = source.network_data
    return AllocatedDeviceStatus(
        driver=source.driver,
        pool=source.pool,
        device=source.device,
        share_id=source.share_id,
        conditions=parse_conditions(source.conditions),
        data=source.data,
        network_data=None
        if network is None
        else NetworkData(
            interface_name=network.interface_name or "",
            ips=tuple(network.ips or ()),
            hardware_address=network.hardware_address or "",
        ),
    )


def build_template(source: wire.ResourceClaimTemplate) -> ResourceClaimTemplate:
    """Return a claim template of the model.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    spec = source.spec or wire.ResourceClaimTemplateSpec()
    return ResourceClaimTemplate(
        metadata=parse_metadata(source.metadata),
        spec=build_claim_spec(spec.spec),
        labels=spec.metadata.labels or {},
        annotations=spec.metadata.annotations or {},
    )


def build_class(source: class_wire.DeviceClass) -> DeviceClass:
    """Return a device class of the model."""
    spec = source.spec or class_wire.DeviceClassSpec()
    return DeviceClass(
        metadata=parse_metadata(source.metadata),
        selectors=_build_selectors(spec.selectors),
        config=tuple(DeviceConfig(opaque=_build_opaque(entry.opaque)) for entry in spec.config or ()),
        extended_resource_name=spec.extended_resource_name,
    )


def encode_claim(value: ResourceClaim) -> wire.ResourceClaim:
    """Return the wire form of a claim; without a status when nothing of it is set."""
    status = encode_claim_status(value)
    return wire.ResourceClaim(
        api_version=API_VERSION,
        kind="ResourceClaim",
        metadata=encode_metadata(value.metadata),
        spec=encode_claim_spec(value.spec),
        status=status if status != wire.ResourceClaimStatus() else None,
    )


def encode_claim_status(value: ResourceClaim) -> wire.ResourceClaimStatus:
    """Return the wire form of a claim's status."""
    return wire.ResourceClaimStatus(
        allocation=None if value.allocation is None else encode_allocation(value.allocation),
        reserved_for=[
            wire.ResourceClaimConsumerReference(
                resource=entry.resource, name=entry.name, uid=entry.uid, api_group=entry.api_group or None
            )
            for entry in value.reserved_for
        ]
        or None,
        devices=[encode_device_status(entry) for entry in value.devices] or None,
    )


def encode_claim_spec(value: ResourceClaimSpec) -> wire.ResourceClaimSpec:
    """Return the wire form of what a claim asks for."""
    devices = wire.DeviceClaim(
        requests=[_encode_request(entry) for entry in value.requests] or None,
        constraints=[
            wire.DeviceConstraint(
                requests=list(entry.requests) or None,
                match_attribute=entry.match_attribute,
                distinct_attribute=entry.distinct_attribute,
            )
            for entry in value.constraints
        ]
        or None,
        config=[
            wire.DeviceClaimConfiguration(requests=list(entry.requests) or None, opaque=_encode_opaque(entry.opaque))
            for entry in value.config
        ]
        or None,
    )
    return wire.ResourceClaimSpec(devices=devices)


def _encode_request(value: DeviceRequest) -> wire.DeviceRequest:
    return wire.DeviceRequest(
        name=value.name,
        exactly=None if value.exactly is None else _encode_exactly(value.exactly),
        first_available=[_encode_alternative(entry) for entry in value.first_available] or None,
    )


def _encode_exactly(value: SubRequest) -> wire.ExactDeviceRequest:
    return wire.ExactDeviceRequest(admin_access=value.admin_access, **_encode_wanted(value))


def _encode_alternative(value: SubRequest) -> wire.DeviceSubRequest:
    return wire.DeviceSubRequest(name=value.name, **_encode_wanted(value))


def _encode_wanted(value: SubRequest) -> dict[str, Any]:
    """Return the fields that a plain request and an alternative share."""
    return {
        "device_class_name": value.device_class,
        "selectors": _encode_selectors(value.selectors),
        "allocation_mode": value.allocation_mode,
        "count": value.count if value.allocation_mode == "ExactCount" else None,
        "tolerations": _encode_tolerations(value.tolerations),
        "capacity": None
        if value.capacity is None
        else wire.CapacityRequirements(requests=encode_quantities(value.capacity)),
        "derived_attributes": [
            wire.DeviceDerivedAttribute(name=entry.name, expression=entry.expression)
            for entry in value.derived_attributes
        ]
        or None,
    }


def _encode_selectors(values: tuple[Selector, ...]) -> list[wire.DeviceSelector] | None:
    return [
        wire.DeviceSelector(
            cel=None if entry.expression is None else wire.CELDeviceSelector(expression=entry.expression)
        )
        for entry in values
    ] or None


def _encode_tolerations(values: tuple[DeviceToleration, ...]) -> list[wire.DeviceToleration] | None:
    return [
        wire.DeviceToleration(
            key=entry.key or None,
            operator=entry.operator,
            value=entry.value or None,
            effect=entry.effect or None,
            toleration_seconds=entry.toleration_seconds,
        )
        for entry in values
    ] or None


def _encode_opaque(value: OpaqueConfig | None) -> wire.OpaqueDeviceConfiguration | None:
    return None if value is None else wire.OpaqueDeviceConfiguration(driver=value.driver, parameters=value.parameters)


def encode_allocation(value: AllocationResult) -> wire.AllocationResult:
    """Return the wire form of an allocation, as `status.allocation` of a claim holds it."""
    devices = wire.DeviceAllocationResult(
        results=[_encode_result(entry) for entry in value.results] or None,
        config=[
            wire.DeviceAllocationConfiguration(
                source=entry.source, requests=list(entry.requests) or None, opaque=_encode_opaque(entry.opaque)
            )
            for entry in value.config
        ]
        or None,
    )
    return wire.AllocationResult(
        devices=devices,
        node_selector=None if value.node_selector is None else encode_node_selector(value.node_selector),
        allocation_timestamp=value.allocation_timestamp,
    )


def _encode_result(value: DeviceResult) -> wire.DeviceRequestAllocationResult:
    consumed = value.consumed_capacity
    return wire.DeviceRequestAllocationResult(
        request=value.request,
        driver=value.driver,
        pool=value.pool,
        device=value.device,
        admin_access=value.admin_access,
        tolerations=_encode_tolerations(value.tolerations),
        binding_conditions=list(value.binding_conditions) or None,
        binding_failure_conditions=list(value.binding_failure_conditions) or None,
        share_id=value.share_id,
        consumed_capacity=None if consumed is None else encode_quantities(consumed),
        skip_node_operations=list(value.skip_node_operations) or None,
    )


def encode_device_status(value: AllocatedDeviceStatus) -> wire.AllocatedDeviceStatus:
    """Return what a driver reports of a device for the wire."""
    network = value.network_data
    return wire.AllocatedDeviceStatus(
        driver=value.driver,
        pool=value.pool,
        device=value.device,
        share_id=value.share_id,
        conditions=encode_conditions(value.conditions),
        data=value.data,
        network_data=None
        if network is None
        else wire.NetworkDeviceData(
            interface_name=network.interface_name or None,
            ips=list(network.ips) or None,
            hardware_address=network.hardware_address or None,
        ),
    )


def encode_template(value: ResourceClaimTemplate) -> wire.ResourceClaimTemplate:
    """Return the wire form of a claim template."""
    inner = meta.ObjectMeta(labels=dict(value.labels) or None, annotations=dict(value.annotations) or None)
    return wire.ResourceClaimTemplate(
        api_version=API_VERSION,
        kind="ResourceClaimTemplate",
        metadata=encode_metadata(value.metadata),
        spec=wire.ResourceClaimTemplateSpec(metadata=inner, spec=encode_claim_spec(value.spec)),
    )


def encode_class(value: DeviceClass) -> class_wire.DeviceClass:
    """Return the wire form of a device class."""
    return class_wire.DeviceClass(
        api_version=API_VERSION,
        kind="DeviceClass",
        metadata=encode_metadata(value.metadata),
        spec=class_wire.DeviceClassSpec(
            selectors=_encode_selectors(value.selectors),
            config=[class_wire.DeviceClassConfiguration(opaque=_encode_opaque(entry.opaque)) for entry in value.config]
            or None,
            extended_resource_name=value.extended_resource_name,
        ),
    )
