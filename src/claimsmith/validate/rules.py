"""Every rule by kind: what may be created, changed, and written to a status.

An object of an older version is checked as what it becomes in the version in which it is kept; paths are those of that
version, as in the API server. Objects come as decoded JSON or wire types; what is wrong comes back as values, in the
order of the fields.

Deviates: ratcheting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from claimsmith.api.decode import Source, decode_wire, to_json_value
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_POOL_STATUS_REQUEST,
    RESOURCE_SLICE,
    WORKLOAD,
    Kind,
)
from claimsmith.api.resource_v1_claims import build_claim_spec, build_template
from claimsmith.api.versions import convert_to_hub
from claimsmith.api.wire import (
    core_pod,
    resource_claim,
    resource_class,
    resource_slice,
    resource_v1alpha3,
    scheduling_v1beta1,
)
from claimsmith.model.metadata import Metadata
from claimsmith.validate.allocations import check_claim_status
from claimsmith.validate.claims import check_claim_spec, check_class_spec, gather_request_names
from claimsmith.validate.groups import check_group_spec, check_group_status
from claimsmith.validate.issues import FieldIssue, immutable, invalid
from claimsmith.validate.metadata import (
    NameCheck,
    check_conditions,
    check_labels_and_annotations,
    check_metadata,
    check_metadata_update,
)
from claimsmith.validate.names import check_dns_label, check_driver_name, check_pool_name, check_subdomain
from claimsmith.validate.pods import check_pod, check_pod_update
from claimsmith.validate.poolrequests import check_pool_request_spec, check_pool_request_status
from claimsmith.validate.selection import check_taint
from claimsmith.validate.slices import check_slice_spec
from claimsmith.validate.workloads import check_workload_spec

__all__ = ["validate_create", "validate_status_update", "validate_update"]

_RULE_CONDITIONS_MAX: Final = 8
_NO_METADATA: Final = Metadata(name="")

_Create = Callable[[Any], Iterator[FieldIssue]]
_Update = Callable[[Any, Any], Iterator[FieldIssue]]


def _nothing(*_objects: Any) -> Iterator[FieldIssue]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Rules of one kind besides those of metadata."""

    check_name: NameCheck = check_subdomain
    create: _Create = _nothing
    update: _Update = _nothing
    status: _Update = _nothing


def validate_create(kind: Kind, obj: Source) -> tuple[FieldIssue, ...]:
    """Return what is wrong with a new object whose name has been generated and whose defaults are set.

    Args:
        kind: Kind of the object.
        obj: Decoded JSON or wire type.

    Raises:
        FieldError: A field has the wrong type (see `api.schema.check_object`).
    """
    wire = _decode(kind, obj)
    rules = _get_rules(kind)
    return (*check_metadata(wire.metadata, rules.check_name, namespaced=kind.namespaced), *rules.create(wire))


def validate_update(kind: Kind, old: Source, new: Source) -> tuple[FieldIssue, ...]:
    """Return what is wrong with a change of an object, apart from its status.

    Args:
        kind: Kind of both objects.
        old: The stored object.
        new: The object that shall take its place.

    Raises:
        FieldError: A field has the wrong type (see `api.schema.check_object`).
    """
    before, after = _decode(kind, old), _decode(kind, new)
    return (*check_metadata_update(after.metadata, before.metadata), *_get_rules(kind).update(before, after))


def validate_status_update(kind: Kind, old: Source, new: Source) -> tuple[FieldIssue, ...]:
    """Return what is wrong with a change of an object's status.

    Args:
        kind: Kind of both objects.
        old: The stored object.
        new: The object with the new status; its spec is the stored one.

    Raises:
        FieldError: A field has the wrong type (see `api.schema.check_object`).
    """
    before, after = _decode(kind, old), _decode(kind, new)
    return (*check_metadata_update(after.metadata, before.metadata), *_get_rules(kind).status(before, after))


def _decode(kind: Kind, obj: Source) -> Any:
    wire = decode_wire(obj, kind.wire_type)
    if kind.hub is kind:
        return wire
    return msgspec.convert(convert_to_hub(to_json_value(wire), kind), kind.hub.wire_type)


def _get_rules(kind: Kind) -> _Rules:
    return _RULES.get(kind.hub, _PLAIN)


def _create_slice(new: resource_slice.ResourceSlice) -> Iterator[FieldIssue]:
    yield from check_slice_spec(new.spec, None, "spec")


def _update_slice(old: resource_slice.ResourceSlice, new: resource_slice.ResourceSlice) -> Iterator[FieldIssue]:
    yield from check_slice_spec(new.spec, old.spec, "spec")


def _create_claim(new: resource_claim.ResourceClaim) -> Iterator[FieldIssue]:
    yield from check_claim_spec(new.spec, "spec")


def _update_claim(old: resource_claim.ResourceClaim, new: resource_claim.ResourceClaim) -> Iterator[FieldIssue]:
    # Values of the model are equal when the server takes them for equal: 1024Mi and 1Gi, an empty list and none.
    if build_claim_spec(old.spec) != build_claim_spec(new.spec):
        yield immutable("spec", msgspec.to_builtins(new.spec))


def _status_claim(old: resource_claim.ResourceClaim, new: resource_claim.ResourceClaim) -> Iterator[FieldIssue]:
    empty = resource_claim.ResourceClaimStatus()
    yield from check_claim_status(
        new.status or empty,
        old.status or empty,
        gather_request_names(new.spec),
        deleted=new.metadata.deletion_timestamp is not None,
    )


