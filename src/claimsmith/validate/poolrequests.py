"""Rules of ResourcePoolStatusRequest, a question about pools and its answer.

Source: pkg/apis/resource/v1alpha3/zz_generated.validations.go in k8s.io/kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from claimsmith.api.wire.resource_v1alpha3 import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
    ShareableSummaryStatus,
)
from claimsmith.validate.issues import FieldIssue, find_duplicates, invalid, required, too_long, too_many
from claimsmith.validate.metadata import check_conditions
from claimsmith.validate.names import check_fully_qualified_name, check_pool_name, check_subdomain

__all__ = ["check_pool_request_spec", "check_pool_request_status"]

POOLS_MAX: Final = 1000
"""Most pools that a request asks for and an answer holds."""
_CONDITIONS_MAX: Final = 10
_ENTRIES_MAX: Final = 32
_ERROR_BYTES_MAX: Final = 256


def check_pool_request_spec(spec: ResourcePoolStatusRequestSpec, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a new request; an absent limit is 100."""
    yield from _check_driver(spec.driver, f"{path}.driver")
    if spec.pool_name:
        yield from check_pool_name(spec.pool_name, f"{path}.poolName")
    elif spec.pool_name is not None:
        yield invalid(f"{path}.poolName", "", "must not be empty")
    if spec.limit is not None:
        if spec.limit > POOLS_MAX:
            yield invalid(f"{path}.limit", spec.limit, f"must be less than or equal to {POOLS_MAX}")
        yield from _check_least(spec.limit, f"{path}.limit", least=1)
    if spec.default_partition_type_attribute is not None:
        where = f"{path}.defaultPartitionTypeAttribute"
        yield from check_fully_qualified_name(spec.default_partition_type_attribute, where)


def check_pool_request_status(status: ResourcePoolStatusRequestStatus, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with an answer; once given, it stays."""
    yield from _check_count(status.pool_count, f"{path}.poolCount")
    pools = status.pools or []
    if len(pools) > POOLS_MAX:
        yield too_many(f"{path}.pools", len(pools), POOLS_MAX)
    else:
        for i, pool in enumerate(pools):
            yield from _check_pool(pool, f"{path}.pools[{i}]")
    conditions = status.conditions or []
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many(f"{path}.conditions", len(conditions), _CONDITIONS_MAX)
    else:
        yield from check_conditions(conditions, f"{path}.conditions", most=None)


def _check_driver(driver: str, path: str) -> Iterator[FieldIssue]:
    """Check a driver name in any case, which may be longer than in a slice."""
    if driver:
        yield from check_subdomain(driver.lower(), path)
    else:
        yield required(path)


def _check_pool(pool: PoolStatus, path: str) -> Iterator[FieldIssue]:
    yield from _check_driver(pool.driver, f"{path}.driver")
    yield from check_pool_name(pool.pool_name, f"{path}.poolName")
    if pool.generation:
        yield from _check_least(pool.generation, f"{path}.generation")
    else:
        yield required(f"{path}.generation")
    yield from _check_least(pool.resource_slice_count, f"{path}.resourceSliceCount", least=1)
    for name, count in (
        ("totalDevices", pool.total_devices),
        ("allocatedDevices", pool.allocated_devices),
        ("availableDevices", pool.available_devices),
        ("unavailableDevices", pool.unavailable_devices),
    ):
        yield from _check_least(count, f"{path}.{name}")
    if pool.node_name is not None:
        yield from check_subdomain(pool.node_name, f"{path}.nodeName")
    if len((pool.validation_error or "").encode()) > _ERROR_BYTES_MAX:
        yield too_long(f"{path}.validationError", _ERROR_BYTES_MAX)
    yield from _check_partitions(pool.partition_summary or [], f"{path}.partitionSummary")
    if pool.shareable_summary is not None:
        yield from _check_shares(pool.shareable_summary, f"{path}.shareableSummary")


def _check_partitions(entries: list[PartitionTypeStatus], path: str) -> Iterator[FieldIssue]:
    if len(entries) > _ENTRIES_MAX:
        yield too_many(path, len(entries), _ENTRIES_MAX)
        return
    yield from find_duplicates(((entry.attribute, entry.type) for entry in entries), path)
    for i, entry in enumerate(entries):
        for name, text in (("attribute", entry.attribute), ("type", entry.type)):
            if not text:
                yield required(f"{path}[{i}].{name}")
        yield from _check_count(entry.total, f"{path}[{i}].total")
        yield from _check_count(entry.allocatable, f"{path}[{i}].allocatable")


def _check_shares(summary: ShareableSummaryStatus, path: str) -> Iterator[FieldIssue]:
    yield from _check_count(summary.fully_available_devices, f"{path}.fullyAvailableDevices")
    yield from _check_count(summary.partially_available_devices, f"{path}.partiallyAvailableDevices")
    capacity = summary.capacity or []
    if len(capacity) > _ENTRIES_MAX:
        yield too_many(f"{path}.capacity", len(capacity), _ENTRIES_MAX)
        return
    for i, entry in enumerate(capacity):
        where = f"{path}.capacity[{i}]"
        if not entry.name:
            yield required(f"{where}.name")
        amounts = {"total": entry.total, "consumed": entry.consumed, "available": entry.available}
        yield from (required(f"{where}.{name}") for name, amount in amounts.items() if amount is None)


def _check_count(value: int | None, path: str) -> Iterator[FieldIssue]:
    if value is None:
        yield required(path)
    else:
        yield from _check_least(value, path)


def _check_least(value: int | None, path: str, *, least: int = 0) -> Iterator[FieldIssue]:
    if value is not None and value < least:
        yield invalid(path, value, f"must be greater than or equal to {least}")
