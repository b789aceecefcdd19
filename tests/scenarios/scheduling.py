"""An embedded API server with scheduler and controllers on it, for tests of scheduling; nodes are objects alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from claimsmith.api.core_pods import parse_pod
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    EVENT,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from claimsmith.api.resource import parse_resource_claim
from claimsmith.daemons.scheduler import Scheduler, SchedulerOptions
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.controllers.all import Controllers
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers
from claimsmith.kube.reflector import Reflector
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.workload import Pod

DRIVER = "gpu.example.test"


def _message(event: dict[str, Any]) -> dict[str, Any]:
    return event


@dataclass(eq=False)
class Bench:
    """A running cluster, and what its API server shows."""

    client: KubeClient
    url: str
    pods: Reflector[Pod]
    claims: Reflector[ResourceClaim]
    events: Reflector[dict[str, Any]]
    scheduler: Scheduler
    informers: Informers
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        for reflector in (self.pods, self.claims, self.events):
            reflector.subscribe(self.hear)

    def hear(self, old: object, new: object) -> None:
        self.changed.set()

    async def until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Return once the condition holds; it is looked at after every change that the server shows."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self.changed.clear()
                    if not condition():
                        await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"not reached: {self.describe()}") from None

    def describe(self) -> str:
        pods = [f"{pod.metadata.name}@{pod.node_name or '-'}({pod.phase})" for pod in self.pods]
        claims = [f"{claim.ref.name}:{self.devices(claim.ref.name)}" for claim in self.claims]
        return f"pods {pods[:20]}, claims {claims[:20]}, messages {self.messages()[:20]}"

    def node_of(self, pod: str) -> str:
        found = self.pods.find("default", pod)
        return found.node_name if found else ""

    def claim(self, name: str) -> ResourceClaim | None:
        return self.claims.find("default", name)

    def devices(self, claim: str) -> list[str]:
        found = self.claim(claim)
        return [str(item.device_id) for item in found.allocation.results] if found and found.allocation else []

    def users(self, claim: str) -> list[str]:
        found = self.claim(claim)
        return [item.name for item in found.reserved_for] if found else []

    def messages(self, reason: str = "FailedScheduling") -> list[str]:
        return [event["message"] for event in self.events if event.get("reason") == reason]

    async def condition(self, kind: Kind, name: str, type: str, status: str) -> dict[str, Any]:
        """Return a condition of an object once it has a status."""
        async with asyncio.timeout(60):
            while True:
                found = await self.client.get(kind, name, namespace="default")
                for item in (found.get("status") or {}).get("conditions") or ():
                    if (item["type"], item["status"]) == (type, status):
                        return dict(item)

    async def add_node(self, name: str, *devices: str | dict[str, Any], **allocatable: str) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
        await self.client.create(NODE, {"metadata": {"name": name}})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        await self.client.patch(NODE, name, {"status": status}, subresource="status")
        if devices:
            await self.client.create(RESOURCE_SLICE, node_slice(name, devices))

    async def add_class(self, name: str = "gpu", *, driver: str = DRIVER, **spec: Any) -> None:
        spec["selectors"] = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
        await self.client.create(DEVICE_CLASS, {"metadata": {"name": name}, "spec": spec})

    async def add_template(self, name: str = "gpu", **exactly: Any) -> None:
        spec = {"spec": claim_spec(**exactly)}
        await self.client.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": meta(name), "spec": spec})

    async def add_claim(self, name: str, **exactly: Any) -> None:
        await self.client.create(RESOURCE_CLAIM, {"metadata": meta(name), "spec": claim_spec(**exactly)})

    async def add_pod(self, name: str, *claims: str, template: str = "", **spec: Any) -> None:
        await self.client.create(POD, pod_object(name, claims, template, spec))

    async def end_pod(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end, as its kubelet would report it."""
        await self.client.patch(POD, name, {"status": {"phase": phase}}, namespace="default", subresource="status")

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(POD, name, namespace="default", grace_period_s=0)


def meta(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default"}


def claim_spec(**exactly: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]}}


def request(name: str, **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def node_slice(node: str, devices: Iterable[str | dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": item} if isinstance(item, str) else item for item in devices],
        },
    }


def pod_object(name: str, claims: Iterable[str], template: str, spec: dict[str, Any]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [{"name": f"c{n}", "resourceClaimName": item} for n, item in enumerate(claims)]
    if template:
        entries.append({"name": "t", "resourceClaimTemplateName": template})
    container = {
        "name": "main",
        "image": "example.test/image:1",
        "resources": {"claims": [{"name": entry["name"]} for entry in entries], **spec.pop("resources", {})},
    }
    return {
        "metadata": meta(name),
        "spec": {
            "schedulerName": "claimsmith",
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
    }


@asynccontextmanager
async def api_server() -> AsyncIterator[str]:
    """Run an API server; gives its address."""
    async with EmbeddedApiServer(Store(stored_kinds())) as server:
        yield server.url


@asynccontextmanager
async def bench(
    *,
    options: SchedulerOptions | None = None,
    client: Callable[[str], KubeClient] = KubeClient.for_url,
    url: str = "",
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncIterator[Bench]:
    """Run scheduler and controllers, on a server of their own unless an address is given.

    `client` makes the client that scheduler and controllers use, such as one that fails at times.
    `now` is the controllers' time of day.
    """
    async with AsyncExitStack() as stack:
        address = url or await stack.enter_async_context(api_server())
        own, theirs = KubeClient.for_url(address), client(address)
        informers = Informers(own)
        scheduler = Scheduler(theirs, informers, options)
        controllers = Controllers(theirs, informers, quarantine_s=0.0, status_period_s=0.2, now=now)
        pods, claims = informers.of(POD, parse_pod), informers.of(RESOURCE_CLAIM, parse_resource_claim)
        found = Bench(own, address, pods, claims, informers.of(EVENT, _message), scheduler, informers)
        found.listen()
        tasks = [asyncio.create_task(run) for run in (informers.run(), scheduler.run(), controllers.run())]
        try:
            await asyncio.wait_for(scheduler.ready.wait(), 60)
            yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await own.close()
            await theirs.close()
