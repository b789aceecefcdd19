"""Rules of what a ResourceClaim or its template asks for, and of DeviceClass.

Source: validateDeviceClaim, validateDeviceClassSpec and below in k8s.io/kubernetes v1.37.2
pkg/apis/resource/validation/validation.go. Absent fields count as the API's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from claimsmith.api.wire.resource_claim import (
    DeviceClaim,
    DeviceConstraint,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    ResourceClaimSpec,
)
from claimsmith.api.wire.resource_class import DeviceClassSpec
from claimsmith.validate.expressions import check_derived_expression, check_selector
from claimsmith.validate.issues import (
    FieldIssue,
    find_duplicates,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from claimsmith.validate.names import (
    check_dns_label,
    check_driver_name,
    check_fully_qualified_name,
    check_subdomain,
    is_extended_resource_name,
)
from claimsmith.validate.selection import check_tolerations

__all__ = [
    "RequestNames",
    "check_claim_spec",
    "check_class_spec",
    "check_json_object",
    "check_opaque",
    "check_request_references",
    "gather_request_names",
]

REQUESTS_MAX: Final = 32
"""Most requests, constraints or configurations of a claim, and requests that one of these names."""
SELECTORS_MAX: Final = 32
FIRST_AVAILABLE_MAX: Final = 8
DERIVED_ATTRIBUTES_MAX: Final = 32
DERIVED_COST_MAX: Final = 1_000_000
PARAMETERS_BYTES_MAX: Final = 10 * 1024
"""Longest opaque parameters, as JSON without white space."""
_MODES: Final = ("All", "ExactCount")

RequestNames = Mapping[str, frozenset[str]]
"""Names of the requests of a claim, each with the names of its alternatives."""


def gather_request_names(spec: ResourceClaimSpec | None) -> RequestNames:
    """Return the names that constraints, configurations and results of a claim may use."""
    devices = (spec.devices if spec is not None else None) or DeviceClaim()
    return {
        request.name: frozenset(entry.name for entry in request.first_available or ())
        for request in devices.requests or ()
    }


def check_claim_spec(spec: ResourceClaimSpec | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a new claim or of a template.

    Args:
        spec: The spec; None when it is absent.
        path: Field path of the spec.
    """
    devices = (spec.devices if spec is not None else None) or DeviceClaim()
    names = gather_request_names(spec)
    path = f"{path}.devices"
    requests, constraints, configs = devices.requests or [], devices.constraints or [], devices.config or []
    if len(requests) > REQUESTS_MAX:
        yield too_many(f"{path}.requests", len(requests), REQUESTS_MAX)
    else:
        yield from _check_requests(requests, constraints, path)
    if len(constraints) > REQUESTS_MAX:
        yield too_many(f"{path}.constraints", len(constraints), REQUESTS_MAX)
    else:
        for i, constraint in enumerate(constraints):
            yield from _check_constraint(constraint, f"{path}.constraints[{i}]", names)
    if len(configs) > REQUESTS_MAX:
        yield too_many(f"{path}.config", len(configs), REQUESTS_MAX)
        return
    for i, config in enumerate(configs):
        yield from check_request_references(config.requests, f"{path}.config[{i}].requests", names)
        yield from check_opaque(config.opaque, f"{path}.config[{i}].opaque")


def _check_requests(
    requests: list[DeviceRequest], constraints: list[DeviceConstraint], path: str
) -> Iterator[FieldIssue]:
    derived = _Derived(constraints)
    for i, request in enumerate(requests):
        yield from _check_request(request, f"{path}.requests[{i}]", derived)
    yield from find_duplicates((request.name for request in requests), f"{path}.requests")
    if derived.cost > DERIVED_COST_MAX:
        why = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        yield forbidden(path, why)


class _Derived:
    """What the constraints of a claim compare, and what its derived attributes cost together."""

    def __init__(self, constraints: list[DeviceConstraint]) -> None:
        self.cost = 0
        self._used: set[tuple[str, str]] = set()
        for constraint in constraints:
            attribute = constraint.match_attribute or constraint.distinct_attribute or ""
            self._used.update((request, attribute) for request in constraint.requests or [""])

    def is_used(self, attribute: str, request: str) -> bool:
        """Tell whether a constraint on a request, its parent or all requests compares an attribute."""
        return any((name, attribute) in self._used for name in ("", request, request.partition("/")[0]))


def _check_request(request: DeviceRequest, path: str, derived: _Derived) -> Iterator[FieldIssue]:
    yield from check_dns_label(request.name, f"{path}.name")
    alternatives = request.first_available or []
    rule = "exactly one of `exactly` or `firstAvailable` is required"
    if request.exactly is not None and alternatives:
        yield invalid(path, None, f"{rule}, but multiple fields are set")
    elif request.exactly is not None:
        yield from _check_wanted(request.exactly, f"{path}.exactly", request.name, derived)
    elif not alternatives:
        yield required(path, rule)
    elif len(alternatives) > FIRST_AVAILABLE_MAX:
        yield too_many(f"{path}.firstAvailable", len(alternatives), FIRST_AVAILABLE_MAX)
    else:
        for i, entry in enumerate(alternatives):
            where = f"{path}.firstAvailable[{i}]"
            yield from check_dns_label(entry.name, f"{where}.name")
            yield from _check_wanted(entry, where, f"{request.name}/{entry.name}", derived)
        yield from find_duplicates((entry.name for entry in alternatives), f"{path}.firstAvailable")


