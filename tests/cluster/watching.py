"""Waiting for what the API shows, told by watches: nothing sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from claimsmith.api.kinds import POD, Kind
from claimsmith.errors import ApiError
from claimsmith.kube.client import KubeClient, KubeObject
from tests.cluster.manifests import pod

__all__ = [
    "WAIT_S",
    "is_ready",
    "is_unschedulable",
    "wait_for",
    "wait_for_object",
    "wait_gone",
    "wait_phase",
    "wait_scheduler",
]

WAIT_S = 180.0
"""Longest wait: on a busy machine all takes its time, and a wait that is met costs nothing."""
_AGAIN_S = 0.2
_WATCH_S = 20


async def wait_for(
    client: KubeClient,
    kind: Kind,
    holds: Callable[[Sequence[KubeObject]], bool],
    *,
    namespace: str | None = None,
    field_selector: str = "",
    timeout_s: float = WAIT_S,
) -> list[KubeObject]:
    """Return all objects of a kind once something holds of them; also while the API server comes and goes.

    Args:
        namespace: Where to look; None: everywhere.
        field_selector: Which objects to look at, such as `metadata.name=gpu`.
        timeout_s: Longest wait.

    Raises:
        AssertionError: It did not come true; the message shows what was seen last.
    """
    items: list[KubeObject] = []
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    listed = await client.list(kind, namespace=namespace, field_selector=field_selector)
                    items = listed.items
                    if holds(items):
                        return items
                    async for event in client.watch(
                        kind,
                        namespace=namespace,
                        field_selector=field_selector,
                        resource_version=listed.resource_version,
                        timeout_s=_WATCH_S,
                    ):
                        if event.type != "BOOKMARK":
                            break
                except ApiError:
                    await asyncio.sleep(_AGAIN_S)
    except TimeoutError:
        seen = "\n".join(f"  {_summary(item)}" for item in items) or "  none"
        raise AssertionError(f"{kind.plural}: not as expected after {timeout_s:g} s; last seen:\n{seen}") from None


async def wait_for_object(
    client: KubeClient,
    kind: Kind,
    name: str,
    holds: Callable[[KubeObject], bool],
    *,
    namespace: str | None = None,
    timeout_s: float = WAIT_S,
) -> KubeObject:
    """Return an object once it is there and something holds of it."""

    def found(items: Sequence[KubeObject]) -> bool:
        return any(map(holds, items))

    selector = f"metadata.name={name}"
    items = await wait_for(client, kind, found, namespace=namespace, field_selector=selector, timeout_s=timeout_s)
    return items[0]


async def wait_phase(
    client: KubeClient, name: str, *phases: str, namespace: str = "default", timeout_s: float = WAIT_S
) -> KubeObject:
    """Return a pod once it is in one of some phases; Succeeded unless told otherwise."""
    wanted = phases or ("Succeeded",)

    def holds(pod: KubeObject) -> bool:
        return (pod.get("status") or {}).get("phase") in wanted

    return await wait_for_object(client, POD, name, holds, namespace=namespace, timeout_s=timeout_s)


async def wait_gone(
    client: KubeClient, kind: Kind, name: str, *, namespace: str | None = None, timeout_s: float = WAIT_S
) -> None:
    """Return once an object of that name is gone."""
    selector = f"metadata.name={name}"
    await wait_for(
        client, kind, lambda items: not items, namespace=namespace, field_selector=selector, timeout_s=timeout_s
    )


async def wait_scheduler(client: KubeClient) -> None:
    """Return once the scheduler has looked for a node for a pod that fits none: by then it knows what was before.

    It hears of slices apart from pods: one that a test has seen may be news to it when the next pod comes.
    """
    nowhere = pod("fits-nowhere", nodeSelector={"fits": "nowhere"})
    await client.create(POD, nowhere)
    await wait_for_object(client, POD, "fits-nowhere", is_unschedulable)
    await client.delete(POD, "fits-nowhere", namespace="default", grace_period_s=0)


def is_unschedulable(pod: Mapping[str, Any]) -> bool:
    """Tell whether the scheduler has found no node for a pod."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _summary(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{place}: deletionTimestamp={metadata.get('deletionTimestamp')} status={str(obj.get('status'))[:1500]}"
