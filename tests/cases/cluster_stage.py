"""The stage of scripts about claims and pods: scheduler and controllers on an embedded API server.

Scheduler and controllers have a client each, whose writes are counted, and the controllers can be stopped alone. The
scheduler's clock passes only here: a little with every look at a state, and more where a script says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final

from claimsmith.api.kinds import EVENT, NODE, POD, RESOURCE_CLAIM
from claimsmith.daemons.scheduler import Scheduler
from claimsmith.embedded.controllers.all import Controllers
from claimsmith.errors import FieldError, NotFoundError
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.informers import Informers
from claimsmith.model.names import DeviceId
from tests.cases.casefile import check_fields
from tests.cases.flaky_transport import FlakyTransport
from tests.cases.scripts import Action, Check, Play, Step
from tests.cases.seeding import consumer_pod, create_claim, create_running_pod
from tests.cases.words import find_unsaid
from tests.scenarios.scheduling import api_server

_NODE: Final = "node-a"
_ROOM: Final = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
_WAIT_REQUESTS: Final = 100
_LOOK_S: Final = 0.02


class ClusterStage:
    """A cluster of one large node."""

    def __init__(self, url: str) -> None:
        self.client = KubeClient.for_url(url)
        self.transports = FlakyTransport(url), FlakyTransport(url)
        self._scheduler_client, self._controller_client = map(KubeClient, self.transports)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._now_s = 0.0
        informers = Informers(self._scheduler_client)
        self._scheduler = Scheduler(self._scheduler_client, informers, clock=lambda: self._now_s)
        self._start("scheduler", informers, self._scheduler.run())

    async def wait_ready(self) -> None:
        """Return once the scheduler schedules."""
        async with asyncio.timeout(60):
            await self._scheduler.ready.wait()

    async def start_controllers(self) -> None:
        """Start the controllers."""
        informers = Informers(self._controller_client)
        controllers = Controllers(self._controller_client, informers, quarantine_s=0.0)
        self._start("controllers", informers, controllers.run())
        await informers.wait_synced()

    def _start(self, name: str, informers: Informers, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run())
                group.create_task(work)

        self._tasks[name] = asyncio.create_task(run())

    async def stop(self, name: str) -> None:
        """Stop the scheduler or the controllers."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def breathe(self) -> None:
        await self._pass(_LOOK_S)

    async def wait(self, seconds: float) -> None:
        for _ in range(_WAIT_REQUESTS):
            await self._pass(seconds / _WAIT_REQUESTS)

    async def _pass(self, seconds: float) -> None:
        self._now_s += seconds
        self._scheduler.queue.look_again()
        await self.client.list(NODE)

    async def close(self) -> None:
        """Stop all and close the connections."""
        for name in list(self._tasks):
            await self.stop(name)
        for client in (self.client, self._scheduler_client, self._controller_client):
            await client.close()

    async def find(self, kind: Any, name: str) -> KubeObject | None:
        """Return an object of the default namespace; None when there is none."""
        with contextlib.suppress(NotFoundError):
            return await self.client.get(kind, name, namespace="default")
        return None

    def claim_writes(self, claim: str) -> int:
        """Number of writes to the status of a claim."""
        path = f"/resourceclaims/{claim}/status"
        return sum(count for item in self.transports for target, count in item.writes.items() if target.endswith(path))

    async def messages(self, pod: str) -> list[str]:
        """Return why a pod could not be scheduled."""
        events = (await self.client.list(EVENT)).items
        mine = (item for item in events if item["involvedObject"].get("name") == pod)
        return [item["message"] for item in mine if item["reason"] == "FailedScheduling"]


async def _seed(client: KubeClient, given: Mapping[str, Any]) -> None:
    """Create the node, the pods that run or have ended, and the claim that they use."""
    ready = [{"type": "Ready", "status": "True"}]
    await client.create(NODE, {"metadata": {"name": _NODE}})
    status = {"allocatable": _ROOM, "capacity": _ROOM, "conditions": ready}
    await client.patch(NODE, _NODE, {"status": status}, subresource="status")
    uids: dict[str, str] = {}
    for group in (given["generate"], given["also"]):
        check_fields(group, "pods", "name-format", "phase", "uses-claim", "in-reserved-for")
        for index in range(group["pods"]):
            name = group["name-format"] % index
            pod = consumer_pod(name, group["uses-claim"], _NODE)
            uids[name] = await create_running_pod(client, pod, group["phase"])
    await create_claim(client, _claim(given["claim"], uids), uids, default_node=_NODE)


