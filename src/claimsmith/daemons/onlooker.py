"""Follows pods, claims, slices and events of a cluster, and waits for what is to be seen in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from claimsmith.api.core import parse_event, parse_pod
from claimsmith.api.kinds import EVENT, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.api.resource import parse_resource_claim, parse_resource_slice
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.kube.client import KubeClient
from claimsmith.kube.reflector import Reflector
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.model.workload import Pod

__all__ = ["Onlooker", "SeenPod"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPod:
    """A pod that was seen running.

    Args:
        devices: What its claims had when it ran, shares with their amounts.
        env: Environment variables that devices brought to its containers.
    """

    pod: PodRef
    node: str
    devices: tuple[str, ...]
    env: tuple[str, ...]


class Onlooker:
    """Sees a cluster change.

    Args:
        client: The API server.
        logs: What containers print.
    """

    def __init__(self, client: KubeClient, logs: ContainerLogs) -> None:
        self._logs = logs
        self._changed = asyncio.Event()
        self._pods = Reflector(client, POD, parse_pod)
        self._claims = Reflector(client, RESOURCE_CLAIM, parse_resource_claim)
        self._slices = Reflector(client, RESOURCE_SLICE, parse_resource_slice)
        self._events = Reflector(client, EVENT, parse_event)
        self.seen: dict[PodRef, SeenPod] = {}
        """Every pod that was seen running, also when it has ended since."""
        self._pods.subscribe(self._see_pod)
        for reflector in (self._pods, self._claims, self._slices, self._events):
            reflector.subscribe(lambda *_: self._wake())

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in (self._claims, self._slices, self._events, self._pods):
                group.create_task(reflector.run())

    async def until(self, find: Callable[[], T | None]) -> T:
        """Return what `find` gives, as soon as that is not None; it is asked at each change."""
        while (found := find()) is None:
            await self._changed.wait()
        return found

    def find_pod(self, name: str, phase: str, namespace: str = "default") -> Pod | None:
        """Return a pod when it is in the phase."""
        pod = self._pods.find(namespace, name)
        return pod if pod is not None and pod.phase == phase else None

    def find_event(self, name: str, reason: str, namespace: str = "default") -> str | None:
        """Return the newest message of an event about a pod."""
        found = [
            event
            for event in self._events
            if (event.about.namespace, event.about.name, event.reason) == (namespace, name, reason)
        ]
        return (
            max(found, key=lambda event: (event.last_timestamp or "", event.metadata.name)).message if found else None
        )

    def find_tainted(self, device: str) -> DeviceId | None:
        """Return a published device of that name that has a taint."""
        return next(
            (
                DeviceId(*slice.pool_id, device)
                for slice in self._slices
                for published in slice.devices
                if published.name == device and published.taints
            ),
            None,
        )

    def list_pods(self) -> tuple[Pod, ...]:
        """Return all pods."""
        return tuple(self._pods)

    def list_claims(self) -> tuple[ResourceClaim, ...]:
        """Return all claims."""
        return tuple(self._claims)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.phase != "Running" or new.ref in self.seen:
            return
        claims = [claim for name in _claim_names(new) if (claim := self._claims.find(new.ref.namespace, name))]
        if any(claim.allocation is None for claim in claims) or len(claims) < len(_claim_names(new)):
            return
        self.seen[new.ref] = SeenPod(
            pod=new.ref,
            node=new.node_name,
            devices=tuple(text for claim in claims for text in _describe(claim)),
            env=self._read_env(new),
        )

    def _read_env(self, pod: Pod) -> tuple[str, ...]:
        lines = (line.text for c in pod.containers for line in self._logs.find_lines(pod.uid, c.name) or ())
        return tuple(dict.fromkeys(line.removeprefix("env ") for line in lines if line.startswith("env CLAIMSMITH_")))


def _claim_names(pod: Pod) -> tuple[str, ...]:
    names = [claim.claim_name or pod.claim_names.get(claim.name) for claim in pod.claims]
    return tuple(name for name in (*names, pod.extended_claim_name) if name)


def _describe(claim: ResourceClaim) -> tuple[str, ...]:
    results = claim.allocation.results if claim.allocation is not None else ()
    shares = (
        ", ".join(f"{name} {amount}" for name, amount in (result.consumed_capacity or {}).items()) for result in results
    )
    return tuple(
        f"{result.pool}/{result.device}" + (f" ({share})" if share else "")
        for result, share in zip(results, shares, strict=True)
    )
