"""Claims of simulated devices on a real node: a container's own output shows what it has got."""

from __future__ import annotations

import json
import re

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.watching import wait_gone, wait_phase

DRIVER = "sim.claimsmith.dev"
TWO_CARDS = "gpus: [{model: A100-40, count: 2}]"
LOOK = "env | grep CLAIMSMITH_; ls -l /dev/claimsmith; mount | grep claimsmith/lib"
"""What the container prints: its variables, device nodes, and mounts."""


async def create_gpu_claim(client: KubeClient, name: str) -> None:
    """Create a class of all devices of the driver, and a claim for one of them."""
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM, claim(name, exactly("gpu", "gpu")))


async def test_the_devices_of_a_node_are_in_its_slices(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        slices = (await client.list(RESOURCE_SLICE)).items

        assert [device["name"] for item in slices for device in item["spec"]["devices"]] == ["gpu-0", "gpu-1"]
        assert {item["spec"]["nodeName"] for item in slices} == {"node-a"}


async def test_a_container_gets_variable_device_node_and_mount(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        await create_gpu_claim(client, "one")
        await client.create(POD, pod("user", LOOK, claims=["one"]))
        log = real_cluster.container_log(await wait_phase(client, "user"))
        devices = re.findall(r"^CLAIMSMITH_GPU_(\d)=", log, re.MULTILINE)

        assert len(devices) == 1
        assert re.findall(r"^crw.* 1, +3 .* gpu-(\d)$", log, re.MULTILINE) == devices
        assert re.search(r" on /usr/local/claimsmith/lib type \S+ \(ro[,)]", log)


async def test_nothing_stays_of_a_deleted_pod(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, TWO_CARDS):
        await create_gpu_claim(client, "one")
        await client.create(POD, pod("user", claims=["one"]))
        await wait_phase(client, "user", "Running")
        assert real_cluster.list_cdi_files()
        await client.delete(POD, "user", namespace="default")
        await wait_gone(client, POD, "user", namespace="default")

        assert real_cluster.list_cdi_files() == []
        checkpoint = real_cluster.paths.folder_of(DRIVER) / "checkpoint.json"
        assert json.loads(checkpoint.read_text())["claims"] == []
