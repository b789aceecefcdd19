"""Manifests to values of the model, whatever their kind, checked strictly as `kubectl apply` would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from claimsmith.api import core, resource
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
    get_kind_of,
)
from claimsmith.api.manifests import Manifest
from claimsmith.api.schema import SchemaIssue, check_object
from claimsmith.errors import FieldError
from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.record import Namespace
from claimsmith.model.workload import Pod

__all__ = ["ModelObject", "check_manifest", "find_parser", "parse_manifest", "parse_objects"]

ModelObject: TypeAlias = (
    ResourceSlice | ResourceClaim | ResourceClaimTemplate | DeviceClass | DeviceTaintRule | Pod | Node | Namespace
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
        NODE: core.parse_node,
        NAMESPACE: core.parse_namespace,
    }
)


def find_parser(kind: Kind) -> Callable[..., ModelObject] | None:
    """Return the `parse_*` function of a kind; None for kinds that the model does not know, such as Lease."""
    return _PARSERS.get(kind)


def check_manifest(manifest: Manifest) -> tuple[FieldError, ...]:
    """Return what is wrong with the form of a manifest: unknown fields, wrong types; empty when it is sound.

    Raises:
        InputError: The kind is missing or unknown.
    """
    kind = get_kind_of(manifest.object, source=manifest.locate())
    return tuple(_to_error(manifest, issue) for issue in check_object(dict(manifest.object), kind.wire_type))


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


def parse_manifest(manifest: Manifest, *, namespace: str = "default") -> ModelObject | None:
    """Return the value of a manifest; None for kinds that the model does not know, such as ServiceAccount.

    Args:
        manifest: One object of a text.
        namespace: Where an object goes that names no namespace but needs one.

    Raises:
        FieldError: A field is unknown or holds what is not allowed; the message names text, document and line.
        InputError: The kind is missing or unknown.
    """
    for error in check_manifest(manifest):
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


def parse_objects(manifests: Iterable[Manifest], *, namespace: str = "default") -> tuple[ModelObject, ...]:
    """Return the values of manifests, without those of kinds that the model does not know.

    Args:
        manifests: Objects of one or several texts.
        namespace: Where an object goes that names no namespace but needs one.

    Raises:
        FieldError: A field is unknown or holds what is not allowed; the message names text, document and line.
        InputError: A kind is missing or unknown.
    """
    values = (parse_manifest(manifest, namespace=namespace) for manifest in manifests)
    return tuple(value for value in values if value is not None)
