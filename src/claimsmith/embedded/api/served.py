"""The kinds that the embedded API server serves, each with what the store and the selectors need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from claimsmith.api.kinds import KINDS, Kind
from claimsmith.api.shapes import Shape, get_shape
from claimsmith.api.wire.base import Wire
from claimsmith.embedded.store_kinds import StoredKind

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
        stored: What the store knows about it.
    """

    kind: Kind
    stored: StoredKind

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
        version=kind.version,
        kind=kind.kind,
        plural=plural,
        namespaced=kind.namespaced,
        has_status=kind.has_status,
        counts_generation=plural in _COUNTS_GENERATION,
        status_carries_metadata=plural in _STATUS_CARRIES_METADATA,
        indexed_fields=_INDEXED.get(plural, ()),
    )
    return ServedKind(kind, stored)


SERVED: Final[tuple[ServedKind, ...]] = tuple(_serve(kind) for kind in KINDS)
"""All kinds, ordered by group, then kind."""

_BY_RESOURCE: Final = MappingProxyType({(s.kind.group, s.kind.version, s.kind.plural): s for s in SERVED})
_BY_KEY: Final = MappingProxyType({s.stored.key: s for s in SERVED})


def find_served(group: str, version: str, plural: str) -> ServedKind | None:
    """Return the kind behind a path of the API; None if it is not served."""
    return _BY_RESOURCE.get((group, version, plural))


def get_kind(kind: Kind) -> ServedKind:
    """Return the served form of an entry of the registry of kinds."""
    return _BY_RESOURCE[kind.group, kind.version, kind.plural]


def get_served(stored: StoredKind) -> ServedKind:
    """Return the served kind of a stored one."""
    return _BY_KEY[stored.key]


def stored_kinds() -> tuple[StoredKind, ...]:
    """Return the kinds that a store of this server keeps."""
    return tuple(served.stored for served in SERVED if served.kind.is_listable)
