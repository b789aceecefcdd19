"""The doctor on a real node: nothing to say of a healthy one, and the right thing of a sick one."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.node.doctor import examine
from claimsmith.node.doctor_api import RIGHTS, collect_api
from claimsmith.node.doctor_findings import Finding
from claimsmith.node.doctor_local import Machine, collect_local
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.recipe import NODE

CARDS = "gpus: [{model: A100-40, count: 2}]"


async def ask(client: KubeClient, paths: NodePaths) -> list[Finding]:
    """Return what is not well."""
    findings = examine(collect_local(Machine(paths=paths)), await collect_api(client, NODE))
    return [finding for finding in findings if finding.severity != "good"]


def problems(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.severity == "problem"]


async def test_a_healthy_node_has_no_problem(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS):
        findings = await ask(client, real_cluster.paths)

        assert problems(findings) == []
        assert {finding.check for finding in findings} <= {"cgroups", "gates"}


async def test_a_folder_that_containerd_does_not_read_is_named(real_cluster: RealCluster, client: KubeClient) -> None:
    other = real_cluster.folder / "other-cdi"
    other.mkdir(exist_ok=True)
    found = problems(await ask(client, replace(real_cluster.paths, cdi=other)))

    read = f"runtime: found containerd reading CDI files from {real_cluster.folder / 'cdi'}"
    assert [text for text in found if text.startswith(read)]


async def test_sockets_of_a_killed_agent_are_left_over(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS) as agent:
        await agent.kill()
        (found,) = [finding for finding in await ask(client, real_cluster.paths) if finding.check == "sockets"]

        assert "sim.claimsmith.dev-reg.sock" in found.found
        for path in real_cluster.paths.plugins_registry.glob("*.sock"):
            path.unlink()


async def test_each_right_that_the_user_lacks_is_told(real_cluster: RealCluster) -> None:
    stranger = KubeClient.from_kubeconfig(real_cluster.service_account("stranger"))
    try:
        facts = await collect_api(stranger, NODE)
    finally:
        await stranger.close()

    assert [item.allowed for item in facts.access] == [False] * len(RIGHTS)
    assert (facts.node, facts.claims, facts.devices) == (None, None, None)
