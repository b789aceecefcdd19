"""Identities as types, printed the Kubernetes way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ClaimRef", "CounterId", "DeviceId", "PodRef", "PoolId", "RequestName", "ShareId"]


class PoolId(NamedTuple):
    """A resource pool: its driver and its name (pool names of different drivers are independent)."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device in the cluster. Source: DeviceRequestAllocationResult of resource.k8s.io/v1."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def pool_id(self) -> PoolId:
        """The pool that holds the device."""
        return PoolId(self.driver, self.pool)


class ShareId(NamedTuple):
    """One share of a device that allows multiple allocations."""

    device: DeviceId
    share: str

    def __str__(self) -> str:
        return f"{self.device}/{self.share}"


class CounterId(NamedTuple):
    """One counter of one counter set of a pool."""

    counter_set: str
    counter: str

    def __str__(self) -> str:
        return f"{self.counter_set}/{self.counter}"


class ClaimRef(NamedTuple):
    """A ResourceClaim by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodRef(NamedTuple):
    """A Pod by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class RequestName:
    """A request of a claim, or one of its sub-requests; printed as `request` or `request/subrequest`."""

    request: str
    subrequest: str = ""

    def __str__(self) -> str:
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request

    @classmethod
    def parse(cls, text: str) -> RequestName:
        """Return the parts of `request` or `request/subrequest`."""
        request, _, subrequest = text.partition("/")
        return cls(request, subrequest)
