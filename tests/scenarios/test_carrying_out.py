"""`preempt`, `drain` and `defrag` with `--yes` on a live cluster: who goes, who stays, and what is left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from claimsmith.api.core_pods import parse_pod
from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE, POD
from claimsmith.api.resource import parse_device_taint_rule
from claimsmith.embedded.api.server import kubeconfig_for
from claimsmith.model.workload import Pod
from tests.scenarios.cli_process import Ran, run_claimsmith
from tests.scenarios.scheduling import Bench, bench, pod_object

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set", "controller": True}


async def add_owned(cluster: Bench, name: str, **spec: Any) -> None:
    """Create a pod with a GPU that a ReplicaSet would own, and return once it has a node."""
    obj = pod_object(name, (), "gpu", spec)
    obj["metadata"]["ownerReferences"] = [OWNER]
    await cluster.client.create(POD, obj)
    await cluster.until(lambda: bool(cluster.node_of(name)))


@asynccontextmanager
async def replacing(cluster: Bench) -> AsyncIterator[list[str]]:
    """Make a successor for each owned pod that goes, as a ReplicaSet does; gives their names."""
    made: list[str] = []

    async def replace(name: str) -> None:
        obj = pod_object(name, (), "gpu", {})
        obj["metadata"]["ownerReferences"] = [OWNER]
        await cluster.client.create(POD, obj)

    async with asyncio.TaskGroup() as group:

        def hear(old: Pod | None, new: Pod | None) -> None:
            if old is not None and new is None and old.metadata.owner_references:
                made.append(f"{old.ref.name}-again")
                group.create_task(replace(made[-1]))

        cluster.informers.of(POD, parse_pod).subscribe(hear)
        yield made


async def run(cluster: Bench, folder: Path, *arguments: str) -> Ran:
    """Run a command on the cluster."""
    file = folder / "kc"
    file.write_text(yaml.safe_dump(kubeconfig_for(cluster.url)))
    words = (*arguments, "--kubeconfig", str(file))
    return await asyncio.to_thread(lambda: run_claimsmith(*words, temporary=folder))


async def prepare(cluster: Bench, **nodes: int) -> None:
    for name, count in nodes.items():
        await cluster.add_node(name, *(f"g{number}" for number in range(count)))
    await cluster.add_class()
    await cluster.add_template()


async def prepare_preemption(cluster: Bench) -> None:
    """Let a pod of low priority have the only card, for which one of a high priority waits."""
    await prepare(cluster, a=1)
    await cluster.add_pod("low", template="gpu")
    await cluster.until(lambda: cluster.node_of("low") == "a")
    await cluster.add_pod("high", template="gpu", priorityClassName="system-cluster-critical")
    await cluster.until(lambda: bool(cluster.messages()))


async def test_the_victim_of_a_preemption_goes_and_the_pod_gets_its_place(tmp_path: Path) -> None:
    async with bench() as cluster:
        await prepare_preemption(cluster)
        planned = await run(cluster, tmp_path, "preempt", "pod/high", "-o", "json")
        there = cluster.node_of("low")
        done = await run(cluster, tmp_path, "preempt", "pod/high", "--yes", "--force", "-o", "json")
        await cluster.until(lambda: cluster.node_of("high") == "a")

    assert (planned.code, there, "carriedOut" in json.loads(planned.out)) == (0, "a", False)
    assert (done.code, json.loads(done.out)["carriedOut"]) == (
        0,
        {"evicted": ["default/low"], "left": [], "stopped": ""},
    )
    assert (
        done.err
        == "claimsmith: pod default/low ends for good: nothing makes it again\nclaimsmith: evicted default/low from a\n"
    )


async def test_a_victim_that_nothing_makes_again_stays_unless_it_may_end_for_good(tmp_path: Path) -> None:
    async with bench() as cluster:
        await prepare_preemption(cluster)
        ran = await run(cluster, tmp_path, "preempt", "pod/high", "--yes")

        assert (ran.code, cluster.node_of("low")) == (1, "a")
        assert "nothing makes it again: it ends for good" in ran.out
        assert "nothing makes pod default/low again; name --force too if it may end for good" in ran.err


async def test_a_drained_node_is_cordoned_and_its_pods_run_elsewhere(tmp_path: Path) -> None:
    async with bench() as cluster, replacing(cluster) as made:
        await prepare(cluster, a=1)
        await add_owned(cluster, "p")
        await cluster.add_node("b", "g0")
        ran = await run(cluster, tmp_path, "drain", "a", "--yes")
        node = await cluster.client.get(NODE, "a")
        place = cluster.node_of("p-again")

    assert (ran.code, ran.out.splitlines()[-2:]) == (
        0,
        ["evicted default/p from a", "carried out: 1 pod evicted"],
    )
    assert (made, place, node["spec"]["unschedulable"]) == (["p-again"], "b", True)


async def test_a_drain_after_which_a_pod_would_wait_is_not_begun(tmp_path: Path) -> None:
    async with bench() as cluster:
        await prepare(cluster, a=1)
        await add_owned(cluster, "p")
        ran = await run(cluster, tmp_path, "drain", "a", "--yes")
        node = await cluster.client.get(NODE, "a")

        assert (ran.code, ran.err) == (1, "claimsmith: --yes: nothing was done: pod default/p would wait\n")
        assert (cluster.node_of("p"), "unschedulable" in node.get("spec", {})) == ("a", False)


async def test_a_pod_that_nothing_makes_again_is_only_drained_if_it_may_end_for_good(tmp_path: Path) -> None:
    async with bench() as cluster:
        await prepare(cluster, a=1, b=1)
        await cluster.add_pod("p", template="gpu", nodeSelector={})
        await cluster.until(lambda: bool(cluster.node_of("p")))
        home = cluster.node_of("p")
        ran = await run(cluster, tmp_path, "drain", home, "--yes")
        stayed = cluster.node_of("p")
        forced = await run(cluster, tmp_path, "drain", home, "--yes", "--force")

    assert (ran.code, stayed) == (1, home)
    assert "nothing makes pod default/p again; name --force too if it may end for good" in ran.err
    assert (forced.code, forced.out.splitlines()[-1]) == (0, "carried out: 1 pod evicted")


async def test_moves_free_a_node_and_nobody_takes_the_hole_meanwhile(tmp_path: Path) -> None:
    async with bench() as cluster, replacing(cluster) as made:
        await prepare(cluster, a=2)
        await add_owned(cluster, "p")
        await cluster.add_node("b", "g0", "g1")
        await add_owned(cluster, "q")
        homes = {cluster.node_of("p"), cluster.node_of("q")}
        holds: list[str] = []
        rules = cluster.informers.of(DEVICE_TAINT_RULE, parse_device_taint_rule)
        rules.subscribe(lambda _, new: holds.append(f"{new.pool}/{new.device}") if new is not None else None)
        ran = await run(cluster, tmp_path, "defrag", "--goal", "nodes=2:gpu", "--moves", "1", "--yes", "-o", "json")
        found = json.loads(ran.out)
        (move,) = found["steps"][0]
        place = cluster.node_of(made[0])
        left = (await cluster.client.list(DEVICE_TAINT_RULE)).items

    assert (homes, ran.code, found["carriedOut"]["stopped"]) == ({"a", "b"}, 0, "")
    assert (place, sorted(set(holds)), left) == (move["to"], [f"{move['from']}/g0", f"{move['from']}/g1"], [])
