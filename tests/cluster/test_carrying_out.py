"""`claimsmith preempt --yes` on a real cluster: evictions end pods, unless a disruption budget keeps them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, POD, POD_DISRUPTION_BUDGET, RESOURCE_CLAIM
from claimsmith.errors import ThrottledError
from claimsmith.kube.client import KubeClient
from claimsmith.model.names import PodRef
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.watching import is_ready, wait_for_object

HIGH = "system-cluster-critical"


async def preempt(cluster: RealCluster, *options: str) -> tuple[int, dict[str, Any]]:
    """Ask for a place for the pod `high`; returns the exit code and what is told."""
    command = [sys.executable, "-m", "claimsmith", "preempt", "pod/high", "-o", "json", *options]
    ran = await asyncio.to_thread(
        subprocess.run, [*command, "--kubeconfig", str(cluster.kubeconfig)], capture_output=True, text=True, check=False
    )
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


@asynccontextmanager
async def contested(cluster: RealCluster, client: KubeClient) -> AsyncIterator[None]:
    """Have a pod hold the only card, and another one of higher priority wait for it."""
    async with serving(cluster, client, "gpus: [{model: A100-40}]"):
        await client.create(DEVICE_CLASS, device_class("gpu", 'device.driver == "sim.claimsmith.dev"'))
        for name in ("low", "high"):
            await client.create(RESOURCE_CLAIM, claim(name, exactly("gpu", "gpu")))
        low = pod("low", claims=["low"])
        low["metadata"]["labels"] = {"app": "low"}
        await client.create(POD, low)
        await wait_for_object(client, POD, "low", is_ready)
        await client.create(POD, pod("high", claims=["high"], priorityClassName=HIGH))
        yield


async def test_the_victim_ends_and_the_pod_runs(real_cluster: RealCluster, client: KubeClient) -> None:
    async with contested(real_cluster, client):
        refused, planned = await preempt(real_cluster, "--yes")
        code, told = await preempt(real_cluster, "--yes", "--force")
        await wait_for_object(client, POD, "high", is_ready)

    assert (refused, planned["victims"][0]["remade"], "carriedOut" in planned) == (1, False, False)
    assert (code, told["carriedOut"]) == (0, {"evicted": ["default/low"], "left": [], "stopped": ""})


async def test_a_budget_keeps_its_pod(real_cluster: RealCluster, client: KubeClient) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}}
    metadata = {"name": "keep", "namespace": "default"}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    async with contested(real_cluster, client):
        await client.create(POD_DISRUPTION_BUDGET, body)
        try:
            await wait_for_object(
                client, POD_DISRUPTION_BUDGET, "keep", lambda obj: "observedGeneration" in obj["status"]
            )
            code, told = await preempt(real_cluster, "--yes")
            with pytest.raises(ThrottledError, match="disruption budget"):
                await client.evict(PodRef("default", "low"))
        finally:
            await client.delete(POD_DISRUPTION_BUDGET, "keep", namespace="default")

    assert (code, told["status"], "carriedOut" in told) == (1, "forbidden", False)
