"""What the books of a node outlive: a clock that jumps, a reboot, damage at any byte, versions that overlap.

Each test asks the kubelet, the claims and the ledger who has what.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.durable import write_whole
from claimsmith.node.ledger import CHECKPOINT_FILE, Ledger
from tests.cluster.agents import AgentProcess, agent_command, retrying, wait_published
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import ConfiguredAgent, configured
from tests.cluster.manifests import device_class, exactly, pod, template
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.startup import LATER, OLDER, MovedClock, change_startup
from tests.cluster.test_device_plugin import RESOURCE, offered, taints, wait_offered
from tests.cluster.views import Views, find_double, look
from tests.cluster.watching import is_ready, wait_for, wait_for_object, wait_gone, wait_scheduler

DRIVER: Final = "sim.claimsmith.dev"
CARDS: Final = 6
SETTINGS: Final = f"gpus: [{{model: A100-40, count: {CARDS}}}]"
DAY_S, HALF_HOUR_S = 86_400.0, 1_800.0
"""The certificate of the API server is an hour older than the cluster: further back nobody could talk to it."""
SETTLED_S: Final = 180.0
LOOK_S: Final = 0.2


@contextlib.asynccontextmanager
async def both_ways(
    cluster: RealCluster, client: KubeClient, env: Mapping[str, str] | None = None, inside: tuple[str | Path, ...] = ()
) -> AsyncIterator[ConfiguredAgent]:
    """Run an agent that offers its cards by claims and as an extended resource; there is a template `gpu`."""
    await create_template(client)
    async with configured(cluster, client, SETTINGS, offered(), env=env, inside=inside) as agent:
        await wait_offered(cluster, client, CARDS)
        yield agent


async def create_template(client: KubeClient) -> None:
    """Create a class of all devices of the driver, and the template `gpu` of claims for one."""
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))


async def run_claim(client: KubeClient, name: str, **spec: Any) -> KubeObject:
    """Create a pod with a claim for one card; return it when it is ready."""
    await client.create(POD, pod(name, claims={"gpu": "gpu"}, **spec))
    return await wait_for_object(client, POD, name, is_ready)


async def run_limit(client: KubeClient, name: str) -> KubeObject:
    """Create a pod with a limit of one card; return it when it is ready, and its card is kept from claims."""
    await client.create(POD, pod(name, limits={RESOURCE: "1"}))
    found = await wait_for_object(client, POD, name, is_ready)
    holders = [item for item in (await client.list(POD)).items if RESOURCE in str(item["spec"]) and is_ready(item)]
    await wait_for(client, RESOURCE_SLICE, lambda items: sum(map(bool, taints(items).values())) >= len(holders))
    await wait_scheduler(client)
    return found


async def end(client: KubeClient, name: str) -> None:
    await client.delete(POD, name, namespace="default")
    await wait_gone(client, POD, name, namespace="default")


async def settle(cluster: RealCluster, client: KubeClient, holds: Callable[[Views], bool]) -> Views:
    """Return who has what once that is as it should be, or as it is when the time is over; nothing is held twice."""
    deadline_s = asyncio.get_running_loop().time() + SETTLED_S
    while True:
        views = await look(cluster, client, driver=DRIVER, resource=RESOURCE)
        assert not find_double(views), views
        if holds(views) or asyncio.get_running_loop().time() > deadline_s:
            return views
        await asyncio.sleep(LOOK_S)


def is_empty(views: Views) -> bool:
    return views.is_empty


async def test_a_clock_that_jumps_neither_loses_nor_doubles_a_device(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    clock = MovedClock(tmp_path / "clock")
    async with both_ways(real_cluster, client, clock.env) as agent:
        await run_claim(client, "claim-0")
        await run_limit(client, "limit-0")
        seen = []
        for number, ahead_s in enumerate((DAY_S, -HALF_HOUR_S), start=1):
            clock.jump(ahead_s)
            await run_claim(client, f"claim-{number}")
            await run_limit(client, f"limit-{number}")
            given = await agent.process.wait_logged("Devices given to a container", count=number + 1)
            seen.append(datetime.fromisoformat(given["time"]))
            await end(client, f"claim-{number - 1}")
            await end(client, f"limit-{number - 1}")
        views = await settle(
            real_cluster, client, lambda views: len(views.ledger) == 2 and views.kubelet.keys() == views.ledger.keys()
        )
        assert views.kubelet.keys() == views.ledger.keys(), views
        await delete_pods(client)

        assert seen[0] - seen[1] > timedelta(seconds=DAY_S)
        assert is_empty(await settle(real_cluster, client, is_empty))


async def test_after_a_reboot_devices_are_prepared_anew_and_none_is_lost(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("11111111-first\n")
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    inside = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, boot)
    async with both_ways(real_cluster, client, inside=inside) as agent:
        before = await run_claim(client, "stays", restartPolicy="Always")
        await run_claim(client, "goes")
        await run_limit(client, "granted")
        held = (await settle(real_cluster, client, lambda views: len(views.ledger) == 3)).ledger
        await agent.process.kill()
        boot.write_text("22222222-second\n")
        await real_cluster.reboot()
        await agent.process.start()
        await agent.process.wait_registered(DRIVER)
        after = await wait_for_object(client, POD, "stays", lambda obj: is_ready(obj) and ids(obj) != ids(before))
        mine = f"claim {claim_of(after)}"

        def is_prepared_anew(views: Views) -> bool:
            return find_boots(real_cluster) == {"22222222-second"} and bool(holder_of(views.kubelet, mine))

        views = await settle(real_cluster, client, is_prepared_anew)

        assert holder_of(views.kubelet, mine) == holder_of(views.ledger, mine) == holder_of(held, mine)
        assert find_boots(real_cluster) == {"22222222-second"}
        await delete_pods(client)
        assert is_empty(await settle(real_cluster, client, is_empty))


def ids(obj: KubeObject) -> list[str]:
    """Return the ids of a pod's containers."""
    return [status.get("containerID", "") for status in obj["status"]["containerStatuses"]]


