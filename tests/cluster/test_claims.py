"""Claims of simulated devices on a real node: a container's own output shows what it has got."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import SLEEP, claim, device_class, exactly, pod
from tests.cluster.seen import LOOK, assert_sees, variables
from tests.cluster.watching import is_ready, is_unschedulable, wait_for, wait_for_object, wait_gone, wait_phase

DRIVER = "sim.claimsmith.dev"
TWO_CARDS = "gpus: [{model: A100-40, count: 2}]"
PARTITIONED = "gpus: [{model: A100-40, mig: true}]"
SHARED = "gpus: [{model: A100-40, sharing: {minimum: 1Gi}}]"
GPU = device_class("gpu", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"')
MIG = device_class("mig", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "mig"')
COUNTED = device_class("counted", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu")


async def create(client: KubeClient, *objects: dict[str, Any]) -> None:
    """Create classes, claims and pods."""
    kinds: dict[str, Kind] = {"DeviceClass": DEVICE_CLASS, "ResourceClaim": RESOURCE_CLAIM, "Pod": POD}
    for obj in objects:
        await client.create(kinds[obj["kind"]], obj)


async def results_of(client: KubeClient, name: str) -> list[dict[str, Any]]:
    """Return the devices of an allocated claim."""
    allocated = await client.get(RESOURCE_CLAIM, name, namespace="default")
    results: list[dict[str, Any]] = allocated["status"]["allocation"]["devices"]["results"]
    return results


async def devices_of(client: KubeClient, name: str) -> list[str]:
    """Return the names of the devices of an allocated claim."""
    return [result["device"] for result in await results_of(client, name)]


def held(cluster: RealCluster) -> list[dict[str, Any]]:
    """Return the claims of the agent's checkpoint."""
    checkpoint = cluster.paths.folder_of(DRIVER) / "checkpoint.json"
    claims: list[dict[str, Any]] = json.loads(checkpoint.read_text())["claims"]
    return claims


