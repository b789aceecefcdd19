"""Removes what a test has created, so that the next one finds a node without pods and a cluster without devices."""

from __future__ import annotations

import asyncio
from typing import Final

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from claimsmith.errors import NotFoundError
from claimsmith.kube.client import KubeClient
from tests.cluster import recipe
from tests.cluster.cluster import RealCluster
from tests.cluster.watching import wait_for

__all__ = ["clean", "delete_pods", "take_cdi_files"]

_PODS_GO_S: Final = 120.0
_CLAIM: Final = "-claim_"
"""Part of the names of our CDI files; plugins that tests make up have others."""
_GRANT: Final = "grant-"
"""Part of the names of those that belong to containers of a device plugin."""
_KINDS: Final[tuple[Kind, ...]] = (
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_SLICE,
)


async def clean(client: KubeClient) -> None:
    """Delete pods, claims, templates, classes, taint rules, slices and the nodes that have no kubelet.

    Raises:
        AssertionError: A pod stays, which happens when nobody unprepares its claims: `served` deletes pods in time.
    """
    await delete_pods(client)
    for kind in _KINDS:
        await _delete_all(client, kind)
    for node in (await client.list(NODE)).items:
        if node["metadata"]["name"] != recipe.NODE:
            await client.delete(NODE, node["metadata"]["name"])


async def delete_pods(client: KubeClient, *, timeout_s: float = _PODS_GO_S) -> None:
    """Delete all pods and wait until the kubelet has let go of them.

    Args:
        timeout_s: Longest wait; a preparation that is held keeps a pod for up to 45 s.

    Raises:
        AssertionError: One stays; it is then removed by force, so that only this test fails.
    """
    pods = (await client.list(POD)).items
    # Nobody but a kubelet tells that a pod has ended.
    grace_s = {recipe.NODE: 1}
    await asyncio.gather(
        *(_delete(client, POD, pod["metadata"], grace_s.get(pod["spec"].get("nodeName", ""), 0)) for pod in pods)
    )
    try:
        await wait_for(client, POD, lambda items: not items, timeout_s=timeout_s)
    except AssertionError:
        await _delete_all(client, POD, grace_period_s=0)
        raise


def take_cdi_files(cluster: RealCluster) -> None:
    """Remove the CDI files of claims that are left: they go before their pods do.

    Those of grants go when the kubelet has told that their containers have ended: the next agent removes them.

    Raises:
        AssertionError: A file was left; it is removed all the same, so that only this test fails.
    """
    left = [path for path in cluster.list_cdi_files() if _CLAIM in path.name and _GRANT not in path.name]
    for path in left:
        path.unlink()
    assert not left, f"CDI files of claims that nobody has: {', '.join(path.name for path in left)}"


async def _delete_all(client: KubeClient, kind: Kind, *, grace_period_s: int | None = None) -> None:
    try:
        items = (await client.list(kind)).items
    except NotFoundError:
        return  # Not served under these gates.
    await asyncio.gather(*(_delete(client, kind, item["metadata"], grace_period_s) for item in items))


async def _delete(client: KubeClient, kind: Kind, metadata: dict[str, str], grace_period_s: int | None) -> None:
    try:
        await client.delete(
            kind, metadata["name"], namespace=metadata.get("namespace", ""), grace_period_s=grace_period_s
        )
    except NotFoundError:
        pass
