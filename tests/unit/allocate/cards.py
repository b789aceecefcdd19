"""Cards of four slots that are cut on demand: into four of size 1, two of size 2, one of size 4, or mixtures."""

from __future__ import annotations

from collections.abc import Iterable

from claimsmith.allocate.policy.objective import FRAGMENTATION
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.device import Device
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import (
    DRIVER,
    allocated,
    claim,
    consumes,
    counter_set,
    device,
    device_id,
    node,
    request,
    slice_,
    snapshot,
)

__all__ = ["SLOTS", "card", "cards", "check", "holds", "part", "placer", "wants"]

SLOTS = 4


def part(start: int, size: int) -> Device:
    """A partition that begins at a slot."""
    taken = {f"slot-{slot}": 1 for slot in range(start, start + size)}
    return device(f"s{size}-{start}", attributes={"size": size}, counters=(consumes("card", taken),))


def card(name: str) -> tuple[ResourceSlice, ...]:
    """The slices of a node with one card; small partitions come first."""
    counters = counter_set("card", {f"slot-{slot}": 1 for slot in range(SLOTS)})
    parts = (*(part(start, 1) for start in range(SLOTS)), part(0, 2), part(2, 2), part(0, 4))
    return (
        slice_(name=f"{name}-0", node=name, slice_count=2, shared_counters=(counters,)),
        slice_(*parts, name=f"{name}-1", node=name, slice_count=2),
    )


def wants(size: int, name: str = "wanted", *, count: int = 1) -> ResourceClaim:
    """A claim for partitions of a size."""
    return claim(name, request("r", f'device.attributes["{DRIVER}"].size == {size}', count=count))


def holds(name: str, *devices: str, on: str = "node-a") -> ResourceClaim:
    """A claim that holds partitions of one size on a node."""
    size = int(devices[0][1])
    return allocated(wants(size, name, count=len(devices)), *(device_id(item, pool=on) for item in devices), node=on)


def cards(*names: str, holders: Iterable[ResourceClaim] = ()) -> ClusterSnapshot:
    """A cluster of nodes with one card each."""
    return snapshot(*(node(name) for name in names), *(item for name in names for item in card(name)), *holders)


def placer(cluster: ClusterSnapshot) -> Placer:
    """What places pods on the cluster so that little is lost."""
    return Placer(PreparedCluster.from_snapshot(cluster), FRAGMENTATION)


def check(cluster: ClusterSnapshot, on: str, wanted: ResourceClaim, result: AllocationResult) -> None:
    """Let the independent checker look at an allocation beside those of the snapshot.

    Raises:
        AssertionError: It breaks a rule.
    """
    case = VerifyCase(
        node=cluster.nodes[on],
        claims=(wanted,),
        slices=cluster.slices,
        classes=cluster.classes,
        allocated=cluster.allocated_claims(),
    )
    violations = verify_allocation(case, (result,))
    if violations:
        raise AssertionError(str(violations[0]))
