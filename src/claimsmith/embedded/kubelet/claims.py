"""The claims of a pod as the API server has them, checked before a driver is called.

Source: prepareResources of pkg/kubelet/cm/dra/manager.go, and resourceclaim of k8s.io/dynamic-resource-allocation,
kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from claimsmith.api.kinds import RESOURCE_CLAIM, Kind
from claimsmith.embedded.kubelet.plugins import ClaimCall
from claimsmith.embedded.kubelet.views import PodView
from claimsmith.errors import ApiError, PodStartError

__all__ = [
    "ClaimReader",
    "ObjectReader",
    "StoredClaims",
    "UsableClaim",
    "parse_usable_claim",
    "read_usable_claim",
]

JsonObject = Mapping[str, Any]


class ClaimReader(Protocol):
    """Reads claims; the first answer may be a little old, so that most pods cost no request."""

    def find_known(self, namespace: str, name: str) -> JsonObject | None:
        """Return a claim as this process knows it; None when it does not."""
        ...

    async def get_claim(self, namespace: str, name: str) -> JsonObject:
        """Return a claim as it is now.

        Raises:
            ApiError: It is not there, or can't be read.
        """
        ...


class ObjectReader(Protocol):
    """What `StoredClaims` needs of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""
        ...


class StoredClaims:
    """Reads claims from the API server each time."""

    def __init__(self, client: ObjectReader) -> None:
        self._client = client

    def find_known(self, namespace: str, name: str) -> JsonObject | None:
        """Return None: nothing is known without asking."""
        return None

    async def get_claim(self, namespace: str, name: str) -> JsonObject:
        """Return a claim as it is now.

        Raises:
            ApiError: It is not there, or can't be read.
        """
        return await self._client.get(RESOURCE_CLAIM, name, namespace=namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableClaim:
    """A claim that a pod may use.

    Args:
        drivers: Drivers that must prepare it.
        undo: Drivers that must unprepare it; one may skip either.
    """

    call: ClaimCall
    drivers: tuple[str, ...]
    undo: tuple[str, ...]


async def read_usable_claim(reader: ClaimReader, pod: PodView, name: str, *, from_template: bool) -> UsableClaim:
    """Return a claim of a pod, from what is known if that will do, else as it is now.

    Raises:
        PodStartError: The pod may not use it, or it can't be read.
    """
    known = reader.find_known(pod.namespace, name)
    if known is not None:
        try:
            return parse_usable_claim(known, pod, from_template=from_template)
        except PodStartError:
            pass  # What is known may be older than the pod's binding.
    try:
        claim = await reader.get_claim(pod.namespace, name)
    except ApiError as error:
        raise _refused(f"fetch ResourceClaim {name}: {error}") from error
    return parse_usable_claim(claim, pod, from_template=from_template)


def parse_usable_claim(claim: JsonObject, pod: PodView, *, from_template: bool) -> UsableClaim:
    """Return what a kubelet needs of a claim that a pod may use.

    Raises:
        PodStartError: It was made for another pod, is not reserved for this one, or not allocated.
    """
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    if from_template and not _is_owned(metadata, pod):
        raise _refused(f"ResourceClaim {pod.namespace}/{name} was not created for Pod {pod} (Pod is not owner)")
    if not _is_reserved(status, pod):
        raise _refused(f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {name} ({uid})")
    allocation = status.get("allocation")
    if not allocation:
        raise _refused(f"ResourceClaim {name}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or ()
    return UsableClaim(
        call=ClaimCall(namespace=pod.namespace, name=name, uid=uid),
        drivers=_drivers(results, "NodePrepareResources"),
        undo=_drivers(results, "NodeUnprepareResources"),
    )


def _refused(message: str) -> PodStartError:
    return PodStartError(f"prepare dynamic resources: {message}", reason="FailedPrepareDynamicResources")


def _is_owned(metadata: JsonObject, pod: PodView) -> bool:
    owners = metadata.get("ownerReferences") or ()
    controllers = [owner for owner in owners if owner.get("controller")]
    if any(owner.get("uid") == pod.uid for owner in controllers):
        return True
    return bool(pod.pod_group) and any(
        owner.get("kind") == "PodGroup" and owner.get("name") == pod.pod_group for owner in controllers
    )


def _is_reserved(status: JsonObject, pod: PodView) -> bool:
    return any(
        consumer.get("uid") == pod.uid
        or (pod.pod_group and consumer.get("resource") == "podgroups" and consumer.get("name") == pod.pod_group)
        for consumer in status.get("reservedFor") or ()
    )


def _drivers(results: Any, operation: str) -> tuple[str, ...]:
    """Return the drivers of which at least one device does not skip an operation, in the order of the results."""
    found = (
        result.get("driver", "")
        for result in results
        if not {operation, "All"} & set(result.get("skipNodeOperations") or ())
    )
    return tuple(dict.fromkeys(found))
