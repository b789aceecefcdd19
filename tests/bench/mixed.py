"""Mixed batches: pods that ask for a few GPUs of one of several models, most of them with a NIC at the same NUMA node.

A cluster has 20 nodes of two NUMA nodes; each node has GPUs of one model, and a NIC of 100 units of bandwidth at each
NUMA node. What is asked for is drawn so that fifty pods nearly fill the GPUs, and sixty ask for more than there are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from claimsmith.allocate.batch import Batch, Member
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import alternatives, capacity, claim, device, klass, match, node, request, slice_, sub

__all__ = ["MixedBatch", "draw_batch"]

NODES: Final = 20
MODELS: Final = {"A": "80Gi", "B": "40Gi", "C": "24Gi"}
NUMA: Final = "resource.kubernetes.io/numaNode"
BANDWIDTH: Final = 100
NIC_DRIVER: Final = "nic.example.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedBatch:
    """A cluster with the batch that is to be placed on it."""

    nodes: tuple[Node, ...]
    cluster: PreparedCluster
    batch: Batch


def draw_batch(seed: int, *, claims: int) -> MixedBatch:
    """Return the batch of a seed; the cluster is the same for any number of claims."""
    chance = random.Random(seed)
    nodes = tuple(node(f"node-{number:02d}") for number in range(NODES))
    slices = tuple(part for home in nodes for part in _draw_node(home.name, chance))
    wanted = [_draw_claim(f"claim-{number:02d}", chance) for number in range(claims)]
    classes = (
        klass("gpu", 'device.driver == "gpu.example.test"'),
        klass("nic", f'device.driver == "{NIC_DRIVER}"'),
    )
    problem = AllocationProblem(node=nodes[0], claims=(), slices=slices, classes={item.name: item for item in classes})
    members = tuple(Member(name=item.metadata.name, claims=(item,)) for item in wanted)
    return MixedBatch(nodes=nodes, cluster=PreparedCluster.from_problem(problem), batch=Batch(members=members))


def _draw_node(name: str, chance: random.Random) -> list[ResourceSlice]:
    """The GPUs of a node, two to four at each NUMA node, and its NICs."""
    model, each = chance.choice(list(MODELS)), chance.choice([2, 3, 4])
    gpus = [
        device(f"gpu-{numa}-{number}", attributes={"model": model, NUMA: numa}, capacity={"memory": MODELS[model]})
        for numa in range(2)
        for number in range(each)
    ]
    bandwidth = capacity(BANDWIDTH, default=5, minimum=5, step=5, maximum=BANDWIDTH)
    nics = [
        device(
            f"nic-{numa}",
            attributes={NUMA: numa},
            capacity={"bandwidth": bandwidth},
            allow_multiple_allocations=True,
        )
        for numa in range(2)
    ]
    return [
        slice_(*gpus, name=f"{name}-gpu", node=name),
        slice_(*nics, name=f"{name}-nic", node=name, driver=NIC_DRIVER),
    ]


def _draw_claim(name: str, chance: random.Random) -> ResourceClaim:
    """One to three models in an order of preference, one to four GPUs, and mostly bandwidth beside them."""
    models = chance.sample(list(MODELS), chance.choice([1, 2, 3]))
    count = chance.choices([1, 2, 3, 4], weights=[40, 35, 10, 15])[0]
    choices = [
        sub(f"model-{model.lower()}", f'device.attributes["gpu.example.test"].model == "{model}"', count=count)
        for model in models
    ]
    requests = [alternatives("gpus", *choices)]
    if chance.random() < 0.7:
        amount = chance.choice([10, 20, 25, 40, 50])
        requests.append(request("nic", klass="nic", capacity={"bandwidth": amount}))
    constraints = [match(NUMA)] if chance.random() < 0.7 else []
    return claim(name, *requests, constraints=constraints)
