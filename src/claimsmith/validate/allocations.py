"""Rules of the status of a ResourceClaim: allocation, reservations, device status.

Source: validateResourceClaimStatusUpdate and below in k8s.io/kubernetes v1.37.2
pkg/apis/resource/validation/validation.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

import msgspec

from claimsmith.api.resource_v1_claims import build_allocation
from claimsmith.api.wire.resource_claim import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from claimsmith.validate.claims import (
    RequestNames,
    check_json_object,
    check_opaque,
    check_request_reference,
    check_request_references,
)
from claimsmith.validate.issues import (
    FieldIssue,
    find_duplicates,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from claimsmith.validate.metadata import check_conditions
from claimsmith.validate.names import check_dns_label, check_driver_name, check_pool_name, check_uid
from claimsmith.validate.selection import (
    check_binding_conditions,
    check_node_selector,
    check_skip_node_operations,
    check_tolerations,
)

__all__ = ["check_claim_status", "check_device_status"]

RESERVED_FOR_MAX: Final = 256
"""Most consumers of one claim."""
RESULTS_MAX: Final = 32
"""Most devices of one claim."""
_CONFIGS_MAX: Final = 64
_DATA_BYTES_MAX: Final = 10 * 1024
_CONDITIONS_MAX: Final = 8
_IPS_MAX: Final = 16
_INTERFACE_NAME_BYTES_MAX: Final = 256
_HARDWARE_ADDRESS_BYTES_MAX: Final = 128
_SOURCES: Final = ("FromClaim", "FromClass")


def check_claim_status(
    new: ResourceClaimStatus, old: ResourceClaimStatus, names: RequestNames, *, deleted: bool
) -> Iterator[FieldIssue]:
    """Yield what is wrong with a change of a claim's status.

    Args:
        new: The status.
        old: The status before.
        names: Names of the claim's requests.
        deleted: Whether the claim has a deletion timestamp: consumers may then go but not come.
    """
    yield from _check_reserved(new, old, deleted=deleted)
    devices = new.devices or []
    allocated = _gather_devices(new.allocation)
    for i, device in enumerate(devices):
        yield from check_device_status(device, f"status.devices[{i}]", allocated)
    yield from find_duplicates(map(_status_key, devices), "status.devices")
    if old.allocation is not None and new.allocation is not None:
        # Values of the model are equal when the server takes them for equal: 1024Mi and 1Gi, an empty list and none.
        if build_allocation(old.allocation) != build_allocation(new.allocation):
            yield immutable("status.allocation", msgspec.to_builtins(new.allocation))
    elif new.allocation is not None:
        yield from _check_allocation(new.allocation, names, "status.allocation")


def _check_reserved(new: ResourceClaimStatus, old: ResourceClaimStatus, *, deleted: bool) -> Iterator[FieldIssue]:
    path = "status.reservedFor"
    consumers = new.reserved_for or []
    if len(consumers) > RESERVED_FOR_MAX:
        yield too_many(path, len(consumers), RESERVED_FOR_MAX)
    else:
        for i, consumer in enumerate(consumers):
            yield from _check_consumer(consumer, f"{path}[{i}]")
        yield from find_duplicates((consumer.uid for consumer in consumers), path)
    if consumers and new.allocation is None:
        yield forbidden(path, "may not be specified when `allocated` is not set")
    elif deleted and any(consumer not in (old.reserved_for or ()) for consumer in consumers):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden(path, why)


def _check_consumer(consumer: ResourceClaimConsumerReference, path: str) -> Iterator[FieldIssue]:
    for name, value in (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid)):
        if not value:
            yield required(f"{path}.{name}")


def _gather_devices(allocation: AllocationResult | None) -> frozenset[str]:
    devices = (allocation.devices if allocation is not None else None) or DeviceAllocationResult()
    return frozenset(map(_status_key, devices.results or ()))


def _status_key(entry: AllocatedDeviceStatus | DeviceRequestAllocationResult) -> str:
    """Return `driver/pool/device`, and the share after it; names have no spaces."""
    return f"{entry.driver}/{entry.pool}/{entry.device}" + (f" {entry.share_id}" if entry.share_id else "")


def check_device_status(
    entry: AllocatedDeviceStatus, path: str, allocated: frozenset[str] | None = None
) -> Iterator[FieldIssue]:
    """Yield what is wrong with what a driver reports of a device.

    Args:
        entry: The report.
        path: Where it stands.
        allocated: Which devices the claim has; None when that is known already.
    """
    yield from check_driver_name(entry.driver, f"{path}.driver")
    yield from check_pool_name(entry.pool, f"{path}.pool")
    yield from check_dns_label(entry.device, f"{path}.device")
    if entry.share_id is not None:
        yield from check_uid(entry.share_id, f"{path}.shareID")
    if allocated is not None and _status_key(entry) not in allocated:
        yield invalid(path, _status_key(entry), "must be an allocated device in the claim")
    yield from check_conditions(entry.conditions, f"{path}.conditions", most=_CONDITIONS_MAX)
    if entry.data is not None:
        yield from check_json_object(entry.data, f"{path}.data", limit_bytes=_DATA_BYTES_MAX)
    if entry.network_data is not None:
        yield from _check_network(entry.network_data, f"{path}.networkData")


def _check_network(entry: NetworkDeviceData, path: str) -> Iterator[FieldIssue]:
    if len((entry.interface_name or "").encode()) > _INTERFACE_NAME_BYTES_MAX:
        yield too_long(f"{path}.interfaceName", _INTERFACE_NAME_BYTES_MAX)
    if len((entry.hardware_address or "").encode()) > _HARDWARE_ADDRESS_BYTES_MAX:
        yield too_long(f"{path}.hardwareAddress", _HARDWARE_ADDRESS_BYTES_MAX)
    addresses = entry.ips or []
    if len(addresses) > _IPS_MAX:
        yield too_many(f"{path}.ips", len(addresses), _IPS_MAX)
        return
    for i, address in enumerate(addresses):
        if not _is_interface_address(address):
            why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            yield invalid(f"{path}.ips[{i}]", address, why)
    yield from find_duplicates(addresses, f"{path}.ips")


def _is_interface_address(text: str) -> bool:
    """Tell whether a text is an address with a prefix length, in its canonical form."""
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()):
        return False
    try:
        return str(ipaddress.ip_interface(text)) == f"{address}/{int(length)}"
    except ValueError:
        return False


def _check_allocation(allocation: AllocationResult, names: RequestNames, path: str) -> Iterator[FieldIssue]:
    devices = allocation.devices or DeviceAllocationResult()
    results, configs = devices.results or [], devices.config or []
    if len(results) > RESULTS_MAX:
        yield too_many(f"{path}.devices.results", len(results), RESULTS_MAX)
    else:
        for i, result in enumerate(results):
            yield from _check_result(result, names, f"{path}.devices.results[{i}]")
    if len(configs) > _CONFIGS_MAX:
        yield too_many(f"{path}.devices.config", len(configs), _CONFIGS_MAX)
    else:
        for i, config in enumerate(configs):
            yield from _check_config(config, names, f"{path}.devices.config[{i}]")
    if allocation.node_selector is not None:
        yield from check_node_selector(allocation.node_selector, f"{path}.nodeSelector")


def _check_result(result: DeviceRequestAllocationResult, names: RequestNames, path: str) -> Iterator[FieldIssue]:
    yield from check_request_reference(result.request, f"{path}.request", names)
    yield from check_driver_name(result.driver, f"{path}.driver")
    yield from check_pool_name(result.pool, f"{path}.pool")
    yield from check_dns_label(result.device, f"{path}.device")
    yield from check_binding_conditions(result.binding_conditions, result.binding_failure_conditions, path)
    yield from check_tolerations(result.tolerations, f"{path}.tolerations")
    if result.share_id is not None:
        yield from check_uid(result.share_id, f"{path}.shareID")
    yield from check_skip_node_operations(result.skip_node_operations, f"{path}.skipNodeOperations")


def _check_config(config: DeviceAllocationConfiguration, names: RequestNames, path: str) -> Iterator[FieldIssue]:
    if not config.source:
        yield required(f"{path}.source")
    elif config.source not in _SOURCES:
        yield not_supported(f"{path}.source", config.source, _SOURCES)
    yield from check_request_references(config.requests, f"{path}.requests", names)
    yield from check_opaque(config.opaque, f"{path}.opaque")
