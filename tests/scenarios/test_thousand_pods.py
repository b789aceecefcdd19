"""A thousand pods, one device each, over a hundred nodes with eight devices: each is prepared, runs, leaves nothing.

What happened is put in one order by resourceVersions, which the embedded store counts over all kinds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from claimsmith.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.embedded.kubelet.dra_checkpoint import CHECKPOINT_FILE, decode_claims
from claimsmith.kube.client import KubeClient, ObjectList
from tests.scenarios.cli_process import UpProcess, up

NODES: Final = 100
CARDS: Final = 8
PODS: Final = 1000
WRITES_PER_POD_MAX: Final = 20
"""Generous: a pod and its claim are made, allocated, bound, run, ended, taken apart; two events tell of it."""

CLUSTER: Final = f"""
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {{name: cards}}
spec:
  nodes: [{", ".join(f"node-{number:03d}" for number in range(NODES))}]
  driver: gpu.example.com
  gpus: [{{model: T4, count: {CARDS}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == "gpu.example.com"'}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: one, namespace: default}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}}}
"""

Object = dict[str, Any]
Device = tuple[str, str]
"""Pool, which is the node's name, and name of a device."""


def pod(number: int) -> Object:
    return {
        "metadata": {"name": f"pod-{number:04d}", "annotations": {"claimsmith.dev/run-for": "2s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example/job:1", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }


@dataclass(kw_only=True)
class Story:
    """All that happened to pods and claims.

    Args:
        events: resourceVersion, kind, `ADDED`, `MODIFIED` or `DELETED`, and the object.
    """

    events: list[tuple[int, str, str, Object]] = field(default_factory=list)
    phases: dict[str, str] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, client: KubeClient, kind: Kind, since: ObjectList) -> None:
        async for event in client.watch(kind, resource_version=since.resource_version, timeout_s=1000):
            if event.type != "BOOKMARK":
                self.take(kind, event.type, event.object)

    def take(self, kind: Kind, change: str, obj: Object) -> None:
        self.events.append((int(obj["metadata"]["resourceVersion"]), kind.kind, change, obj))
        name = obj["metadata"]["name"]
        if kind is POD:
            self.phases[name] = obj["status"]["phase"]
        elif change == "DELETED":
            self.claims.discard(name)
        else:
            self.claims.add(name)
        self.changed.set()

    async def until_all_ended(self) -> None:
        """Wait until every pod has ended and every claim is gone."""
        while len(self.phases) < PODS or self.claims or {"Pending", "Running"} & set(self.phases.values()):
            self.changed.clear()
            await self.changed.wait()

    def devices(self) -> dict[str, Device]:
        """Replay the claims; return the device of each pod, and see that no device was held twice at a time."""
        held: dict[Device, str] = {}
        found: dict[str, Device] = {}
        for _, kind, change, obj in sorted(self.events, key=lambda event: event[0]):
            if kind != "ResourceClaim":
                continue
            owner = obj["metadata"]["ownerReferences"][0]["name"]
            allocation = (obj.get("status") or {}).get("allocation")
            if change == "DELETED" or allocation is None:
                held = {device: holder for device, holder in held.items() if holder != owner}
                continue
            (result,) = allocation["devices"]["results"]
            device = (result["pool"], result["device"])
            assert held.setdefault(device, owner) == owner, f"{device} is held by {held[device]} and {owner}"
            found[owner] = device
        return found

    def most_running(self, devices: dict[str, Device]) -> int:
        """Replay the pods; return how many ran at once at most, and see that no two ran on one device."""
        running: dict[str, Device] = {}
        most = 0
        for _, kind, _, obj in sorted(self.events, key=lambda event: event[0]):
            if kind != "Pod":
                continue
            name = obj["metadata"]["name"]
            if obj["status"]["phase"] == "Running":
                running[name] = devices[name]
            else:
                running.pop(name, None)
            assert len(set(running.values())) == len(running)
            most = max(most, len(running))
        return most


@asynccontextmanager
async def telling(client: KubeClient) -> AsyncIterator[Story]:
    """Follow pods and claims until the block ends."""
    story = Story()
    since = [(kind, await client.list(kind)) for kind in (POD, RESOURCE_CLAIM)]
    tasks = [asyncio.create_task(story.follow(client, kind, found)) for kind, found in since]
    try:
        yield story
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_outputs(url: str, names: list[str]) -> dict[str, list[str]]:
    """Return what the container of each pod has printed."""
    found: dict[str, list[str]] = {}
    async with httpx2.AsyncClient(base_url=url, timeout=200) as client:
        for name in names:
            answer = await client.get(f"/api/v1/namespaces/default/pods/{name}/log")
            found[name] = answer.text.splitlines()
    return found


async def read_uuids(client: KubeClient) -> dict[Device, str]:
    """Return the uuid that each device is published with."""
    specs = [obj["spec"] for obj in (await client.list(RESOURCE_SLICE)).items]
    return {
        (spec["pool"]["name"], device["name"]): device["attributes"]["uuid"]["string"]
        for spec in specs
        for device in spec["devices"]
    }


def left_files(folder: Path) -> dict[str, int]:
    """Return what is left on the nodes: CDI files, prepared claims in checkpoints of drivers and kubelets, sockets."""
    checkpoints = [json.loads(path.read_bytes()) for path in folder.glob("*/p/*/checkpoint.json")]
    kubelets = [decode_claims(path.read_bytes(), path) for path in folder.glob(f"*/k/{CHECKPOINT_FILE}")]
    return {
        "CDI files": len(list(folder.glob("*/c/*"))),
        "claims in checkpoints": sum(len(found["claims"]) for found in checkpoints),
        "claims of kubelets": sum(map(len, kubelets)),
        "sockets": sum(path.is_socket() for path in folder.rglob("*")),
    }


def cpu_s(cluster: UpProcess) -> float:
    """Return the CPU time of the process so far in seconds."""
    fields = Path(f"/proc/{cluster.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.slow
@pytest.mark.timeout(2400)
async def test_a_thousand_pods_end_well_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    with up("-f", str(tmp_path / "cluster.yaml"), home=tmp_path) as cluster:
        client = cluster.open_client()
        started_s, start_cpu_s = time.monotonic(), cpu_s(cluster)
        async with telling(client) as story:
            before = int((await client.list(POD)).resource_version)
            for first in range(0, PODS, 50):
                await asyncio.gather(
                    *(client.create(POD, pod(n), namespace="default") for n in range(first, first + 50))
                )
            await story.until_all_ended()
        seconds, used_s = time.monotonic() - started_s, cpu_s(cluster) - start_cpu_s
        writes = int((await client.list(POD)).resource_version) - before
        print(
            f"{PODS} pods: {seconds:.1f} s, {used_s:.1f} s of CPU after {start_cpu_s:.1f} s, {writes / PODS} writes/pod"
        )
        uuids = await read_uuids(client)
        outputs = await read_outputs(cluster.url, list(story.phases))
        await client.close()
        (folder,) = cluster.temporary.iterdir()
        left = left_files(folder)
        ended = cluster.end()
        after = list(cluster.temporary.iterdir())

    devices = story.devices()
    wrong = [
        name
        for name, output in outputs.items()
        if f"env CLAIMSMITH_VISIBLE_DEVICES={uuids[devices[name]]}" not in output
        or f"node {devices[name][0]}" not in output[0]
    ]
    assert set(story.phases.values()) == {"Succeeded"}
    assert len(devices) == PODS
    assert story.most_running(devices) <= NODES * CARDS
    assert wrong == []
    assert left == {"CDI files": 0, "claims in checkpoints": 0, "claims of kubelets": 0, "sockets": 4 * NODES}
    assert (ended.code, ended.out, after) == (0, "", [])
    assert writes <= PODS * WRITES_PER_POD_MAX
