"""What every API object carries. Source: ObjectMeta of meta/v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Metadata", "OwnerReference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """The object that another one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Name, labels and the server's bookkeeping of one object.

    Args:
        namespace: Empty for kinds without namespace.
        resource_version: Opaque text of the server; empty for objects that are not stored.
        creation_timestamp, deletion_timestamp: RFC 3339 text; None when not set.
    """

    name: str
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