def _check_wanted(
    wanted: ExactDeviceRequest | DeviceSubRequest, path: str, name: str, derived: _Derived
) -> Iterator[FieldIssue]:
    """Check what a plain request and an alternative share."""
    if wanted.device_class_name:
        yield from check_subdomain(wanted.device_class_name, f"{path}.deviceClassName")
    else:
        yield required(f"{path}.deviceClassName")
    yield from _check_selectors(wanted.selectors, f"{path}.selectors")
    yield from _check_derived(wanted.derived_attributes or [], f"{path}.derivedAttributes", name, derived)
    yield from _check_mode(wanted, path)
    yield from check_tolerations(wanted.tolerations, f"{path}.tolerations")


def _check_mode(wanted: ExactDeviceRequest | DeviceSubRequest, path: str) -> Iterator[FieldIssue]:
    mode, count = wanted.allocation_mode or "ExactCount", wanted.count or 0
    if mode == "All":
        if count:
            yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count < 0:
            yield invalid(f"{path}.count", count, "must be greater than zero")
    else:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)


def _check_selectors(
    selectors: list[DeviceSelector] | None, path: str, *, stored: bool = False
) -> Iterator[FieldIssue]:
    """Check selectors; those that are stored already are known to compile."""
    entries = selectors or []
    if len(entries) > SELECTORS_MAX:
        yield too_many(path, len(entries), SELECTORS_MAX)
        return
    for i, entry in enumerate(entries):
        if entry.cel is None:
            yield required(f"{path}[{i}].cel")
        elif not stored:
            yield from check_selector(entry.cel.expression, f"{path}[{i}].cel.expression")


def _check_derived(
    attributes: list[DeviceDerivedAttribute], path: str, request: str, derived: _Derived
) -> Iterator[FieldIssue]:
    if len(attributes) > DERIVED_ATTRIBUTES_MAX:
        yield too_many(path, len(attributes), DERIVED_ATTRIBUTES_MAX)
    for i, entry in enumerate(attributes):
        if not entry.name:
            yield required(f"{path}[{i}].name")
        else:
            yield from check_fully_qualified_name(entry.name, f"{path}[{i}].name")
            if not derived.is_used(entry.name, request):
                why = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting "
                yield invalid(f"{path}[{i}].name", entry.name, why + "this request")
        if not entry.expression:
            yield required(f"{path}[{i}].expression")
            continue
        cost, issues = check_derived_expression(entry.expression, f"{path}[{i}].expression")
        derived.cost += cost
        yield from issues
    yield from find_duplicates((entry.name for entry in attributes), path)


def _check_constraint(constraint: DeviceConstraint, path: str, names: RequestNames) -> Iterator[FieldIssue]:
    yield from check_request_references(constraint.requests, f"{path}.requests", names)
    match, distinct = constraint.match_attribute, constraint.distinct_attribute
    rule = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
    if match is not None and distinct is not None:
        yield invalid(path, None, f"{rule}, but multiple fields are set")
    elif match is not None:
        yield from check_fully_qualified_name(match, f"{path}.matchAttribute")
    elif distinct is not None:
        yield from check_fully_qualified_name(distinct, f"{path}.distinctAttribute")
    else:
        yield required(path, rule)


def check_request_references(references: list[str] | None, path: str, names: RequestNames) -> Iterator[FieldIssue]:
    """Yield what is wrong with a list of `request` or `request/alternative`, each of which the claim must have."""
    entries = references or []
    if len(entries) > REQUESTS_MAX:
        yield too_many(path, len(entries), REQUESTS_MAX)
        return
    for i, entry in enumerate(entries):
        yield from check_request_reference(entry, f"{path}[{i}]", names)
    yield from find_duplicates(entries, path)


def check_request_reference(reference: str, path: str, names: RequestNames) -> Iterator[FieldIssue]:
    """Yield what is wrong with one `request` or `request/alternative`."""
    rule = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    parts = reference.split("/")
    if len(parts) > 2:
        yield invalid(path, reference, rule)
        return
    for part in parts:
        yield from check_dns_label(part, path)
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        yield invalid(path, reference, rule)


def check_opaque(opaque: OpaqueDeviceConfiguration | None, path: str, *, stored: bool = False) -> Iterator[FieldIssue]:
    """Yield what is wrong with the parameters for a driver; stored ones may be longer than is allowed now."""
    if opaque is None:
        yield required(path)
        return
    yield from check_driver_name(opaque.driver, f"{path}.driver")
    limit = None if stored else PARAMETERS_BYTES_MAX
    yield from check_json_object(opaque.parameters, f"{path}.parameters", limit_bytes=limit)


def check_json_object(value: object, path: str, *, limit_bytes: int | None) -> Iterator[FieldIssue]:
    """Yield what is wrong with opaque data, which must be a JSON object."""
    if value is None:
        yield required(path)
    elif limit_bytes is not None and len(msgspec.json.encode(value)) > limit_bytes:
        yield too_long(path, limit_bytes)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


def check_class_spec(spec: DeviceClassSpec, old: DeviceClassSpec | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a class; selectors and parameters that stay need not pass again."""
    stored = old is not None and old.selectors == spec.selectors
    yield from _check_selectors(spec.selectors, f"{path}.selectors", stored=stored)
    configs = spec.config or []
    stored = old is not None and old.config == spec.config
    if len(configs) > REQUESTS_MAX:
        yield too_many(f"{path}.config", len(configs), REQUESTS_MAX)
    else:
        for i, config in enumerate(configs):
            yield from check_opaque(config.opaque, f"{path}.config[{i}].opaque", stored=stored)
    name = spec.extended_resource_name
    if name is not None and not is_extended_resource_name(name):
        yield invalid(f"{path}.extendedResourceName", name, "must be a valid extended resource name")
