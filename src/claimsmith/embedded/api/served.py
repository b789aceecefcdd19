"""The kinds that the embedded API server serves, each with what the store and the selectors need to know.

Objects are kept and worked on in one version, the hub. Those of other versions are converted where requests come in and
answers go out.

Deviates: older-versions, other-groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from claimsmith.api.kinds import SERVED_KINDS, Kind
from claimsmith.api.shapes import Shape, get_shape
from claimsmith.api.versions import convert_from_hub, convert_to_hub
from claimsmith.api.wire.base import Wire
from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.embedded.store_records import JsonObject

__all__ = ["SERVED", "ServedKind", "find_served", "get_kind", "get_served", "stored_kinds"]

_COUNTS_GENERATION: Final = frozenset({"pods", "resourceslices", "deviceclasses", "devicetaintrules"})
_STATUS_CARRIES_METADATA: Final = frozenset({"pods", "nodes"})
_INDEXED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"pods": ("spec.nodeName",), "resourceslices": ("spec.nodeName",)}
)
_FIELD_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "pods": (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "nodes": ("spec.unschedulable",),
        "namespaces": ("status.phase",),
        "resourceslices": ("spec.nodeName", "spec.driver", "spec.pool.name"),
        "devicereports": ("spec.nodeName", "spec.driver"),
        "events": (
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
    }
)
_EXTRA_SUBRESOURCES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"pods": ("binding", "eviction", "log")})


@dataclass(frozen=True)
class ServedKind:
    """One kind that is served.

    Args:
        kind: Its entry in the registry of kinds.
        stored: What the store knows about it, in the version in which it keeps the objects.
    """

    kind: Kind
    stored: StoredKind

    @property
    def is_hub(self) -> bool:
        """Return whether objects are kept in this version."""
        return self.kind.hub is self.kind

    @cached_property
    def hub(self) -> ServedKind:
        """Return the same kind in the version in which objects are kept; most often itself."""
        return get_kind(self.kind.hub)

    def to_hub(self, value: JsonObject) -> JsonObject:
        """Return an object of this version, normalized, as it is kept."""
        return value if self.is_hub else convert_to_hub(value, self.kind)

    def from_hub(self, value: JsonObject) -> JsonObject:
        """Return a kept object in this version; what need not change is shared with it."""
        return value if self.is_hub else convert_from_hub(value, self.kind)

    @property
    def subresources(self) -> tuple[str, ...]:
        """Return the subresources besides `status`."""
        return tuple(dict.fromkeys((*self.kind.subresources, *_EXTRA_SUBRESOURCES.get(self.kind.plural, ()))))

    @cached_property
    def wire_type(self) -> type[Wire]:
        """Return the Struct of one object."""
        return self.kind.wire_type

    @cached_property
    def shape(self) -> Shape:
        """Return the fields of the kind as data."""
        return get_shape(self.wire_type)

    @cached_property
    def field_labels(self) -> frozenset[str]:
        """Return the paths that field selectors may name."""
        common = {"metadata.name"} | ({"metadata.namespace"} if self.kind.namespaced else set())
        return frozenset(common) | frozenset(_FIELD_LABELS.get(self.kind.plural, ()))

    def normalize(self, value: Any) -> Any:
        """Return an object without the fields that its type does not have and without nulls.

        Args:
            value: What JSON decoded to.

        Raises:
            msgspec.ValidationError: A field has the wrong form.
        """
        return msgspec.to_builtins(msgspec.convert(value, self.wire_type))


def _serve(kind: Kind) -> ServedKind:
    plural = kind.plural
    stored = StoredKind(
        group=kind.group,
        version=kind.hub.version,
        kind=kind.kind,
        plural=plural,
        namespaced=kind.namespaced,
        has_status=kind.has_status,
        counts_generation=plural in _COUNTS_GENERATION,
        status_carries_metadata=plural in _STATUS_CARRIES_METADATA,
        indexed_fields=_INDEXED.get(plural, ()),
    )
    return ServedKind(kind, stored)


SERVED: Final[tuple[ServedKind, ...]] = tuple(_serve(kind) for kind in SERVED_KINDS)
"""All kinds in all versions; of each kind the version in which it is kept comes first."""

_BY_RESOURCE: Final = MappingProxyType({(s.kind.group, s.kind.version, s.kind.plural): s for s in SERVED})
_BY_KEY: Final = MappingProxyType({s.stored.key: s for s in SERVED if s.is_hub})


def find_served(group: str, version: str, plural: str) -> ServedKind | None:
    """Return the kind behind a path of the API; None if it is not served."""
    return _BY_RESOURCE.get((group, version, plural))


def get_kind(kind: Kind) -> ServedKind:
    """Return the served form of an entry of the registry of kinds."""
    return _BY_RESOURCE[kind.group, kind.version, kind.plural]


def get_served(stored: StoredKind) -> ServedKind:
    """Return the served kind of a stored one, in the version in which it is kept."""
    return _BY_KEY[stored.key]


def stored_kinds() -> tuple[StoredKind, ...]:
    """Return the kinds that a store of this server keeps."""
    return tuple(served.stored for served in SERVED if served.is_hub and served.kind.is_listable)
