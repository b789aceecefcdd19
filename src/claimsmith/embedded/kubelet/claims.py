"""The claims of a pod as the API server has them, checked before a driver is called.

Source: prepareResources of pkg/kubelet/cm/dra/manager.go, and resourceclaim of k8s.io/dynamic-resource-allocation,
kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from claimsmith.api.kinds import RESOURCE_CLAIM, Kind
from claimsmith.api.resource import parse_resource_claim
from claimsmith.embedded.kubelet.plugins import ClaimCall
from claimsmith.embedded.kubelet.views import PodView
from claimsmith.errors import ApiError, InputError, NotFoundError, PodStartError
from claimsmith.model.claim import ResourceClaim

__all__ = [
    "ClaimReader",
    "FindClaim",
    "ObjectReader",
    "StoredClaims",
    "UsableClaim",
    "parse_usable_claim",
    "read_usable_claim",
]

_ALL: Final = "All"
_PREPARE: Final = frozenset({_ALL, "NodePrepareResources"})

FindClaim = Callable[[str, str], ResourceClaim | None]
"""Gets namespace and name; gives the claim as this process knows it, which may be a little old."""


class ClaimReader(Protocol):
    """Reads claims; what is known may be a little old, so that most pods cost no request."""

    def find_known(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as this process knows it; None when it does not."""
        ...

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """Return a claim as it is now.

        Raises:
            ApiError: It is not there, or can't be read.
            InputError: It has a form that this version does not know.
        """
        ...


class ObjectReader(Protocol):
    """What `StoredClaims` needs of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> Mapping[str, Any]:
        """Return one object."""
        ...


class StoredClaims:
    """Reads claims from the API server.

    Args:
        client: Access to the API server.
        known: Where claims may be known from, such as the `find` of a reflector; None: nowhere.
    """

    def __init__(self, client: ObjectReader, *, known: FindClaim | None = None) -> None:
        self._client, self._known = client, known

    def find_known(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as this process knows it; None when it does not."""
        return None if self._known is None else self._known(namespace, name)

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """Return a claim as it is now.

        Raises:
            ApiError: It is not there, or can't be read.
            InputError: It has a form that this version does not know.
        """
        return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, name, namespace=namespace))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableClaim:
    """A claim that a pod may use.

    Args:
        call: The claim as a driver is told of it.
        skips: Which calls each of its drivers can do without, in the order of the allocation's results.
    """

    call: ClaimCall
    skips: Mapping[str, tuple[str, ...]]

    @property
    def drivers(self) -> tuple[str, ...]:
        """Drivers that must prepare it."""
        return tuple(driver for driver, skipped in self.skips.items() if not _PREPARE & set(skipped))


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
    except NotFoundError as error:
        raise _refused(f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found') from error
    except (ApiError, InputError) as error:
        raise _refused(f"fetch ResourceClaim {name}: {error}") from error
    return parse_usable_claim(claim, pod, from_template=from_template)


def parse_usable_claim(claim: ResourceClaim, pod: PodView, *, from_template: bool) -> UsableClaim:
    """Return what a kubelet needs of a claim that a pod may use.

    Raises:
        PodStartError: It was made for another pod, is not reserved for this one, or not allocated.
    """
    name = claim.metadata.name
    if from_template and not _is_owned(claim, pod):
        raise _refused(f"ResourceClaim {claim.ref} was not created for Pod {pod} (Pod is not owner)")
    if not _is_reserved(claim, pod):
        raise _refused(f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {name} ({claim.uid})")
    if claim.allocation is None:
        raise _refused(f"ResourceClaim {name}: not allocated")
    return UsableClaim(
        call=ClaimCall(namespace=pod.namespace, name=name, uid=claim.uid),
        skips=_find_skips(claim),
    )


def _refused(message: str) -> PodStartError:
    return PodStartError(f"prepare dynamic resources: {message}", reason="FailedPrepareDynamicResources")


def _is_owned(claim: ResourceClaim, pod: PodView) -> bool:
    controllers = [owner for owner in claim.metadata.owner_references if owner.controller]
    if any(owner.uid == pod.uid for owner in controllers):
        return True
    return bool(pod.pod_group) and any(
        owner.kind == "PodGroup" and owner.name == pod.pod_group for owner in controllers
    )


def _is_reserved(claim: ResourceClaim, pod: PodView) -> bool:
    return any(
        consumer.uid == pod.uid or (pod.pod_group and consumer.is_pod_group and consumer.name == pod.pod_group)
        for consumer in claim.reserved_for
    )


def _find_skips(claim: ResourceClaim) -> dict[str, tuple[str, ...]]:
    """Return the calls that no device of a driver needs, by driver. Source: computeDriverStates in claiminfo.go."""
    by_driver: dict[str, list[frozenset[str]]] = {}
    for result in claim.allocation.results if claim.allocation is not None else ():
        by_driver.setdefault(result.driver, []).append(frozenset(result.skip_node_operations))
    return {driver: _common(devices) for driver, devices in by_driver.items()}


def _common(devices: Sequence[frozenset[str]]) -> tuple[str, ...]:
    if all(_ALL in skipped for skipped in devices):
        return (_ALL,)
    named = sorted({operation for skipped in devices for operation in skipped if operation != _ALL})
    return tuple(name for name in named if all(_ALL in skipped or name in skipped for skipped in devices))
