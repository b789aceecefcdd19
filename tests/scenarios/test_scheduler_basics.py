from __future__ import annotations

from tests.scenarios.scheduling import bench


async def test_a_pod_gets_a_device_from_a_template_and_a_node() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_template()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: cluster.node_of("p") == "node-a")
        (claim,) = cluster.claims

    assert claim.metadata.name.startswith("p-t-")
    assert [str(item.device_id) for item in claim.allocation.results] == ["gpu.example.test/node-a/gpu-0"]
