"""Claim templates that controllers of other projects make for their own objects: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from claimsmith.api.manifests import Manifest
from claimsmith.model.names import ClaimRef

__all__ = ["find_made_templates"]

_FIELD: Final = "resourceClaimTemplate"


def find_made_templates(manifests: Iterable[Manifest]) -> frozenset[ClaimRef]:
    """Return the claim templates that objects of unknown kinds name as theirs, by a field `resourceClaimTemplate.name`.

    A ComputeDomain has that at `spec.channel`: its controller makes the template, in the namespace of the object. The
    field of pods, `resourceClaimTemplateName`, says nothing of who makes it.

    Source: api/nvidia.com/resource/v1beta1/computedomain.go in NVIDIA/k8s-dra-driver-gpu.
    """
    return frozenset(ref for manifest in manifests for ref in _list_named(manifest.object))


def _list_named(obj: Mapping[str, object]) -> Iterator[ClaimRef]:
    metadata = obj.get("metadata")
    namespace = str(metadata.get("namespace") or "default") if isinstance(metadata, Mapping) else "default"
    pending: list[object] = [obj.get("spec")]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            template = value.get(_FIELD)
            name = template.get("name") if isinstance(template, Mapping) else None
            if isinstance(name, str) and name:
                yield ClaimRef(namespace, name)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
