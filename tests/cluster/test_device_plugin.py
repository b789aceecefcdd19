"""A driver offered as an extended resource on a real node: a container's own output shows what it has got."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import configured
from tests.cluster.manifests import SLEEP, claim, device_class, exactly, pod, template
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.seen import LOOK, assert_sees, device_nodes, variables
from tests.cluster.story import Story
from tests.cluster.views import find_double, look
from tests.cluster.watching import (
    is_ready,
    is_unschedulable,
    wait_for,
    wait_for_object,
    wait_gone,
    wait_phase,
    wait_scheduler,
)
from tests.cluster.worlds import RealWorld

DRIVER = "sim.claimsmith.dev"
RESOURCE = "nvidia.com/gpu"
ONE_CARD = "gpus: [{model: A100-40, count: 1}]"
TWO_CARDS = "gpus: [{model: A100-40, count: 2}]"
ONE = {RESOURCE: "1"}
BACK_S = 50.0
"""Within which a kubelet that was restarted has taken the resource again."""
RETURNED_S = 15.0
"""Within which a returning agent has released devices of pods that ended without it."""
SETTLED_S = 30.0
"""After which a pod that has a node counts as one that waits for its card."""


def offered(passing: str = "cdi", rule: str = "") -> str:
    """Return a driver's entry that offers its devices as extended resources too.

    Args:
        rule: Further fields of the resource, each behind a comma.
    """
    return f"    devicePlugin: {{resources: [{{resource: {RESOURCE}{rule}}}], passing: {passing}, preStart: true}}"


def offers(amount: str) -> Callable[[Any], bool]:
    """Return a test of nodes: so many devices can be asked for."""

    def holds(items: Any) -> bool:
        (node,) = (item for item in items if item["metadata"]["name"] == NODE_NAME)
        return bool(node["status"]["allocatable"].get(RESOURCE) == amount)

    return holds


def ids_held(cluster: RealCluster) -> list[list[str]]:
    """Return the ids of each grant in the ledger."""
    content = json.loads((cluster.paths.folder_of(DRIVER) / "checkpoint.json").read_text())
    return [grant["ids"] for grant in content["grants"]]


async def wait_offered(cluster: RealCluster, client: KubeClient, count: int) -> None:
    """Return once so many devices can be asked for, by the word of the kubelet and of its Node: that tells old news."""
    await Story(RealWorld(cluster, client)).devices_become(count)
    await wait_for(client, NODE, offers(str(count)))


def taints(items: Any) -> dict[str, list[str]]:
    """Return the values of the taints of each device in slices."""
    devices = [device for item in items for device in item["spec"].get("devices") or ()]
    return {device["name"]: [taint["value"] for taint in device.get("taints") or ()] for device in devices}


async def delete(client: KubeClient, name: str) -> None:
    await client.delete(POD, name, namespace="default")
    await wait_gone(client, POD, name, namespace="default")


@pytest.mark.parametrize("passing", ["cdi", "cdi-annotations", "edits"])
async def test_a_container_gets_variable_device_node_and_mount_of_its_limit(
    real_cluster: RealCluster, client: KubeClient, passing: str
) -> None:
    async with configured(real_cluster, client, TWO_CARDS, offered(passing)):
        await wait_offered(real_cluster, client, 2)
        await client.create(POD, pod("user", LOOK, limits=ONE))
        log = await real_cluster.wait_printed(await wait_phase(client, "user"), "done")
        (device,) = device_nodes(log)

        assert_sees(log, [device])


def places(devices: Any) -> list[tuple[str, list[int]]]:
    """Return ids with their NUMA nodes, of devices of which the pod resources service tells."""
    return sorted(
        (id_, [int(node.get("ID", 0)) for node in item.get("topology", {}).get("nodes", ())])
        for item in devices
        for id_ in item["device_ids"]
    )


async def test_the_kubelet_knows_where_cards_sit_and_which_replicas_containers_have(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    apart = "gpus: [{model: A100-40, numaNode: 1}, {model: A100-40, numaNode: -1}]"
    async with configured(real_cluster, client, apart, offered(rule=", replicas: 2")):
        await wait_offered(real_cluster, client, 4)
        story = Story(RealWorld(real_cluster, client))
        offers = places(await story.allocatable())
        names, seen = ("left", "middle", "right"), {}
        for name in names:
            await client.create(POD, pod(name, f"{LOOK}; {SLEEP}", limits=ONE))
        for name in names:
            found = await wait_for_object(client, POD, name, is_ready)
            log = await real_cluster.wait_printed(found, "done")
            (listed,) = await story.listed(name)
            ((id_, nodes),) = places(listed["containers"][0]["devices"])
            (card,) = device_nodes(log)
            replica = variables(log)[f"{card.upper().replace('-', '_')}_SHARE_ID"]
            seen[id_] = (f"{card}::{replica}", nodes)

        sits = {"gpu-0": [1], "gpu-1": []}
        assert offers == [(f"{card}::{replica}", nodes) for card, nodes in sits.items() for replica in range(2)]
        assert seen == {id_: (id_, sits[id_.partition("::")[0]]) for id_ in seen}
        assert sorted(ids_held(real_cluster)) == sorted([id_] for id_ in seen)
        assert len(seen) == len(names)


async def test_what_a_restarted_container_needs_is_made_again_before_it_starts(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    async with configured(real_cluster, client, ONE_CARD, offered()):
        await wait_offered(real_cluster, client, 1)
        script = f"{LOOK}; echo ran $(ls /go); until mv /go/now /go/before; do sleep 1; done 2>/dev/null"
        wanted = pod("user", script, limits=ONE, restartPolicy="Always")
        (main,) = wanted["spec"]["containers"]
        main["volumeMounts"] = [{"name": "go", "mountPath": "/go"}]
        wanted["spec"]["volumes"] = [{"name": "go", "hostPath": {"path": str(tmp_path)}}]
        await client.create(POD, wanted)
        found = await wait_for_object(client, POD, "user", is_ready)
        await real_cluster.wait_printed(found, "done")
        (file,) = real_cluster.list_cdi_files()
        file.unlink()
        (tmp_path / "now").touch()
        log = await real_cluster.wait_printed(found, "ran before")
        first, second, _ = log.split("done\n")

        assert_sees(first, ["gpu-0"])
        assert_sees(second, ["gpu-0"])
        assert ids_held(real_cluster) == [["gpu-0"]]
        assert real_cluster.list_cdi_files() == [file]


async def test_nothing_stays_of_a_pod_that_is_gone(real_cluster: RealCluster, client: KubeClient) -> None:
    async with configured(real_cluster, client, ONE_CARD, offered()):
        await wait_offered(real_cluster, client, 1)
        await client.create(POD, pod("user", limits=ONE))
        await wait_for_object(client, POD, "user", is_ready)
        await wait_for(client, RESOURCE_SLICE, lambda items: taints(items) == {"gpu-0": ["nvidia.com_gpu"]})
        assert ids_held(real_cluster) == [["gpu-0"]]
        await delete(client, "user")
        await wait_for(client, RESOURCE_SLICE, lambda items: taints(items) == {"gpu-0": []})

        assert ids_held(real_cluster) == []
        assert real_cluster.list_cdi_files() == []


async def test_init_containers_hand_their_devices_on(real_cluster: RealCluster, client: KubeClient) -> None:
    async with configured(real_cluster, client, TWO_CARDS, offered()):
        await wait_offered(real_cluster, client, 2)
        wanted = pod("user", LOOK, limits=ONE)
        (main,) = wanted["spec"]["containers"]
        first = {**main, "name": "first", "resources": {"limits": {RESOURCE: "2"}}}
        await client.create(POD, {**wanted, "spec": {**wanted["spec"], "initContainers": [first]}})
        ended = await wait_phase(client, "user")
        logs = [await real_cluster.wait_printed(ended, "done", container=name) for name in ("first", "main")]
        await delete(client, "user")
        await wait_for(client, RESOURCE_SLICE, lambda items: taints(items) == {"gpu-0": [], "gpu-1": []})

        assert [len(re.findall(r"^CLAIMSMITH_GPU_\d=", log, re.MULTILINE)) for log in logs] == [2, 1]
        assert ids_held(real_cluster) == []
        assert real_cluster.list_cdi_files() == []


async def test_a_new_kubelet_takes_the_resource_again_and_pods_go_on(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, TWO_CARDS, offered()) as agent:
        await wait_offered(real_cluster, client, 2)
        await client.create(POD, pod("early", limits=ONE))
        before = await wait_for_object(client, POD, "early", is_ready)
        await real_cluster.restart_kubelet()
        await agent.process.wait_logged("The kubelet has taken a resource", count=2, timeout_s=BACK_S)
        await wait_offered(real_cluster, client, 2)
        await client.create(POD, pod("late", limits=ONE))
        await wait_for_object(client, POD, "late", is_ready)
        after = await wait_for_object(client, POD, "early", is_ready)

        assert sorted(ids_held(real_cluster)) == [["gpu-0"], ["gpu-1"]]
        assert after["status"]["containerStatuses"][0]["restartCount"] == 0
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_claim_waits_for_a_card_that_a_container_has(real_cluster: RealCluster, client: KubeClient) -> None:
    async with configured(real_cluster, client, ONE_CARD, offered()):
        await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
        await wait_offered(real_cluster, client, 1)
        await client.create(POD, pod("by-limit", limits=ONE))
        await wait_for_object(client, POD, "by-limit", is_ready)
        await wait_for(client, RESOURCE_SLICE, lambda items: bool(taints(items).get("gpu-0")))
        await wait_scheduler(client)
        await client.create(RESOURCE_CLAIM, claim("one", exactly("gpu", "gpu")))
        await client.create(POD, pod("by-claim", claims=["one"]))
        await wait_for_object(client, POD, "by-claim", is_unschedulable)
        await delete(client, "by-limit")
        await wait_for_object(client, POD, "by-claim", is_ready)

        await wait_for(client, NODE, offers("0"))


async def test_pods_that_end_while_no_agent_runs_give_their_devices_back_soon_after_its_return(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, ONE_CARD, offered()) as agent:
        await wait_offered(real_cluster, client, 1)
        await client.create(POD, pod("user", limits=ONE))
        await wait_for_object(client, POD, "user", is_ready)
        await agent.process.kill()
        await delete(client, "user")
        assert ids_held(real_cluster) == [["gpu-0"]]
        await agent.process.start()
        await wait_for(client, RESOURCE_SLICE, lambda items: taints(items) == {"gpu-0": []}, timeout_s=RETURNED_S)

        assert ids_held(real_cluster) == []
        assert await asyncio.to_thread(real_cluster.list_cdi_files) == []


def is_settled(found: Any) -> bool:
    """Tell whether a pod runs, was refused, or waits for a device."""
    return found["status"].get("phase") != "Pending" or is_unschedulable(found)


async def settle(client: KubeClient, name: str) -> None:
    """Return once a pod is settled, or waits on its node for a card that a container got while the claim did."""
    try:
        await wait_for_object(client, POD, name, is_settled, timeout_s=SETTLED_S)
    except AssertionError:
        found = await client.get(POD, name, namespace="default")
        if not found["spec"].get("nodeName"):
            raise


async def test_no_device_has_two_owners_however_claims_and_limits_come_and_go(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    chance = random.Random(35)
    three = "gpus: [{model: A100-40, count: 3}]"
    async with configured(real_cluster, client, three, offered()) as agent:
        await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
        await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))
        await wait_offered(real_cluster, client, 3)
        live: list[str] = []
        for number in range(48):
            if live and (len(live) > 4 or chance.random() < 0.4):
                await client.delete(POD, live.pop(chance.randrange(len(live))), namespace="default")
            else:
                name = f"pod-{number}"
                wanted = {"claims": {"gpu": "gpu"}} if chance.random() < 0.5 else {"limits": ONE}
                await client.create(POD, pod(name, **wanted))  # type: ignore[arg-type]
                await settle(client, name)
                live.append(name)
            views = await look(real_cluster, client, driver=DRIVER, resource=RESOURCE)

            assert not find_double(views), views
        await delete_pods(client)
        await wait_for(client, RESOURCE_SLICE, lambda items: not any(taints(items).values()))

        messages = [line["message"] for line in agent.process.lines]
        served = [messages.count(word) for word in ("Claim prepared", "Devices given to a container")]
        assert min(served) >= 1
        assert sum(served) >= 6
        assert ids_held(real_cluster) == []
        assert (await look(real_cluster, client, driver=DRIVER, resource=RESOURCE)).kubelet == {}
        assert await asyncio.to_thread(real_cluster.list_cdi_files) == []


async def test_an_agent_that_withdraws_waits_for_pods_and_leaves_nothing(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, TWO_CARDS, offered()) as agent:
        await wait_offered(real_cluster, client, 2)
        await client.create(POD, pod("user", limits=ONE))
        await wait_for_object(client, POD, "user", is_ready)
        await agent.process.stop()
        leaving = agent.again("--withdraw")
        await leaving.start()
        await leaving.wait_logged("Devices are still in use")
        await wait_for(client, RESOURCE_SLICE, lambda items: not items)
        await wait_for(client, NODE, offers("0"))
        await client.delete(POD, "user", namespace="default")
        await wait_gone(client, POD, "user", namespace="default")

        assert await leaving.wait_ended() == 0
        assert ids_held(real_cluster) == []
        assert await asyncio.to_thread(real_cluster.list_cdi_files) == []
