"""Small objects around pods: namespaces, events, bindings. Source: core/v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from claimsmith.model.metadata import Metadata
from claimsmith.model.names import PodRef

__all__ = ["Event", "Namespace", "ObjectRef", "PodBinding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace; its labels decide on admin access.

    Args:
        phase: Active or Terminating.
    """

    metadata: Metadata
    phase: str = "Active"

    @property
    def name(self) -> str:
        """Name of the namespace."""
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the namespace."""
        return self.metadata.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """The object that an event is about; the namespace is empty for cluster-wide kinds."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to an object.

    Args:
        type: Normal or Warning.
        reason: One word in upper camel case.
        component: Who reports it.
        count: How often it happened; >= 1.
        first_timestamp, last_timestamp: RFC 3339 text; None when not set.
    """

    metadata: Metadata
    about: ObjectRef
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    component: str = ""
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBinding:
    """A pod and the node that it goes to.

    Args:
        pod_uid: uid of the very pod that is meant; empty for any pod of the name.
    """

    pod: PodRef
    node_name: str
    pod_uid: str = ""
