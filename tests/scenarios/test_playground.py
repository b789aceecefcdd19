"""The embedded cluster in one process: what it starts goes when it ends, and a failing part ends it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimsmith.api.kinds import NODE, POD
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.clusterplan import ClusterPlan, plan_cluster
from claimsmith.daemons.onlooker import Onlooker
from claimsmith.daemons.playground import Playground, PlaygroundOptions
from claimsmith.errors import InputError
from claimsmith.model.names import PodRef
from tests.scenarios.one_card import ONE_CARD

CLUSTER = (
    """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec: {nodes: [alpha, beta], driver: gpu.example.com, gpus: [{model: T4, count: 4}]}
"""
    + ONE_CARD
)


def pods(count: int) -> str:
    return "".join(
        f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: pod-{number}, namespace: default, annotations: {{claimsmith.dev/run-for: 50ms}}}}
spec:
  restartPolicy: Never
  containers: [{{name: main, image: 'x:1', resources: {{claims: [{{name: gpu}}]}}}}]
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]
"""
        for number in range(count)
    )


def plan(*texts: str) -> ClusterPlan:
    return plan_cluster(parse_manifests("".join(texts), source="files"))


def tasks() -> Counter[str]:
    """Return the names of all tasks but this test's and those without a name of their own."""
    names = (task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
    return Counter(name for name in names if not name.startswith("Task-"))


async def wait_ended(playground: Playground, count: int) -> None:
    """Wait until so many pods have ended and no claim is left."""
    async with asyncio.TaskGroup() as group:
        onlooker = Onlooker(playground.client, playground.logs)
        follower = group.create_task(onlooker.run())

        def has_ended() -> bool | None:
            phases = [pod.phase for pod in onlooker.list_pods()]
            return (phases == ["Succeeded"] * count and not onlooker.list_claims()) or None

        async with asyncio.timeout(60):
            await onlooker.until(has_ended)
        follower.cancel()


def count_sockets(folder: Path) -> int:
    return sum(path.is_socket() for path in folder.rglob("*"))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        yield Path(folder)


REQUESTS_UNTIL_QUIET = 300
"""How many requests may be answered until what a change has set off has ended."""


async def find_lasting_tasks(playground: Playground) -> Counter[str]:
    """Return the tasks that are there again and again while requests are answered: the others end by themselves."""
    lasting = tasks()
    for _ in range(REQUESTS_UNTIL_QUIET):
        await playground.client.get(NODE, "alpha")
        lasting &= tasks()
    return lasting


async def test_pods_leave_no_task_behind() -> None:
    async with Playground(plan(CLUSTER)) as playground:
        before = await find_lasting_tasks(playground)
        for item in plan(pods(20)).objects:
            await playground.create(item)
        await wait_ended(playground, 20)
        after = await find_lasting_tasks(playground)

    assert after == before


async def test_the_end_of_a_cluster_leaves_no_task_and_no_thread() -> None:
    threads = {thread.name for thread in threading.enumerate()}
    async with Playground(plan(CLUSTER, pods(3))) as playground:
        await wait_ended(playground, 3)

    assert asyncio.all_tasks() == {asyncio.current_task()}
    left = {thread.name for thread in threading.enumerate()} - threads
    assert not {name for name in left if name.startswith("driver-")}


async def test_a_folder_of_the_user_keeps_no_socket(short_folder: Path) -> None:
    async with Playground(plan(CLUSTER), PlaygroundOptions(folder=short_folder)):
        serving = count_sockets(short_folder)

    assert (serving, count_sockets(short_folder)) == (8, 0)


async def test_an_object_that_the_server_refuses_is_named_with_its_place() -> None:
    admin = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: all, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, adminAccess: true}}]}}
"""
    with pytest.RaisesGroup(pytest.RaisesExc(InputError, match="files, document 4, line 1")):
        async with Playground(plan(CLUSTER, admin)):
            pass

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_settings_that_the_driver_refuses_end_the_start() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Playground(plan(CLUSTER.replace("T4", "T400"))):
            pass

    assert caught.group_contains(InputError, match="spec.gpus\\[0\\].model: found 'T400'")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_object_that_is_there_stays_as_it_is() -> None:
    async with Playground(plan(CLUSTER, pods(1))) as playground:
        before = await playground.client.get(NODE, "alpha")
        (item,) = plan(pods(1)).objects
        await playground.create(item)

        assert (await playground.client.get(NODE, "alpha"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert len((await playground.client.list(POD)).items) == 1


async def test_an_onlooker_sees_pods_that_have_ended_since() -> None:
    async with Playground(plan(CLUSTER)) as playground, asyncio.TaskGroup() as group:
        onlooker = Onlooker(playground.client, playground.logs)
        follower = group.create_task(onlooker.run())
        (item,) = plan(pods(1)).objects
        await playground.create(item)
        async with asyncio.timeout(60):
            await onlooker.until(lambda: onlooker.find_pod("pod-0", "Succeeded"))
        follower.cancel()

    seen = onlooker.seen[PodRef("default", "pod-0")]
    assert seen.devices in (("alpha/gpu-0",), ("beta/gpu-0",))
    assert any(line.startswith("CLAIMSMITH_GPU_0=GPU-") for line in seen.env)
