"""claimsmith.dev/v1alpha1 DeviceReport: what a node's agent tells of devices where nobody reads ResourceSlices."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from claimsmith.api.wire.base import ATOMIC, Int32, Wire
from claimsmith.api.wire.meta import ListMeta, ObjectMeta
from claimsmith.api.wire.resource_slice import CounterSet, Device


class DeviceReportSpec(Wire, gc=False, kw_only=True):
    """Whose devices are reported; never changes."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.DeviceReportSpec"
    __required__: ClassVar[tuple[str, ...]] = ("driver", "nodeName")

    driver: str = field(default_factory=str)
    node_name: str = field(default_factory=str)


class ReportedHealth(Wire, gc=False, kw_only=True):
    """How a device fares, as its driver says: Healthy, Unhealthy or Unknown."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.ReportedHealth"
    __required__: ClassVar[tuple[str, ...]] = ("state",)

    cause: str | None = None
    message: str | None = None
    state: str = field(default_factory=str)


class DeviceHolder(Wire, gc=False, kw_only=True):
    """Who holds a device or a share of it: a ResourceClaim, or a container of a Pod by a device plugin."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.DeviceHolder"
    __required__: ClassVar[tuple[str, ...]] = ("kind", "name")

    container: str | None = None
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    namespace: str | None = None
    resource: str | None = None
    uid: str | None = None


class ReportedDevice(Wire, gc=False, kw_only=True):
    """One device, in the words of a ResourceSlice, with its health and its holders."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.ReportedDevice"
    __required__: ClassVar[tuple[str, ...]] = ("device", "health", "pool")

    device: Device = field(default_factory=Device)
    health: ReportedHealth = field(default_factory=ReportedHealth)
    holders: Annotated[list[DeviceHolder] | None, ATOMIC] = None
    pool: str = field(default_factory=str)


class ReportedCounters(Wire, gc=False, kw_only=True):
    """Counters that partitions of one pool share."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.ReportedCounters"
    __required__: ClassVar[tuple[str, ...]] = ("counterSets", "pool")

    counter_sets: Annotated[list[CounterSet], ATOMIC] = field(default_factory=list)
    pool: str = field(default_factory=str)


class DeviceReportStatus(Wire, gc=False, kw_only=True):
    """The devices, and sums for people."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.DeviceReportStatus"

    counters: Annotated[list[ReportedCounters] | None, ATOMIC] = None
    devices: Annotated[list[ReportedDevice] | None, ATOMIC] = None
    free: Int32 | None = None
    models: str | None = None
    total: Int32 | None = None
    unhealthy: Int32 | None = None


class DeviceReport(Wire, gc=False, kw_only=True):
    """The devices of one driver on one node, written by the node's agent whenever they change."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.DeviceReport"
    __required__: ClassVar[tuple[str, ...]] = ("spec",)

    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeviceReportSpec = field(default_factory=DeviceReportSpec)
    status: DeviceReportStatus | None = None


class DeviceReportList(Wire, gc=False, kw_only=True):
    """A list of reports."""

    __openapi_name__: ClassVar[str] = "dev.claimsmith.v1alpha1.DeviceReportList"
    __required__: ClassVar[tuple[str, ...]] = ("items",)

    api_version: str | None = None
    items: list[DeviceReport] = field(default_factory=list)
    kind: str | None = None
    metadata: ListMeta = field(default_factory=ListMeta)
