"""A trace as objects of the API: slices, classes, and a claim for each pod.

Each node publishes one pool: its GPUs, of which claims take thousandths, and one device that stands for the node's
processors and memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from claimsmith.model.claim import (
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    Selector,
    SubRequest,
)
from claimsmith.model.device import Capacity, Device, DeviceAttribute, NodeAllocatableResource
from claimsmith.model.metadata import Metadata
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.replay.trace import GPU_MILLI, Trace, TraceNode, TracePod

__all__ = ["DRIVER", "build_claim", "build_snapshot"]

DRIVER: Final = "replay.claimsmith.dev"
"""Driver of all devices of a replay."""
GPU_CLASS: Final = "gpu"
NODE_CLASS: Final = "node-share"
NAMESPACE: Final = "replay"
_ONE: Final = Quantity.from_int(1)


def build_snapshot(trace: Trace) -> ClusterSnapshot:
    """Return the trace's cluster, without claims."""
    classes = {name: _build_class(name) for name in (GPU_CLASS, NODE_CLASS)}
    return ClusterSnapshot(
        nodes={node.name: _build_node(node) for node in trace.nodes},
        slices=tuple(_build_slice(node) for node in trace.nodes),
        classes=classes,
    )


def build_claim(pod: TracePod, number: int) -> ResourceClaim:
    """Return the claim of one pod.

    Args:
        number: Makes its name and uid.
    """
    return ResourceClaim(
        metadata=Metadata(name=f"pod-{number}", namespace=NAMESPACE, uid=f"pod-{number}"), spec=_build_spec(pod)
    )


def _build_class(name: str) -> DeviceClass:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{name}"'
    return DeviceClass(metadata=Metadata(name=name), selectors=(Selector(expression=expression),))


def _build_node(node: TraceNode) -> Node:
    amounts = {"cpu": parse_quantity(f"{node.cpu_milli}m"), "memory": parse_quantity(f"{node.memory_mib}Mi")}
    return Node(metadata=Metadata(name=node.name), capacity=amounts, allocatable=amounts)


def _build_slice(node: TraceNode) -> ResourceSlice:
    gpu = {"type": DeviceAttribute.of(GPU_CLASS), "model": DeviceAttribute.of(node.model)}
    milli = {"milli": Capacity(value=Quantity.from_int(GPU_MILLI))}
    gpus = tuple(
        Device(name=f"gpu-{number}", attributes=gpu, capacity=milli, allow_multiple_allocations=True)
        for number in range(node.gpus)
    )
    share = Device(
        name="node",
        attributes={"type": DeviceAttribute.of(NODE_CLASS)},
        capacity={
            "cpu": Capacity(value=parse_quantity(f"{node.cpu_milli}m")),
            "memory": Capacity(value=parse_quantity(f"{node.memory_mib}Mi")),
        },
        allow_multiple_allocations=True,
        node_allocatable_resources={
            name: NodeAllocatableResource(capacity_key=name, capacity_multiplier=_ONE) for name in ("cpu", "memory")
        },
    )
    return ResourceSlice(
        metadata=Metadata(name=node.name),
        driver=DRIVER,
        pool=node.name,
        generation=1,
        slice_count=1,
        node_name=node.name,
        devices=(*gpus, share),
    )


@lru_cache(maxsize=4_096)
def _build_spec(pod: TracePod) -> ResourceClaimSpec:
    share = SubRequest(
        device_class=NODE_CLASS,
        capacity={"cpu": parse_quantity(f"{pod.cpu_milli}m"), "memory": parse_quantity(f"{pod.memory_mib}Mi")},
    )
    requests = [DeviceRequest(name="node", exactly=share)]
    if pod.gpus:
        gpus = SubRequest(
            device_class=GPU_CLASS,
            selectors=_build_selectors(pod.models),
            count=pod.gpus,
            capacity={"milli": Quantity.from_int(pod.gpu_milli)},
        )
        requests.insert(0, DeviceRequest(name="gpus", exactly=gpus))
    return ResourceClaimSpec(requests=tuple(requests))


def _build_selectors(models: tuple[str, ...]) -> tuple[Selector, ...]:
    if not models:
        return ()
    allowed = ", ".join(f'"{model}"' for model in models)
    return (Selector(expression=f'device.attributes["{DRIVER}"].model in [{allowed}]'),)
