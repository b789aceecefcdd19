"""`claimsmith up --state FILE` is killed with -9 while people work, and started again on the same file."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from claimsmith.api.kinds import POD, RESOURCE_CLAIM
from claimsmith.errors import UnreachableError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.reflector import Reflector
from tests.scenarios.cli_process import UpProcess, run_claimsmith, up
from tests.scenarios.one_card import ONE_CARD

CLUSTER = (
    """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  nodes: [alpha, beta, gamma]
  driver: gpu.example.com
  gpus: [{model: T4, count: 4}]
"""
    + ONE_CARD
)
KILLED_AFTER: Final = (2, 7, 12, 17)
"""How many pods have been acknowledged when the cluster is killed, life by life."""
LONG: Final = 2
"""Pods of each life that never end by themselves; the others run for 300 ms."""


def pod(name: str, *, long: bool) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {} if long else {"claimsmith.dev/run-for": "300ms"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example/job:1", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }


class Watched:
    """The pods and claims of a running cluster as they change."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self._pods: Reflector[dict[str, Any]] = Reflector(client, POD, dict)
        self._claims: Reflector[dict[str, Any]] = Reflector(client, RESOURCE_CLAIM, dict)
        self._changed = asyncio.Event()
        for reflector in (self._pods, self._claims):
            reflector.subscribe(lambda *_: self._changed.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._claims.run())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; looked at again at each change."""
        await self._pods.wait_synced()
        await self._claims.wait_synced()
        async with asyncio.timeout(120):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def phases(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["status"]["phase"] for obj in self._pods}

    def devices(self) -> list[tuple[str, str]]:
        """Return the devices that claims hold, as often as they hold them."""
        found = [obj.get("status", {}).get("allocation") for obj in self._claims]
        return [(item["pool"], item["device"]) for a in found if a for item in a["devices"]["results"]]

    def claims(self) -> int:
        return len(self._claims)


@asynccontextmanager
async def watching(cluster: UpProcess) -> AsyncIterator[Watched]:
    client = cluster.open_client()
    watched = Watched(client)
    task = asyncio.create_task(watched.run())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def create_until_killed(cluster: UpProcess, life: int, enough: int) -> set[str]:
    """Create pods side by side, kill the cluster after so many acknowledgements, and return all that came."""
    client, known = cluster.open_client(), set[str]()

    async def create(number: int) -> None:
        name = f"{'long' if number < LONG else 'short'}-{life}-{number}"
        try:
            await client.create(POD, pod(name, long=number < LONG), namespace="default")
        except UnreachableError:
            return
        known.add(name)
        if len(known) == enough:
            cluster.process.kill()

    await asyncio.gather(*(create(number) for number in range(20)))
    cluster.kill()
    await client.close()
    return known


def is_there(watched: Watched, known: frozenset[str]) -> bool:
    return known <= watched.phases().keys()


def is_settled(watched: Watched, known: Iterable[str]) -> bool:
    """Tell whether all pods have got as far as they can: long ones run, short ones have ended."""
    phases = watched.phases()
    wanted = {name: "Running" if name.startswith("long") else "Succeeded" for name in {*phases, *known}}
    return phases == wanted and watched.claims() == sum(name.startswith("long") for name in phases)


def has_all(watched: Watched, names: frozenset[str]) -> bool:
    return names <= watched.phases().keys()


@pytest.mark.timeout(600)
async def test_what_was_acknowledged_survives_kill_9_and_runs_again(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    arguments = ("-f", str(tmp_path / "cluster.yaml"), "--state", str(tmp_path / "state.db"))
    known: set[str] = set()
    ended: set[str] = set()
    for life, enough in enumerate(KILLED_AFTER):
        with up(*arguments, home=tmp_path) as cluster:
            async with watching(cluster) as watched:
                await watched.until(partial(has_all, watched, frozenset(known)))
                assert {watched.phases()[name] for name in ended} <= {"Succeeded"}
                assert max(Counter(watched.devices()).values(), default=1) == 1
                known |= await create_until_killed(cluster, life, enough)
                ended = {name for name, phase in watched.phases().items() if phase == "Succeeded"}
    with up(*arguments, home=tmp_path) as cluster:
        async with watching(cluster) as watched:
            await watched.until(lambda: is_settled(watched, known))
            assert max(Counter(watched.devices()).values()) == 1
            outputs = [cluster.kubectl("logs", name) for name in watched.phases() if name.startswith("long")]
            assert all("env CLAIMSMITH_GPU_" in output for output in outputs)
            cluster.kubectl("delete", "pods", "--all", "--wait=false")
            await watched.until(lambda: not watched.phases() and not watched.claims())
        ended_well = cluster.end()

    assert (ended_well.code, ended_well.err) == (0, "")
    assert len(known) >= sum(KILLED_AFTER)


def test_a_state_file_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    arguments = ("-f", "-", "--state", str(tmp_path / "state.db"))
    with up(*arguments, home=tmp_path, text=CLUSTER.encode()):
        ran = run_claimsmith("up", *arguments, temporary=tmp_path, text=CLUSTER.encode())

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"claimsmith: state file {tmp_path / 'state.db'}: another process holds it; "
        "stop that process or name another file\n"
    )


def test_nodes_that_only_the_state_file_knows_still_end_their_pods(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state.db"))
    text = (
        f"{CLUSTER}---\n"
        + """
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: default}
spec: {nodeName: beta, containers: [{name: main, image: 'example/job:1'}]}
"""
    )
    with up("-f", "-", *state, home=tmp_path, text=text.encode()) as cluster:
        cluster.kubectl("wait", "pod/lonely", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
        cluster.end()
    other = CLUSTER.replace("[alpha, beta, gamma]", "[delta]")
    with up("-f", "-", *state, home=tmp_path, text=other.encode()) as cluster:
        cluster.kubectl("delete", "pod", "lonely", "--timeout=60s")

        assert cluster.lines[0].endswith(", 4 nodes")
        assert cluster.kubectl("get", "resourceslices", "-o", "jsonpath={.items[*].spec.nodeName}") == "delta"