def _claim(given: Mapping[str, Any], uids: Mapping[str, str]) -> dict[str, Any]:
    check_fields(given, "name", "namespace", "allocated", "node-selector")
    if given["node-selector"] != "none":
        raise FieldError("node-selector", given["node-selector"], allowed="none", hint="teach the stage this")
    devices = [DeviceId(*text.split("/")) for text in given["allocated"]]
    results = [{"request": "r", **device._asdict()} for device in devices]
    return {
        "metadata": {"name": given["name"], "namespace": given["namespace"]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()],
        },
    }


# --- actions ----------------------------------------------------------------------------------------------------------


async def _create_pod(stage: ClusterStage, step: Step) -> None:
    await stage.client.create(POD, consumer_pod(step["name"], step["uses-claim"]))


async def _stop_controllers(stage: ClusterStage, step: Step) -> None:
    await stage.stop("controllers")


async def _start_controllers(stage: ClusterStage, step: Step) -> None:
    await stage.start_controllers()


async def _delete_claim(stage: ClusterStage, step: Step) -> None:
    await stage.client.delete(RESOURCE_CLAIM, step["name"], namespace="default")


async def _delete_pods(stage: ClusterStage, step: Step) -> None:
    for pod in (await stage.client.list(POD)).items:
        if any(entry.get("resourceClaimName") == step["using"] for entry in pod["spec"].get("resourceClaims") or ()):
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            await stage.client.delete(POD, name, namespace=namespace, grace_period_s=0)


# --- states -----------------------------------------------------------------------------------------------------------


async def _users(stage: ClusterStage) -> list[str]:
    """Return who stands in `reservedFor` of the one claim."""
    (claim,) = (await stage.client.list(RESOURCE_CLAIM)).items
    return [item["name"] for item in claim["status"].get("reservedFor") or ()]


async def _count(stage: ClusterStage, wanted: int) -> str:
    found = len(await _users(stage))
    return "" if found == wanted else f"reserved for {found}, right is {wanted}"


async def _excludes(stage: ClusterStage, wanted: list[str]) -> str:
    found = sorted(set(await _users(stage)) & set(wanted))
    return f"reserved for {', '.join(found)}" if found else ""


async def _bound(stage: ClusterStage, wanted: str) -> str:
    pod = await stage.find(POD, wanted)
    return "" if pod and pod["spec"].get("nodeName") else f"{wanted} has no node: {await stage.messages(wanted)}"


async def _pending(stage: ClusterStage, wanted: str) -> str:
    pod = await stage.find(POD, wanted)
    if pod is None or pod["spec"].get("nodeName"):
        return f"{wanted} is gone or has a node"
    return "" if await stage.messages(wanted) else f"nothing is told of {wanted}"


async def _because(stage: ClusterStage, wanted: list[str]) -> str:
    """One message about some pod says it all."""
    events = [item["message"] for item in (await stage.client.list(EVENT)).items]
    told = [text for text in events if not find_unsaid(wanted, [text])]
    return "" if told else f"no event says {wanted}: {events}"


async def _writes(stage: ClusterStage, wanted: int) -> str:
    (claim,) = (await stage.client.list(RESOURCE_CLAIM)).items
    found = stage.claim_writes(claim["metadata"]["name"])
    return "" if found <= wanted else f"{found} writes, allowed {wanted}"


async def _gone(stage: ClusterStage, wanted: str) -> str:
    found = await stage.find(RESOURCE_CLAIM, wanted)
    return "" if found is None else f"{wanted} is there: {found['metadata']}"


_ACTIONS: Final = {
    "create-pod": Action(act=_create_pod, fields=frozenset({"name", "uses-claim"})),
    "stop-controller": Action(act=_stop_controllers),
    "start-controller": Action(act=_start_controllers),
    "delete-claim": Action(act=_delete_claim, fields=frozenset({"name"})),
    "delete-all-pods": Action(act=_delete_pods, fields=frozenset({"using"})),
}

_CHECKS: Final[Mapping[str, Check]] = {
    "reserved-for-count": _count,
    "reserved-for-excludes": _excludes,
    "pod-bound": _bound,
    "pod-pending": _pending,
    "because": _because,
    "claim-status-writes-at-most": _writes,
    "claim-gone": _gone,
}


@contextlib.asynccontextmanager
async def _enter(given: Mapping[str, Any]) -> AsyncIterator[ClusterStage]:
    """Enter the stage: all that is given is there before scheduler and controllers start."""
    async with api_server() as url:
        client = KubeClient.for_url(url)
        try:
            await _seed(client, given)
        finally:
            await client.close()
        stage = ClusterStage(url)
        try:
            await stage.wait_ready()
            await stage.start_controllers()
            yield stage
        finally:
            await stage.close()


CLUSTER_PLAY: Final = Play(
    given=frozenset({"claim", "generate", "also"}), actions=_ACTIONS, checks=_CHECKS, enter=_enter, variants={}
)
