"""Pods on an embedded node: from bound to gone, through the driver's real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from claimsmith.api.kinds import NODE as NODES
from claimsmith.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.embedded.kubelet.sources import PodDispatcher, bound_pods
from claimsmith.errors import NotFoundError
from claimsmith.testing.builders import result
from tests.scenarios.embedded_node import NODE, EmbeddedNode, embedded_node, task, uid_of
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


@pytest.fixture
def driver() -> RecordingDriver:
    return RecordingDriver()


def failing(*operations: str) -> Callable[[str], None]:
    """Return what fails the first calls of a driver: one of each operation named."""
    left = list(operations)

    def fail(operation: str) -> None:
        if operation in left:
            left.remove(operation)
            raise RuntimeError("no power")

    return fail


async def test_the_node_is_in_the_api_server_with_its_capacity_and_ready(node: EmbeddedNode) -> None:
    async with node.running():
        found = await node.client.get(NODES, NODE)

    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
    assert found["status"]["allocatable"] == {"cpu": "16", "memory": "64Gi", "pods": "110"}
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "True"


async def test_a_restart_keeps_amounts_that_others_have_set(node: EmbeddedNode) -> None:
    async with node.running():
        patch = {"status": {"capacity": {"example.test/tape": "3"}}}
        await node.client.patch(NODES, NODE, patch, subresource="status")
    async with node.running(node.new_kubelet()):
        found = await node.client.get(NODES, NODE)

    assert found["status"]["capacity"] == {"cpu": "16", "memory": "64Gi", "pods": "110", "example.test/tape": "3"}


async def test_a_node_that_is_deleted_and_made_again_is_ready_soon(node: EmbeddedNode) -> None:
    async with node.running() as kubelet:
        await node.client.delete(NODES, NODE)
        await node.client.create(NODES, {"metadata": {"name": NODE}})
        async with asyncio.timeout(60):
            while not (status := (await node.client.get(NODES, NODE)).get("status") or {}).get("conditions"):
                node.time.advance(10)
                await kubelet.check_plugins()

    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["allocatable"] == {"cpu": "16", "memory": "64Gi", "pods": "110"}


async def test_the_start_of_a_kubelet_removes_the_slices_of_its_node_alone(node: EmbeddedNode) -> None:
    for index, name in enumerate((NODE, "node-b")):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": []}
        await node.client.create(RESOURCE_SLICE, {"metadata": {"name": f"slice-{index}"}, "spec": spec})
    async with node.running():
        left = await node.client.list(RESOURCE_SLICE)

    assert [item["spec"]["nodeName"] for item in left.items] == ["node-b"]


async def test_a_container_sees_what_the_driver_prepared(node: EmbeddedNode, driver: RecordingDriver) -> None:
    async with node.running(), node.serving(driver):
        pod, _ = await node.run_pod("p", "gpu-0")
        status = pod["status"]

        assert "env DEVICE_GPU_0=gpu-0" in node.output(pod)
        assert "device /dev/gpu-0 c 240:0 rwm" in node.output(pod)
        assert status["podIP"].startswith("10.244.0.")
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        assert status["containerStatuses"][0]["state"]["running"]


async def test_a_pod_ends_after_its_time_and_leaves_nothing_prepared(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.running(), node.serving(driver) as plugin:
        pod, claim = await node.run_pod("p", "gpu-0")
        node.time.advance(2)
        ended = await node.reaches("p", "Succeeded")

        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert driver.calls == [("prepare", claim), ("unprepare", claim)]
        assert (plugin.prepared(), node.kubelet.claims.states(), list(node.paths.cdi.iterdir())) == ((), (), [])
        assert "env DEVICE_GPU_0=gpu-0" in node.output(pod)


async def test_a_pod_that_never_says_when_runs_until_it_is_deleted(node: EmbeddedNode, driver: RecordingDriver) -> None:
    async with node.running(), node.serving(driver) as plugin:
        await node.run_pod("p", "gpu-0", spec={"restartPolicy": "Always"})
        node.time.advance(3600)
        await node.client.delete(POD, "p", namespace="default")
        await node.goes("p")

        assert plugin.prepared() == ()
        with pytest.raises(NotFoundError):
            await node.client.get(POD, "p", namespace="default")


async def test_an_annotation_gives_the_run_time_and_the_exit_code(node: EmbeddedNode, driver: RecordingDriver) -> None:
    annotations = {"claimsmith.dev/run-for": "1m", "claimsmith.dev/exit-code": "3"}
    async with node.running(), node.serving(driver):
        await node.run_pod("p", "gpu-0", annotations=annotations)
        node.time.advance(60)
        failed = await node.reaches("p", "Failed")

    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_a_failing_container_is_started_again_if_the_pod_says_so(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    spec = {"restartPolicy": "OnFailure"}
    async with node.running(), node.serving(driver):
        await node.run_pod("p", "gpu-0", annotations={"claimsmith.dev/exit-code": "1"}, spec=spec)
        await node.time.sleepers(2)
        node.time.advance(2)
        await node.time.sleepers(2)
        node.time.advance(10)

        await node.wait_for(lambda: node.pod("p")["status"]["containerStatuses"][0]["restartCount"] == 1)


async def test_two_pods_share_a_claim_that_is_prepared_once_and_unprepared_after_the_last(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.running(), node.serving(driver) as plugin:
        pods = {name: uid_of(await node.create_pod(name, "shared")) for name in ("a", "b")}
        claim = uid_of(await node.create_claim("shared", "gpu-0", pods=pods))
        await node.bind("a", "b")
        await node.reaches("a", "Running")
        await node.reaches("b", "Running")
        await node.client.delete(POD, "a", namespace="default")
        await node.goes("a")

        assert len(plugin.prepared()) == 1
        await node.client.delete(POD, "b", namespace="default")
        await node.goes("b")
        assert driver.calls == [("prepare", claim), ("unprepare", claim)]


async def test_a_container_that_names_one_request_gets_that_one_alone(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    containers = [
        {"name": name, "image": "i", "resources": {"claims": claims}}
        for name, claims in (
            ("one", [{"name": "p", "request": "r1"}]),
            ("all", [{"name": "p"}]),
            ("none", []),
        )
    ]
    results = (result("gpu-0", request="r1"), result("gpu-1", request="r2/big"))
    async with node.running(), node.serving(driver):
        pod, _ = await node.run_pod("p", *results, spec={"containers": containers})
        seen = {
            name: [line for line in node.output(pod, name) if line.startswith("env DEVICE")]
            for name in ("one", "all", "none")
        }

    assert seen == {
        "one": ["env DEVICE_GPU_0=gpu-0"],
        "all": ["env DEVICE_GPU_0=gpu-0", "env DEVICE_GPU_1=gpu-1"],
        "none": [],
    }


async def test_the_claim_of_an_extended_resource_reaches_the_container_that_asks_for_it(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    resources = {"limits": {"example.test/gpu": "1"}, "requests": {"example.test/gpu": "1"}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}, {"name": "other", "image": "i"}]}
    async with node.running(), node.serving(driver):
        pod = await node.create_pod("p", spec=spec)
        await node.create_claim("special", result("gpu-0", request="c0-r0"), pods={"p": uid_of(pod)})
        mapping = {"containerName": "main", "resourceName": "example.test/gpu", "requestName": "c0-r0"}
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "special", "requestMappings": [mapping]}}
        await node.client.patch(POD, "p", {"status": status}, namespace="default", subresource="status")
        await node.bind("p")
        await node.reaches("p", "Running")

        assert "env DEVICE_GPU_0=gpu-0" in node.output(pod)
        assert "env DEVICE_GPU_0=gpu-0" not in node.output(pod, "other")


async def test_a_pod_starts_as_soon_as_the_driver_that_it_waits_for_has_registered(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.running():
        pod = await node.create_pod("p", "p")
        await node.create_claim("p", "gpu-0", pods={"p": uid_of(pod)})
        await node.bind("p")
        message = await node.events.wait_for("FailedPrepareDynamicResources")
        async with node.serving(driver):
            await node.reaches("p", "Running")

    assert message == (
        f"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver {DRIVER} is not registered"
    )


async def test_a_failed_preparation_is_shown_on_the_pod_and_tried_again(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    driver.fail = failing("prepare")
    async with node.running(), node.serving(driver):
        pod = await node.create_pod("p", "p")
        await node.create_claim("p", "gpu-0", pods={"p": uid_of(pod)})
        await node.bind("p")
        message = await node.events.wait_for("FailedPrepareDynamicResources")
        await node.time.sleepers(2)
        await node.wait_for(lambda: "waiting" in str(node.pod("p").get("status")))
        waiting = node.pod("p")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
        node.time.advance(2)
        await node.reaches("p", "Running")

    assert "failed for ResourceClaim p: driver gpu.example.test: prepare failed: RuntimeError: no power" in message
    assert waiting == "ContainerCreating"


async def test_a_pod_that_is_deleted_while_it_waits_is_gone_and_its_claim_free(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    def fail(operation: str) -> None:
        if operation == "prepare":
            raise RuntimeError("no power")

    driver.fail = fail
    async with node.running(), node.serving(driver) as plugin:
        pod = await node.create_pod("p", "p")
        await node.create_claim("p", "gpu-0", pods={"p": uid_of(pod)})
        await node.bind("p")
        await node.events.wait_for("FailedPrepareDynamicResources")
        await node.client.delete(POD, "p", namespace="default")
        await node.goes("p")

        assert plugin.prepared() == ()


async def test_a_pod_that_a_claim_is_not_reserved_for_does_not_start(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.running(), node.serving(driver):
        pod = await node.create_pod("p", "p")
        await node.create_claim("p", "gpu-0", pods={"other": "other-uid"})
        await node.bind("p")
        message = await node.events.wait_for("FailedPrepareDynamicResources")

    assert f"pod p ({uid_of(pod)}) is not allowed to use ResourceClaim p" in message
    assert driver.calls == []


async def test_a_claim_of_a_template_must_be_owned_by_the_pod(node: EmbeddedNode, driver: RecordingDriver) -> None:
    async with node.running(), node.serving(driver):
        spec = {"resourceClaims": [{"name": "p", "resourceClaimTemplateName": "t"}]}
        pod = await node.create_pod("p", "p", spec=spec)
        await node.create_claim("p-made", "gpu-0", pods={"p": uid_of(pod)})
        status = {"resourceClaimStatuses": [{"name": "p", "resourceClaimName": "p-made"}]}
        await node.client.patch(POD, "p", {"status": status}, namespace="default", subresource="status")
        await node.bind("p")
        message = await node.events.wait_for("FailedPrepareDynamicResources")

    assert "ResourceClaim default/p-made was not created for Pod default/p (Pod is not owner)" in message


async def test_a_restarted_kubelet_takes_over_its_pods_and_ends_them_in_time(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.plugin(driver) as plugin:
        async with node.running() as first:
            await first.check_plugins()
            _, claim = await node.run_pod("p", "gpu-0")
        second = node.new_kubelet()
        async with node.running(second):
            await second.check_plugins()
            node.time.advance(2)
            await node.reaches("p", "Succeeded")

        assert plugin.prepared() == ()
        assert driver.calls == [("prepare", claim), ("unprepare", claim)]


async def test_a_restarted_kubelet_leaves_pods_alone_of_which_it_hears_late(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.plugin(driver):
        async with node.running() as first:
            await first.check_plugins()
            await node.run_pod("p", "gpu-0")
        await node.client.patch(RESOURCE_CLAIM, "p", {"metadata": {"finalizers": None}}, namespace="default")
        await node.client.delete(RESOURCE_CLAIM, "p", namespace="default")
        pods = bound_pods(node.client)
        second = node.new_kubelet(PodDispatcher(pods))
        async with node.running(second):
            await second.check_plugins()
            async with task(pods.run()):
                node.time.advance(2)
                await node.reaches("p", "Succeeded")

        assert "FailedPrepareDynamicResources" not in [reason for reason, _ in node.events.messages]


async def test_a_restarted_kubelet_gives_back_what_pods_used_that_are_gone(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.plugin(driver) as plugin:
        async with node.running() as first:
            await first.check_plugins()
            await node.run_pod("p", "gpu-0")
        await node.client.delete(POD, "p", namespace="default", grace_period_s=0)
        await node.goes("p")
        second = node.new_kubelet()
        async with node.running(second):
            await second.check_plugins()
            await node.wait_until_free(second)

        assert plugin.prepared() == ()


async def test_a_claim_and_a_pod_that_are_deleted_by_force_leave_nothing_prepared(
    node: EmbeddedNode, driver: RecordingDriver
) -> None:
    async with node.running(), node.serving(driver) as plugin:
        await node.run_pod("p", "gpu-0")
        await node.client.patch(RESOURCE_CLAIM, "p", {"metadata": {"finalizers": None}}, namespace="default")
        await node.client.delete(RESOURCE_CLAIM, "p", namespace="default")
        await node.client.delete(POD, "p", namespace="default", grace_period_s=0)
        await node.goes("p")
        await node.wait_until_free(node.kubelet)

        assert plugin.prepared() == ()


async def test_a_stop_of_the_kubelet_leaves_no_task_behind(node: EmbeddedNode, driver: RecordingDriver) -> None:
    before = asyncio.all_tasks()
    async with node.running(), node.serving(driver):
        await node.run_pod("p", "gpu-0")

    left = {task for task in asyncio.all_tasks() - before if not task.get_name().startswith("Task-")}
    assert left == set()
