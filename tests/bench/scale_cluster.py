"""A cluster of thousands of nodes that differ in what is in use, for both sides of the benchmark: made by counting."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.resource import parse_device_class, parse_resource_claim, parse_resource_slice_list
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from tests.bench.slices import DEVICES_PER_SLICE, DRIVER, HOSTNAME, make_slice_list, node_name

__all__ = [
    "CLASS",
    "ScaleCluster",
    "make_claim",
    "make_cluster",
    "make_held",
    "make_nodes",
    "make_request",
    "parse_held",
]

Json = dict[str, Any]
SEED: Final = 1
CLASS: Final[Json] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCluster:
    """One cluster, as JSON text and as values.

    Args:
        text: The list of slices, as the API server sends it.
        held: The claims that hold devices, as JSON objects.
    """

    text: bytes
    slices: tuple[ResourceSlice, ...]
    held: Sequence[Json]
    claims: Mapping[ClaimRef, ResourceClaim]
    nodes: Mapping[str, Node]
    classes: Mapping[str, DeviceClass]

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster as a snapshot."""
        return ClusterSnapshot(nodes=self.nodes, slices=self.slices, classes=self.classes, claims=self.claims)

    def ask(self, claim: Json, *, nodes: int | None = None) -> Json:
        """Return the question to upstream: one claim on so many of the nodes, or all."""
        names = list(self.nodes)[:nodes]
        return {
            "name": "scale",
            "features": "default",
            "nodes": [{"metadata": {"name": name, "labels": {HOSTNAME: name}}} for name in names],
            "classes": [CLASS],
            "slices": json.loads(self.text)["items"],
            "allocatedClaims": list(self.held),
            "claims": [claim],
            "timeoutMs": 15_000,
        }


def make_cluster(nodes: int, *, by_label: bool = False, share_in_use: float = 0.5) -> ScaleCluster:
    """Return a cluster of so many nodes with 8 GPUs of two models by turns, of which a share is in use at random."""
    text, held = make_slice_list(nodes, by_label=by_label), list(make_held(nodes, share_in_use))
    return ScaleCluster(
        text=text,
        slices=parse_resource_slice_list(text),
        held=held,
        claims=parse_held(held),
        nodes=make_nodes(nodes),
        classes={"gpu": parse_device_class(CLASS)},
    )


def make_held(nodes: int, share_in_use: float = 0.5) -> Iterator[Json]:
    """Give the claims that hold a share of the devices, drawn at random."""
    draw = random.Random(SEED)
    for number in range(nodes):
        for place in range(DEVICES_PER_SLICE):
            if draw.random() < share_in_use:
                yield make_claim(f"held-{number}-{place}", make_request("r", 1)) | _allocate(number, place)


def parse_held(held: Iterable[Json]) -> dict[ClaimRef, ResourceClaim]:
    """Return claims as values."""
    return {claim.ref: claim for claim in map(parse_resource_claim, held)}


def make_nodes(nodes: int) -> dict[str, Node]:
    """Return the nodes by name."""
    names = [node_name(number) for number in range(nodes)]
    return {name: Node(metadata=Metadata(name=name, labels={HOSTNAME: name})) for name in names}


def make_request(name: str, count: int, *selectors: str) -> Json:
    """Return a request for devices of the class, as JSON."""
    chosen = [{"cel": {"expression": selector}} for selector in selectors]
    spec = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": chosen}
    return {"name": name, "exactly": spec}


def make_claim(name: str, *requests: Json, same: str = "") -> Json:
    """Return a claim, as JSON.

    Args:
        same: Attribute of which all devices must have the same value.
    """
    constraints = [{"matchAttribute": same}] if same else []
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests), "constraints": constraints}},
    }


def _allocate(number: int, place: int) -> Json:
    """The status of a claim that holds one device of a node."""
    device = {"request": "r", "driver": DRIVER, "pool": node_name(number), "device": f"gpu-{place}"}
    return {"status": {"allocation": {"devices": {"results": [device]}}}}
