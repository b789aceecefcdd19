"""What the store has to know about a kind: its key, its scope and which parts a write may touch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StoredKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind:
    """One kind of object that the store keeps.

    Args:
        group: API group; empty for the core group.
        version: Version of the API in which objects are kept.
        kind: Name of the kind, such as `ResourceClaim`.
        plural: Name in the path of the API, such as `resourceclaims`.
        namespaced: Whether objects live in a namespace.
        has_status: Whether `status` is written through its own subresource only.
        counts_generation: Whether `metadata.generation` rises when the wanted state changes.
        status_carries_metadata: Whether a status write may also change labels and annotations,
            as it may for pods and nodes.
        indexed_fields: Field paths with their own watcher index, such as `spec.nodeName`.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    has_status: bool = True
    counts_generation: bool = False
    status_carries_metadata: bool = False
    indexed_fields: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the name of the kind that is unique in a cluster, such as `resource.k8s.io/resourceclaims`."""
        return f"{self.group}/{self.plural}"

    @property
    def resource(self) -> str:
        """Return the kind as messages of Kubernetes write it, such as `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """Return `apiVersion` of the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version
