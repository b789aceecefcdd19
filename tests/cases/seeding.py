"""Puts the objects of a case into an API server, with what such a cluster must have besides.

The server gives uids of its own, so that references are rewritten. A node that says nothing of its resources is ready
and has room for many pods. A pod that a claim is reserved for but that the case does not show is made: it runs where
the claim's devices are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from claimsmith.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind, get_kind_of
from claimsmith.kube.client import KubeClient
from claimsmith.model.claim import FINALIZER

Object = Mapping[str, Any]

_ROOM: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_PLAIN: Final = (DEVICE_CLASS, RESOURCE_SLICE)


async def seed(client: KubeClient, objects: Iterable[Object]) -> list[Object]:
    """Create objects; return the pods that have no node yet, which are left for the test to create."""
    by_kind: dict[Kind, list[Object]] = {}
    for item in objects:
        by_kind.setdefault(get_kind_of(item), []).append(item)
    for node in by_kind.get(NODE, ()):
        await create_node(client, node)
    for kind in _PLAIN:
        for item in by_kind.get(kind, ()):
            await client.create(kind, item)
    pods = by_kind.get(POD, [])
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    uids = {pod["metadata"]["name"]: await create_running_pod(client, pod) for pod in placed}
    for claim in by_kind.get(RESOURCE_CLAIM, ()):
        await create_claim(client, claim, uids, default_node=_first_node(by_kind))
    return [pod for pod in pods if pod not in placed]


async def create_node(client: KubeClient, node: Object) -> None:
    """Create a node with the resources that it states, or with room for many pods."""
    name = node["metadata"]["name"]
    await client.create(NODE, {key: value for key, value in node.items() if key != "status"})
    amounts = (node.get("status") or {}).get("allocatable") or _ROOM
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(NODE, name, {"status": status}, subresource="status")


async def create_running_pod(client: KubeClient, pod: Object, phase: str = "Running") -> str:
    """Create a pod that has its node, and set its phase; return its uid."""
    made = await client.create(POD, pod, namespace="default")
    await client.patch(
        POD, pod["metadata"]["name"], {"status": {"phase": phase}}, namespace="default", subresource="status"
    )
    return str(made["metadata"]["uid"])


async def create_claim(client: KubeClient, claim: Object, uids: dict[str, str], *, default_node: str) -> None:
    """Create a claim with its allocation and its consumers; `uids` are those of pods by name."""
    metadata, status = dict(claim["metadata"]), dict(claim.get("status") or {})
    metadata.pop("uid", None)
    if status.get("allocation"):
        metadata["finalizers"] = [FINALIZER]
    await client.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": claim["spec"]}, namespace="default")
    if not status:
        return
    consumers = []
    for consumer in status.get("reservedFor") or ():
        name = consumer["name"]
        if name not in uids:
            node = find_node(status["allocation"]) or default_node
            uids[name] = await create_running_pod(client, consumer_pod(name, metadata["name"], node))
        consumers.append({**consumer, "uid": uids[name]})
    patch = {"status": {**status, **({"reservedFor": consumers} if consumers else {})}}
    await client.patch(RESOURCE_CLAIM, metadata["name"], patch, namespace="default", subresource="status")


def consumer_pod(name: str, claim: str, node: str = "") -> dict[str, Any]:
    """Return a pod that uses a claim."""
    container = {"name": "c", "image": "registry.example.test/a:1", "resources": {"claims": [{"name": "c"}]}}
    spec: dict[str, Any] = {
        "containers": [container],
        "resourceClaims": [{"name": "c", "resourceClaimName": claim}],
        "terminationGracePeriodSeconds": 0,
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, **({"nodeName": node} if node else {"schedulerName": "claimsmith"})},
    }


def find_node(allocation: Object) -> str:
    """Return the one node that an allocation names; empty when it names none."""
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _first_node(by_kind: Mapping[Kind, list[Object]]) -> str:
    nodes = by_kind.get(NODE, [])
    return str(nodes[0]["metadata"]["name"]) if nodes else ""