def _create_template(new: resource_claim.ResourceClaimTemplate) -> Iterator[FieldIssue]:
    spec = new.spec or resource_claim.ResourceClaimTemplateSpec()
    yield from check_labels_and_annotations(spec.metadata, "spec.metadata")
    for name in sorted(set(msgspec.to_builtins(spec.metadata)) - {"labels", "annotations"}):
        yield FieldIssue(type="Forbidden", path=f"spec.metadata.{name}", detail="cannot be set")
    yield from check_claim_spec(spec.spec, "spec.spec")


def _update_template(
    old: resource_claim.ResourceClaimTemplate, new: resource_claim.ResourceClaimTemplate
) -> Iterator[FieldIssue]:
    if replace(build_template(old), metadata=_NO_METADATA) != replace(build_template(new), metadata=_NO_METADATA):
        yield immutable("spec", msgspec.to_builtins(new.spec))


def _create_class(new: resource_class.DeviceClass) -> Iterator[FieldIssue]:
    yield from check_class_spec(new.spec or resource_class.DeviceClassSpec(), None, "spec")


def _update_class(old: resource_class.DeviceClass, new: resource_class.DeviceClass) -> Iterator[FieldIssue]:
    empty = resource_class.DeviceClassSpec()
    yield from check_class_spec(new.spec or empty, old.spec or empty, "spec")


def _create_rule(new: resource_class.DeviceTaintRule) -> Iterator[FieldIssue]:
    yield from _check_rule(new.spec, None)


def _update_rule(old: resource_class.DeviceTaintRule, new: resource_class.DeviceTaintRule) -> Iterator[FieldIssue]:
    yield from _check_rule(new.spec, old.spec.taint.effect)


def _check_rule(spec: resource_class.DeviceTaintRuleSpec, old_effect: str | None) -> Iterator[FieldIssue]:
    selector = spec.device_selector
    if selector is not None:
        if selector.driver is not None:
            yield from check_driver_name(selector.driver, "spec.deviceSelector.driver")
        if selector.pool is not None:
            yield from check_pool_name(selector.pool, "spec.deviceSelector.pool")
        if selector.device is not None:
            yield from check_dns_label(selector.device, "spec.deviceSelector.device")
    yield from check_taint(spec.taint, "spec.taint", old_effect=old_effect)


def _status_rule(_old: resource_class.DeviceTaintRule, new: resource_class.DeviceTaintRule) -> Iterator[FieldIssue]:
    conditions = new.status.conditions if new.status is not None else None
    yield from check_conditions(conditions, "status.conditions", most=_RULE_CONDITIONS_MAX)


def _create_group(new: scheduling_v1beta1.PodGroup) -> Iterator[FieldIssue]:
    yield from check_group_spec(new.spec, None, "spec")


def _update_group(old: scheduling_v1beta1.PodGroup, new: scheduling_v1beta1.PodGroup) -> Iterator[FieldIssue]:
    yield from check_group_spec(new.spec, old.spec, "spec")


def _status_group(_old: scheduling_v1beta1.PodGroup, new: scheduling_v1beta1.PodGroup) -> Iterator[FieldIssue]:
    yield from check_group_status(new.status or scheduling_v1beta1.PodGroupStatus(), new.spec.resource_claims or ())


def _create_workload(new: scheduling_v1beta1.Workload) -> Iterator[FieldIssue]:
    yield from check_workload_spec(new.spec, None, "spec")


def _update_workload(old: scheduling_v1beta1.Workload, new: scheduling_v1beta1.Workload) -> Iterator[FieldIssue]:
    yield from check_workload_spec(new.spec, old.spec, "spec")


_PoolRequest = resource_v1alpha3.ResourcePoolStatusRequest


def _create_pool_request(new: _PoolRequest) -> Iterator[FieldIssue]:
    yield from check_pool_request_spec(new.spec, "spec")


def _update_pool_request(old: _PoolRequest, new: _PoolRequest) -> Iterator[FieldIssue]:
    if old.spec != new.spec:
        yield immutable("spec", msgspec.to_builtins(new.spec))


def _status_pool_request(old: _PoolRequest, new: _PoolRequest) -> Iterator[FieldIssue]:
    if old.status is not None:
        if old.status != new.status:
            yield immutable("status", msgspec.to_builtins(new.status))
    elif new.status is not None:
        yield from check_pool_request_status(new.status, "status")


def _update_pod(old: core_pod.Pod, new: core_pod.Pod) -> Iterator[FieldIssue]:
    yield from check_pod_update(new.spec or core_pod.PodSpec(), old.spec or core_pod.PodSpec(), "spec")


def _status_pod(old: core_pod.Pod, new: core_pod.Pod) -> Iterator[FieldIssue]:
    before = old.spec.node_name if old.spec is not None else None
    after = new.spec.node_name if new.spec is not None else None
    if before != after:
        yield invalid("status", after or "", "nodeName may not be changed directly")


_PLAIN: Final = _Rules()
_RULES: Final[Mapping[Kind, _Rules]] = MappingProxyType(
    {
        RESOURCE_SLICE: _Rules(create=_create_slice, update=_update_slice),
        RESOURCE_CLAIM: _Rules(create=_create_claim, update=_update_claim, status=_status_claim),
        RESOURCE_CLAIM_TEMPLATE: _Rules(create=_create_template, update=_update_template),
        DEVICE_CLASS: _Rules(create=_create_class, update=_update_class),
        DEVICE_TAINT_RULE: _Rules(create=_create_rule, update=_update_rule, status=_status_rule),
        POD_GROUP: _Rules(create=_create_group, update=_update_group, status=_status_group),
        WORKLOAD: _Rules(create=_create_workload, update=_update_workload),
        RESOURCE_POOL_STATUS_REQUEST: _Rules(
            create=_create_pool_request, update=_update_pool_request, status=_status_pool_request
        ),
        POD: _Rules(create=check_pod, update=_update_pod, status=_status_pod),
        NAMESPACE: _Rules(check_name=check_dns_label),
    }
)