async def test_the_devices_of_a_node_are_in_its_slices(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        slices = (await client.list(RESOURCE_SLICE)).items

        assert [device["name"] for item in slices for device in item["spec"]["devices"]] == ["gpu-0", "gpu-1"]
        assert {item["spec"]["nodeName"] for item in slices} == {"node-a"}


async def test_a_container_gets_variable_device_node_and_mount(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        user = pod("user", f"{LOOK}; {SLEEP}", claims=["one"])
        await create(client, GPU, claim("one", exactly("gpu", "gpu")), user)
        log = await real_cluster.wait_printed(await wait_for_object(client, POD, "user", is_ready), "done")

        assert_sees(log, await devices_of(client, "one"))


async def test_nothing_stays_of_a_deleted_pod(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        await create(client, GPU, claim("one", exactly("gpu", "gpu")), pod("user", claims=["one"]))
        await wait_phase(client, "user", "Running")
        assert real_cluster.list_cdi_files()
        await client.delete(POD, "user", namespace="default")
        await wait_gone(client, POD, "user", namespace="default")

        assert real_cluster.list_cdi_files() == []
        assert held(real_cluster) == []


async def test_the_first_alternative_that_is_free_is_given(real_cluster: RealCluster, client: KubeClient) -> None:
    large = {"cel": {"expression": f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'}}
    alternatives = [
        {"name": "large", "deviceClassName": "gpu", "selectors": [large]},
        {"name": "pair", "deviceClassName": "gpu", "count": 2},
    ]
    async with serving(real_cluster, client, TWO_CARDS):
        request = {"name": "gpu", "firstAvailable": alternatives}
        # Who takes the whole claim gets its devices whatever the driver says of their requests.
        user = pod("user", f"{LOOK}; {SLEEP}", claims=["either/gpu"])
        await create(client, GPU, claim("either", request), user)
        log = await real_cluster.wait_printed(await wait_for_object(client, POD, "user", is_ready), "done")
        results = await results_of(client, "either")

        assert {result["request"] for result in results} == {"gpu/pair"}
        assert_sees(log, ["gpu-0", "gpu-1"])


async def test_two_pods_share_the_device_of_one_claim(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        await create(client, GPU, claim("both", exactly("gpu", "gpu")))
        await create(client, *(pod(name, f"{LOOK}; {SLEEP}", claims=["both"]) for name in ("left", "right")))
        pods = [await wait_for_object(client, POD, name, is_ready) for name in ("left", "right")]
        logs = [await real_cluster.wait_printed(found, "done") for found in pods]
        devices = await devices_of(client, "both")
        await client.delete(POD, "left", namespace="default")
        await wait_gone(client, POD, "left", namespace="default")

        for log in logs:
            assert_sees(log, devices)
        assert variables(logs[0]) == variables(logs[1])
        assert len(real_cluster.list_cdi_files()) == len(held(real_cluster)) == 1
        await client.delete(POD, "right", namespace="default")
        await wait_gone(client, POD, "right", namespace="default")
        assert not real_cluster.list_cdi_files()
        assert not held(real_cluster)


async def test_two_containers_see_the_devices_of_their_own_requests(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        requests = (exactly("first", "gpu"), exactly("second", "gpu"))
        wanted = pod("user", f"{LOOK}; {SLEEP}", claims=["two"])
        main = wanted["spec"]["containers"][0]
        wanted["spec"]["containers"] = [
            {**main, "name": name, "resources": {"claims": [{"name": "two", "request": name}]}}
            for name in ("first", "second")
        ]
        await create(client, GPU, claim("two", *requests), wanted)
        ready = await wait_for_object(client, POD, "user", is_ready)
        by_request = {result["request"]: result["device"] for result in await results_of(client, "two")}
        logs = {name: await real_cluster.wait_printed(ready, "done", container=name) for name in by_request}

        for name, device in by_request.items():
            assert_sees(logs[name], [device])


async def test_a_partition_excludes_those_that_overlap_it(real_cluster: RealCluster, client: KubeClient) -> None:
    def profile(name: str) -> Sequence[dict[str, Any]]:
        return [{"cel": {"expression": f'device.attributes["{DRIVER}"].profile == "{name}"'}}]

    async with serving(real_cluster, client, PARTITIONED):
        half = exactly("part", "mig", selectors=profile("3g.20gb"))
        await create(client, MIG, *(claim(name, half) for name in ("a", "b", "c")))
        await create(client, *(pod(name, f"{LOOK}; {SLEEP}", claims=[name]) for name in ("a", "b")))
        pods = [await wait_for_object(client, POD, name, is_ready) for name in ("a", "b")]
        logs = [await real_cluster.wait_printed(found, "done") for found in pods]
        await create(client, pod("c", claims=["c"]))
        refused = await wait_for_object(client, POD, "c", is_unschedulable)
        (left,), (right,) = [await devices_of(client, name) for name in ("a", "b")]

        assert left != right
        assert_sees(logs[0], [left])
        assert_sees(logs[1], [right])
        assert "cannot allocate all claims" in str(refused["status"]["conditions"])


async def test_a_share_carries_its_id_and_its_amount(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, SHARED):
        parts = {"small": "2Gi", "large": "30Gi"}
        await create(client, GPU)
        for name, amount in parts.items():
            part = exactly("part", "gpu", capacity={"requests": {"memory": amount}})
            await create(client, claim(name, part), pod(name, f"{LOOK}; {SLEEP}", claims=[name]))
        pods = {name: await wait_for_object(client, POD, name, is_ready) for name in parts}
        logs = {name: await real_cluster.wait_printed(found, "done") for name, found in pods.items()}
        shares = {name: (await results_of(client, name))[0]["shareID"] for name in parts}
        seen = {name: variables(log) for name, log in logs.items()}
        kept = {entry["name"]: entry["devices"][0]["share"] for entry in held(real_cluster)}

        for log in logs.values():
            assert_sees(log, ["gpu-0"])
        assert {name: found["GPU_0_MEMORY"] for name, found in seen.items()} == parts
        assert {name: found["GPU_0_SHARE_ID"] for name, found in seen.items()} == shares
        assert kept == shares
        assert shares["small"] != shares["large"]


async def test_a_limit_is_met_by_a_class_that_names_its_resource(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        await create(client, COUNTED, pod("user", LOOK, limits={"example.com/gpu": "2"}))
        log = await real_cluster.wait_printed(await wait_phase(client, "user"), "done")

        assert_sees(log, ["gpu-0", "gpu-1"])
        await wait_for(client, RESOURCE_CLAIM, lambda items: not items)
