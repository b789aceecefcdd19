"""Manifests to values of the model, whatever their kind and version, checked as `kubectl apply` would.

A field that its kind does not have is an error when the check is strict, else a warning that names the nearest known
field, and the field counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from claimsmith.api import core, policy, resource, scheduling
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    WORKLOAD,
    Kind,
    find_kind_of,
    get_kind_of,
)
from claimsmith.api.manifests import Manifest
from claimsmith.api.schema import SchemaIssue, check_object, prune_object
from claimsmith.api.versions import convert_to_hub
from claimsmith.errors import FieldError
from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup, Workload
from claimsmith.model.policy import DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.record import Namespace
from claimsmith.model.workload import Pod

__all__ = [
    "FormIssues",
    "ModelObject",
    "check_form",
    "check_manifest",
    "convert_manifest",
    "drop_unknown",
    "find_parser",
    "parse_manifest",
    "parse_objects",
]

ModelObject: TypeAlias = (
    ResourceSlice
    | ResourceClaim
    | ResourceClaimTemplate
    | DeviceClass
    | DeviceTaintRule
    | Pod
    | PodGroup
    | Workload
    | Node
    | Namespace
    | DisruptionBudget
    | ResourceQuota
    | PriorityClass
)
"""What manifests of the kinds that the model knows become."""

_Parser: TypeAlias = Callable[..., ModelObject]

_PARSERS: Final[Mapping[Kind, _Parser]] = MappingProxyType(
    {
        RESOURCE_SLICE: resource.parse_resource_slice,
        RESOURCE_CLAIM: resource.parse_resource_claim,
        RESOURCE_CLAIM_TEMPLATE: resource.parse_resource_claim_template,
        DEVICE_CLASS: resource.parse_device_class,
        DEVICE_TAINT_RULE: resource.parse_device_taint_rule,
        POD: core.parse_pod,
        POD_GROUP: scheduling.parse_pod_group,
        WORKLOAD: scheduling.parse_workload,
        NODE: core.parse_node,
        NAMESPACE: core.parse_namespace,
        POD_DISRUPTION_BUDGET: policy.parse_budget,
        RESOURCE_QUOTA: policy.parse_quota,
        PRIORITY_CLASS: policy.parse_priority_class,
    }
)


def find_parser(kind: Kind) -> Callable[..., ModelObject] | None:
    """Return the `parse_*` function of a kind; None for kinds that the model does not know, such as Lease."""
    return _PARSERS.get(kind.hub)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormIssues:
    """Where a manifest differs from the form of its kind.

    Args:
        wrong: Values of a wrong type, and too deep nesting: the manifest can't be used.
        unknown: Fields that the kind does not have, each with the nearest known name.
    """

    wrong: tuple[FieldError, ...] = ()
    unknown: tuple[FieldError, ...] = ()


def check_form(manifest: Manifest) -> FormIssues:
    """Return where a manifest differs from the form of its kind, each place with file, document and line.

    Raises:
        InputError: The kind is missing or unknown.
    """
    issues = _gather_issues(manifest)
    return FormIssues(
        wrong=tuple(_to_error(manifest, issue) for issue in issues if issue.kind != "unknown"),
        unknown=tuple(_to_error(manifest, issue) for issue in issues if issue.kind == "unknown"),
    )


def check_manifest(manifest: Manifest, *, strict: bool = True) -> tuple[FieldError, ...]:
    """Return why a manifest can't be used: wrong types, and unknown fields if `strict`; empty when it can.

    Raises:
        InputError: The kind is missing or unknown.
    """
    issues = _gather_issues(manifest)
    return tuple(_to_error(manifest, issue) for issue in issues if strict or issue.kind != "unknown")


def _gather_issues(manifest: Manifest) -> tuple[SchemaIssue, ...]:
    kind = _kind_of(manifest)
    return check_object(dict(manifest.object), kind.wire_type)


def _kind_of(manifest: Manifest) -> Kind:
    """Return the kind; its place is only looked up for the message, since that reads the whole text."""
    return find_kind_of(manifest.object) or get_kind_of(manifest.object, source=manifest.locate())


def drop_unknown(manifest: Manifest) -> Manifest:
    """Return a manifest without the fields that its kind does not have, and without fields that are null.

    Args:
        manifest: Its form is sound apart from unknown fields (see `check_form`).

    Raises:
        InputError: The kind is missing or unknown.
    """
    kind = _kind_of(manifest)
    return replace(manifest, object=prune_object(manifest.object, kind.wire_type))


def convert_manifest(manifest: Manifest) -> Manifest:
    """Return a manifest in the version in which its object is kept; itself when it has that version.

    A place that only the newer version has is found in the text as its nearest parent.

    Args:
        manifest: Its form has been checked (see `check_manifest`).

    Raises:
        InputError: The kind is missing or unknown.
    """
    kind = _kind_of(manifest)
    return manifest if kind.hub is kind else replace(manifest, object=convert_to_hub(manifest.object, kind))


def _to_error(manifest: Manifest, issue: SchemaIssue) -> FieldError:
    """Return an issue as an error that names the place, and quotes what YAML has taken for something else."""
    place = manifest.find_place(issue.path)
    found: Any = issue.found
    if place is not None and place.text and not isinstance(found, str) and issue.kind == "type":
        written = place.text
        if str(found) != written and str(found).lower() != written:
            hint = f"{issue.hint} (YAML reads {written[:40]} as {str(found).lower()[:40]})"
            return FieldError(issue.path, found, allowed=issue.allowed, hint=hint, source=manifest.locate(issue.path))
    return issue.to_error(source=manifest.locate(issue.path))


def parse_manifest(manifest: Manifest, *, namespace: str = "default", strict: bool = True) -> ModelObject | None:
    """Return the value of a manifest; None for kinds that the model does not know, such as ServiceAccount.

    Args:
        manifest: One object of a text.
        namespace: Where an object goes that names no namespace but needs one.
        strict: Refuse unknown fields instead of leaving them out.

    Raises:
        FieldError: A field is unknown or holds what is not allowed; the message names text, document and line.
        InputError: The kind is missing or unknown.
    """
    for error in check_manifest(manifest, strict=strict):
        raise error
    kind = get_kind_of(manifest.object)
    parser = find_parser(kind)
    if parser is None:
        return None
    try:
        return parser(_with_namespace(manifest.object, namespace) if kind.namespaced else manifest.object)
    except FieldError as error:
        raise FieldError(
            error.path, error.found, allowed=error.allowed, hint=error.hint, source=manifest.locate(error.path)
        ) from error


def _with_namespace(obj: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """Return an object with a namespace, its own if it has one."""
    metadata = obj.get("metadata") or {}
    if metadata.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": namespace}}


def parse_objects(
    manifests: Iterable[Manifest], *, namespace: str = "default", strict: bool = True
) -> tuple[ModelObject, ...]:
    """Return the values of manifests, without those of kinds that the model does not know.

    Args:
        manifests: Objects of one or several texts.
        namespace: Where an object goes that names no namespace but needs one.
        strict: Refuse unknown fields instead of leaving them out.

    Raises:
        FieldError: A field is unknown or holds what is not allowed; the message names text, document and line.
        InputError: A kind is missing or unknown.
    """
    values = (parse_manifest(manifest, namespace=namespace, strict=strict) for manifest in manifests)
    return tuple(value for value in values if value is not None)
