"""A node with somebody else's device plugin beside ours: what it has given away is tainted in our slices meanwhile."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from claimsmith.api.kinds import EVENT, POD, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import AgentProcess, agent_command, serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.test_device_plugin import RESOURCE, taints, wait_offered
from tests.cluster.watching import is_ready, wait_for, wait_for_object, wait_gone

CARDS = "gpus: [{model: A100-40, count: 2}]"
FOREIGN = f"""
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  drivers:
  - plugin: simulated
    dra: {{enabled: false}}
    foreign: {{enabled: false}}
    devicePlugin: {{resources: [{{resource: {RESOURCE}}}]}}
---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {{driver: foreign.example.com, gpus: [{{model: A100-40, count: 2}}]}}
"""
SOON_S = 60.0
"""Within which a use by others is noticed; the kubelet is asked every ten seconds."""


@contextlib.asynccontextmanager
async def foreign_plugin(cluster: RealCluster) -> AsyncIterator[None]:
    """Run a device plugin that offers the same cards, and of which our agent knows nothing."""
    with tempfile.TemporaryDirectory(dir=cluster.folder) as folder:
        file = Path(folder) / "foreign.yaml"
        file.write_text(FOREIGN)
        plugin = AgentProcess(agent_command(cluster, "--config", str(file)), cluster.folder / "foreign.log")
        await plugin.start()
        try:
            yield
        finally:
            await plugin.stop()


async def test_a_card_that_another_plugin_gave_away_is_tainted_until_its_pod_ends(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with foreign_plugin(real_cluster), serving(real_cluster, client, CARDS):
        await wait_offered(real_cluster, client, 2)
        await client.create(POD, pod("legacy", limits={RESOURCE: "1"}))
        await wait_for_object(client, POD, "legacy", is_ready)
        await wait_for(
            client, RESOURCE_SLICE, lambda items: sorted(taints(items).values()) == [[], ["nvidia.com_gpu"]],
            timeout_s=SOON_S,
        )  # fmt: skip
        events = await wait_for(client, EVENT, bool, field_selector="reason=DeviceInUseByOtherPlugin")
        await client.delete(POD, "legacy", namespace="default", grace_period_s=1)
        await wait_gone(client, POD, "legacy")
        await wait_for(
            client, RESOURCE_SLICE, lambda items: sorted(taints(items).values()) == [[], []], timeout_s=SOON_S
        )

    assert "is used by pod default/legacy through nvidia.com/gpu" in events[0]["message"]
