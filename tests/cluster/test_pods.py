"""The cluster itself: what the tests stand on."""

from __future__ import annotations

from claimsmith.api.kinds import POD
from claimsmith.kube.client import KubeClient
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.watching import wait_phase


async def test_a_pod_runs_and_its_log_says_so(real_cluster: RealCluster, client: KubeClient) -> None:
    await client.create(POD, pod("plain", "echo it runs"))
    ended = await wait_phase(client, "plain")

    assert real_cluster.container_log(ended) == "it runs"