def claim_of(obj: KubeObject) -> str:
    (status,) = obj["status"]["resourceClaimStatuses"]
    return str(status["resourceClaimName"])


def holder_of(holdings: Mapping[str, frozenset[str]], holder: str) -> list[str]:
    """Return which devices somebody holds."""
    return [device for device, holders in holdings.items() if holder in holders]


def checkpoint_of(cluster: RealCluster) -> Path:
    return cluster.paths.folder_of(DRIVER) / CHECKPOINT_FILE


def find_boots(cluster: RealCluster) -> set[str]:
    """Return during which boots the claims of running pods were prepared, as checkpoint and CDI files have it."""
    content = json.loads(checkpoint_of(cluster).read_text())
    entries = [claim["boot"] for claim in content["claims"]]
    return {*entries, *(claim.boot_id for claim in CdiFiles(cluster.paths.cdi, DRIVER).read_claims())}


async def test_a_checkpoint_that_is_cut_anywhere_loses_nothing(real_cluster: RealCluster, client: KubeClient) -> None:
    async with both_ways(real_cluster, client) as agent:
        await run_claim(client, "claim-0")
        await run_claim(client, "claim-1")
        await run_limit(client, "limit-0")
        before = await settle(real_cluster, client, lambda views: len(views.ledger) == len(views.kubelet) == 3)
        size = checkpoint_of(real_cluster).stat().st_size
        assert read_cut_anywhere(real_cluster) == []
        for length in (0, size - 1):
            await agent.process.kill()
            with checkpoint_of(real_cluster).open("r+b") as file:
                file.truncate(length)
            await agent.process.start()
            await agent.process.wait_registered(DRIVER)
            await agent.process.wait_logged(
                "The checkpoint was damaged, was put aside and is rebuilt from the CDI files"
            )
            after = await settle(real_cluster, client, lambda views: views.ledger.keys() == before.ledger.keys())
            assert (after.ledger.keys(), after.kubelet, after.claims, after.cdi) == (
                before.ledger.keys(), before.kubelet, before.claims, before.cdi,
            )  # fmt: skip
        await wait_offered(real_cluster, client, CARDS - 2)
        await run_claim(client, "last")
        await delete_pods(client)

        assert is_empty(await settle(real_cluster, client, is_empty))


