"""The embedded kubelet does what the real one does: the same is done to both, and the same seen of both."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from claimsmith.kube.client import KubeClient
from tests.cluster import stories_claims, stories_devices
from tests.cluster.cluster import RealCluster
from tests.cluster.rights import nodes_read_claims
from tests.cluster.story import Story
from tests.cluster.worlds import RealWorld, embedded_world


@pytest.fixture(scope="module", autouse=True)
def certain(real_cluster: RealCluster) -> Iterator[None]:
    """Nothing but what a story does makes the real kubelet fail."""
    with nodes_read_claims(real_cluster):
        yield


async def find_differences(
    told: Callable[[Story], Awaitable[Any]], cluster: RealCluster, client: KubeClient
) -> list[str]:
    """Return the lines in which a story that is told of both kubelets differs: `-` embedded, `+` real."""
    async with embedded_world() as world:
        stories = Story(world), Story(RealWorld(cluster, client))
        embedded, real = await asyncio.gather(*(story.tell(told) for story in stories))
    return list(difflib.unified_diff(lines_of(embedded), lines_of(real), "embedded", "real", lineterm=""))


def lines_of(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True).splitlines()


@pytest.mark.parametrize("name", stories_devices.STORIES)
async def test_device_plugins_meet_the_same(real_cluster: RealCluster, client: KubeClient, name: str) -> None:
    differences = await find_differences(stories_devices.STORIES[name], real_cluster, client)

    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("name", stories_claims.STORIES)
async def test_dra_drivers_meet_the_same(real_cluster: RealCluster, client: KubeClient, name: str) -> None:
    differences = await find_differences(stories_claims.STORIES[name], real_cluster, client)

    assert not differences, "\n".join(differences)
