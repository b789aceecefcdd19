"""Pods that wait for the same change are decided together when it comes."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import RESOURCE_SLICE
from tests.scenarios.scheduling import bench, node_slice

MEMORY = "device.capacity['gpu.example.test'].memory"


def card(name: str, memory: str) -> dict[str, Any]:
    return {"name": name, "capacity": {"memory": {"value": memory}}}


async def test_a_pod_that_needs_the_large_card_gets_it_although_another_one_came_first() -> None:
    large = [{"cel": {"expression": f"{MEMORY}.compareTo(quantity('40Gi')) > 0"}}]
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_node("node-a")
        await cluster.add_claim("any")
        await cluster.add_claim("big", selectors=large)
        for name in ("any", "big"):
            await cluster.add_pod(name, name)
        await cluster.until(lambda: len(cluster.messages()) == 2)
        slices = node_slice("node-a", [card("large", "80Gi"), card("small", "24Gi")])
        await cluster.client.create(RESOURCE_SLICE, slices)
        await cluster.until(lambda: all(map(cluster.node_of, ("any", "big"))))

    assert cluster.devices("any") == ["gpu.example.test/node-a/small"]
    assert cluster.devices("big") == ["gpu.example.test/node-a/large"]