def read_cut_anywhere(cluster: RealCluster) -> list[int]:
    """Return the lengths at which a copy of the checkpoint, cut there, is read as something else than the whole."""
    data, wrong = checkpoint_of(cluster).read_bytes(), []
    rebuild = CdiFiles(cluster.paths.cdi, DRIVER).read_claims
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for length in range(len(data) + 1):
            folder = Path(name) / str(length)
            folder.mkdir()
            (folder / CHECKPOINT_FILE).write_bytes(data[:length])
            ledger = Ledger(folder, rebuild, write=write_whole)
            ledger.open()
            if length == len(data):
                whole = ledger
            shutil.rmtree(folder)
            found = (set(ledger.claims()), {grant.entry for grant in ledger.grants()}, bool(ledger.damaged))
            wrong.append((length, found))
    expected = (set(whole.claims()), {grant.entry for grant in whole.grants()})
    return [
        length for length, (claims, grants, damaged) in wrong
        if (claims, grants) != expected or damaged != (length < len(data))
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def instance(cluster: RealCluster, uid: str, config: Path, env: Mapping[str, str]) -> AsyncIterator[AgentProcess]:
    """Run one of several agents that may overlap; it is registered when the block begins."""
    command = agent_command(cluster, "--config", str(config), "--pod-uid", uid)
    agent = AgentProcess(command, cluster.folder / "agent.log", env=env)
    await agent.start()
    try:
        await agent.wait_registered(DRIVER)
        yield agent
    finally:
        await agent.stop()


def write_config(folder: Path, options: str = "") -> Path:
    (folder / "devices.yaml").write_text(SETTINGS)
    path = folder / "agent.yaml"
    path.write_text(
        "apiVersion: claimsmith.dev/v1alpha1\nkind: AgentConfiguration\nspec:\n  drivers:\n"
        f"  - plugin: simulated\n    settings: [devices.yaml]\n{options}\n"
    )
    return path


async def test_agents_of_versions_that_follow_each_other_overlap_up_and_down(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    config = write_config(tmp_path)
    older = change_startup(tmp_path / "older", OLDER)
    later = change_startup(tmp_path / "later", LATER)
    await create_template(client)
    async with retrying(client), contextlib.AsyncExitStack() as agents:
        running = await agents.enter_async_context(instance(real_cluster, "0000-start", config, older))
        await wait_published(client, DRIVER)
        await run_claim(client, "pod-0")
        versions = [version_of(real_cluster)]
        for number, env in enumerate(({}, later, {}, older), start=1):
            following = await agents.enter_async_context(instance(real_cluster, f"{number}000-next", config, env))
            await run_claim(client, f"pod-{number}")
            await running.stop()
            await end(client, f"pod-{number - 1}")
            views = await settle(real_cluster, client, is_one_claim)
            assert is_one_claim(views), views
            versions.append(version_of(real_cluster))
            running = following
        await delete_pods(client)

        assert versions == [1, 2, 3, 2, 1]
        assert is_empty(await settle(real_cluster, client, is_empty))


def is_one_claim(views: Views) -> bool:
    """Tell whether one claim has one device, in each view."""
    return len(views.ledger) == 1 and views.kubelet == views.claims == views.ledger


def version_of(cluster: RealCluster) -> int:
    return int(json.loads(checkpoint_of(cluster).read_text())["version"])


async def test_an_update_to_a_version_with_grants_can_be_taken_back_while_both_run(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    plain, folder = write_config(tmp_path), tmp_path / "both"
    folder.mkdir()
    older, both = change_startup(tmp_path / "older", OLDER), write_config(folder, offered())
    await create_template(client)
    async with retrying(client), instance(real_cluster, "0000-old", plain, older) as old:
        await wait_published(client, DRIVER)
        await run_claim(client, "early")
        async with instance(real_cluster, "1111-new", both, {}) as new:
            await new.wait_logged("The kubelet has taken a resource")
            await wait_for_object(client, NODE, NODE_NAME, tells(str(CARDS), "0"))
            await run_claim(client, "between")
        await end(client, "early")
        await run_claim(client, "late")
        assert version_of(real_cluster) == 1
        async with instance(real_cluster, "2222-new", both, {}):
            await old.stop()
            await wait_offered(real_cluster, client, CARDS - 2)
            await run_limit(client, "limit")
            views = await settle(
                real_cluster,
                client,
                lambda views: len(views.ledger) == 3 and views.kubelet.keys() == views.ledger.keys(),
            )
            await delete_pods(client)
            empty = await settle(real_cluster, client, is_empty)

        assert views.kubelet.keys() == views.ledger.keys(), views
        assert is_empty(empty), empty


def tells(capacity: str, allocatable: str) -> Callable[[KubeObject], bool]:
    """Return a test of a node: it tells these amounts of the resource."""

    def holds(obj: KubeObject) -> bool:
        status = obj["status"]
        return (status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)) == (capacity, allocatable)

    return holds


async def test_a_version_that_knows_no_grants_refuses_to_overlap_with_one_that_has_some(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    plain, folder = write_config(tmp_path), tmp_path / "both"
    folder.mkdir()
    older = change_startup(tmp_path / "older", OLDER)
    async with retrying(client), instance(real_cluster, "1111-new", write_config(folder, offered()), {}):
        await wait_offered(real_cluster, client, CARDS)
        await run_limit(client, "limit-0")
        before = await settle(real_cluster, client, lambda views: len(views.ledger) == len(views.kubelet) == 1)
        command = agent_command(real_cluster, "--config", str(plain), "--pod-uid", "2222-old")
        refused = AgentProcess(command, real_cluster.folder / "agent.log", env=older)
        await refused.start()
        status = await refused.wait_ended()
        assert status == 2, refused.lines
        assert "found version 2" in refused.lines[-1]["message"]
        assert await look(real_cluster, client, driver=DRIVER, resource=RESOURCE) == before
        await run_limit(client, "limit-1")
        await delete_pods(client)

        assert is_empty(await settle(real_cluster, client, is_empty))
