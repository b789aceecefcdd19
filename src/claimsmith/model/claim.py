"""Claims, classes and allocations. Source: resource.k8s.io/v1 (Kubernetes 1.37)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.device import DeviceToleration
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.quantity import Quantity
from claimsmith.model.topology import NodeSelector

__all__ = [
    "ALLOCATION_RESULTS_MAX",
    "FINALIZER",
    "AllocatedDeviceStatus",
    "AllocationConfig",
    "AllocationResult",
    "ConsumerReference",
    "DerivedAttribute",
    "DeviceClass",
    "DeviceConfig",
    "DeviceConstraint",
    "DeviceRequest",
    "DeviceResult",
    "NetworkData",
    "OpaqueConfig",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimTemplate",
    "Selector",
    "SubRequest",
]

ALLOCATION_RESULTS_MAX: Final = 32
"""Most devices that one claim can get."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim while it is allocated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A CEL expression over `device`; None when the API object names no known kind of selector."""

    expression: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueConfig:
    """Parameters for one driver, as JSON that only the driver understands."""

    driver: str
    parameters: object


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """Configuration of a class (requests empty) or of the named requests of a claim (empty: of all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedAttribute:
    """An attribute that a claim computes by CEL, for its constraints. Source: KEP-6080."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRequest:
    """What one device, or several equal in kind, must be: the `exactly` of a request or one alternative of it.

    Args:
        name: Name of the alternative; empty for `exactly`.
        allocation_mode: ExactCount or All; other texts are kept and refused by the allocator.
        count: Devices wanted with ExactCount; >= 1.
        admin_access: None when the field is absent.
        capacity: Amounts asked for by qualified name; None when the field is absent.
    """

    name: str = ""
    device_class: str
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] | None = None
    derived_attributes: tuple[DerivedAttribute, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """One request of a claim: exactly this, or the first available of several alternatives."""

    name: str
    exactly: SubRequest | None = None
    first_available: tuple[SubRequest, ...] = ()

    @property
    def alternatives(self) -> tuple[SubRequest, ...]:
        """The alternatives in order of preference; one for a plain request."""
        return self.first_available if self.exactly is None else (self.exactly,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstraint:
    """Devices of the named requests (empty: of all) must agree or differ in an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimSpec:
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResult:
    """One device, or one share of a device, that a claim got.

    Args:
        request: `request` or `request/subrequest`.
        admin_access: None when the field is absent.
        share_id: uid of the share; None for a device that the claim has for itself.
        consumed_capacity: Amounts by capacity name; None when the field is absent.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: Mapping[str, Quantity] | None = None
    skip_node_operations: tuple[str, ...] = ()

    @property
    def device_id(self) -> DeviceId:
        """The device."""
        return DeviceId(self.driver, self.pool, self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationConfig:
    """Configuration that goes with an allocation; later entries win over earlier ones.

    Args:
        source: FromClass or FromClaim.
        requests: Requests it is for; empty for all.
    """

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationResult:
    """What a claim got, and where it can be used (node_selector None: everywhere)."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocationConfig, ...] = ()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReference:
    """An object that uses a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""

    @property
    def is_pod_group(self) -> bool:
        """Whether it is a pod group. Source: KEP-5729."""
        return self.resource == "podgroups" and self.api_group == "scheduling.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkData:
    """What a network driver reports of an allocated device; addresses in CIDR form."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDeviceStatus:
    """What a driver reports of an allocated device; conditions as in meta/v1."""

    driver: str
    pool: str
    device: str
    share_id: str | None = None
    conditions: tuple[Mapping[str, object], ...] = ()
    data: object | None = None
    network_data: NetworkData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A claim with what it asks for and what it got."""

    metadata: Metadata
    spec: ResourceClaimSpec
    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()

    @property
    def ref(self) -> ClaimRef:
        """Namespace and name."""
        return ClaimRef(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """The server's uid; empty for claims that are not stored."""
        return self.metadata.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimTemplate:
    """From which a claim is made for each pod that names it."""

    metadata: Metadata
    spec: ResourceClaimSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A kind of devices that administrators offer.

    Args:
        extended_resource_name: Pods that ask for this extended resource get devices of the class; None for none.
    """

    metadata: Metadata
    selectors: tuple[Selector, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    extended_resource_name: str | None = None

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.metadata.name
