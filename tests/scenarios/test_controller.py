"""The controller on an embedded API server: pods whose claims could not be prepared are touched; one leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from claimsmith.api.kinds import LEASE, POD
from claimsmith.daemons.controller import CONTROLLER_NAME, ControllerOptions, run_controller
from claimsmith.daemons.controller_retries import FAILED_REASON, RETRY_ANNOTATION, RetryPolicy, RetryWatcher
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.lease import LeaseTimes
from claimsmith.kube.reflector import Handler, Reflector, Selection
from tests.scenarios.published_node import api_server
from tests.scenarios.scheduling import pod_object

NOW = 1_767_225_600.0
SOON = RetryPolicy(first_s=0.01, tries_max=2)
FAST = LeaseTimes(duration_s=1.0, renew_deadline_s=0.6, retry_s=0.05)


@contextlib.asynccontextmanager
async def watching(client: KubeClient) -> AsyncIterator[RetryWatcher]:
    """A watcher that works while the context is open."""
    watcher = RetryWatcher(client, policy=SOON, now_s=lambda: NOW)
    task = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(60):
            yield watcher
    finally:
        task.cancel()


async def make_pod(client: KubeClient, name: str, *, phase: str = "Pending") -> dict[str, Any]:
    await client.create(POD, pod_object(name, (), "", {}))
    return await client.patch(POD, name, {"status": {"phase": phase}}, namespace="default", subresource="status")


async def fail(client: KubeClient, pod: dict[str, Any], *, at_s: float = NOW, times: int = 1) -> None:
    """Record what a kubelet records when it could not prepare the claims of a pod."""
    recorder = EventRecorder(client, "kubelet", now=lambda: datetime.fromtimestamp(at_s, UTC))
    metadata = pod["metadata"]
    about = ObjectReference(kind=POD, namespace="default", name=metadata["name"], uid=metadata["uid"])
    for _ in range(times):
        recorder.record(about, "Warning", FAILED_REASON, "Failed to prepare dynamic resources: not yet")
        await recorder.flush()


async def wait_touched(client: KubeClient, name: str, value: str) -> None:
    """Return once a pod has the annotation with a value that begins so."""
    found = asyncio.Event()

    def look(_: Any, obj: dict[str, Any] | None) -> None:
        annotations = (obj or {}).get("metadata", {}).get("annotations") or {}
        if annotations.get(RETRY_ANNOTATION, "").startswith(value):
            found.set()

    handler: Handler[dict[str, Any]] = look
    reflector = Reflector(client, POD, lambda obj: obj, selection=Selection(field_selector=f"metadata.name={name}"))
    reflector.subscribe(handler)
    task = asyncio.create_task(reflector.run())
    try:
        await found.wait()
    finally:
        task.cancel()


async def test_a_pod_whose_claims_could_not_be_prepared_is_touched() -> None:
    async with api_server("node-a") as client, watching(client) as watcher:
        await fail(client, await make_pod(client, "train"))
        await wait_touched(client, "train", "1/")

        assert watcher.touched == 1


async def test_a_pod_that_fails_again_is_touched_again() -> None:
    async with api_server("node-a") as client, watching(client):
        pod = await make_pod(client, "train")
        await fail(client, pod)
        await wait_touched(client, "train", "1/")
        await fail(client, pod, at_s=NOW + 1)

        await wait_touched(client, "train", "2/")


async def test_a_pod_that_runs_by_now_is_left_alone() -> None:
    async with api_server("node-a") as client, watching(client) as watcher:
        await fail(client, await make_pod(client, "runs", phase="Running"))
        await fail(client, await make_pod(client, "waits"))
        await wait_touched(client, "waits", "1/")

        assert watcher.touched == 1


async def test_a_failure_of_long_ago_is_left_to_the_kubelet() -> None:
    async with api_server("node-a") as client, watching(client) as watcher:
        await fail(client, await make_pod(client, "old"), at_s=NOW - 300)
        await fail(client, await make_pod(client, "new"))
        await wait_touched(client, "new", "1/")

        assert watcher.touched == 1


async def test_another_pod_of_the_same_name_is_left_alone() -> None:
    async with api_server("node-a") as client, watching(client) as watcher:
        before = await make_pod(client, "train")
        await client.delete(POD, "train", namespace="default", grace_period_s=0)
        await make_pod(client, "train")
        await fail(client, before)
        await fail(client, await make_pod(client, "other"))
        await wait_touched(client, "other", "1/")

        assert watcher.touched == 1


async def wait_holder(client: KubeClient, *, other_than: str = "") -> str:
    """Return who leads once somebody does, who is not the one."""
    while True:
        listed = await client.list(LEASE, namespace="kube-system")
        names = {str(item["spec"]["holderIdentity"]) for item in listed.items} - {other_than, ""}
        if names:
            assert [item["metadata"]["name"] for item in listed.items] == [CONTROLLER_NAME]
            return names.pop()
        version = listed.resource_version
        async for event in client.watch(LEASE, namespace="kube-system", resource_version=version, timeout_s=5):
            if event.type != "BOOKMARK":
                break


async def test_of_two_controllers_one_leads_and_the_other_follows_it() -> None:
    async with api_server("node-a") as client, asyncio.timeout(60):
        tasks = {
            name: asyncio.create_task(
                run_controller(
                    client.for_manager(name),
                    ControllerOptions(namespace="kube-system", identity=name, times=FAST),
                )
            )
            for name in ("one", "two")
        }
        first = await wait_holder(client)
        tasks[first].cancel()
        second = await wait_holder(client, other_than=first)
        tasks[second].cancel()

        assert {first, second} == {"one", "two"}
