"""`claimsmith devices`: what there is, and who holds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from claimsmith.cli.exits import tell
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster

if TYPE_CHECKING:
    from claimsmith.model.names import DeviceId
    from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["devices"]


@reads_cluster
def devices(source: ClusterSource, output: Output = Format.TABLE) -> None:
    """List the devices that a cluster, a snapshot or files publish, with their holders and taints.

    Example: claimsmith devices -f cluster.yaml
    """
    values = list(_list_devices(source.open().snapshot))
    if output is not Format.TABLE:
        print_value({"devices": values}, output)
        return
    if not values:
        tell("no devices are published")
        return
    rows = [
        (
            value["device"],
            value["node"] or "-",
            ", ".join(f"{name}={amount}" for name, amount in value["capacity"].items()) or "-",
            ", ".join(value["heldBy"]) or "-",
            ", ".join(value["taints"]) or "-",
        )
        for value in values
    ]
    print_table(("DEVICE", "NODE", "CAPACITY", "HELD BY", "TAINTS"), rows)


def _list_devices(snapshot: ClusterSnapshot) -> Iterator[dict[str, Any]]:
    """Yield every published device as JSON, in the order of slices and devices."""
    from claimsmith.allocate.prepared.problem import merge_taint_rules
    from claimsmith.model.names import DeviceId

    holders = _find_holders(snapshot)
    for item in merge_taint_rules(snapshot.slices, snapshot.taint_rules):
        for device in item.devices:
            id = DeviceId(item.driver, item.pool, device.name)
            yield {
                "device": str(id),
                "node": device.node_name or item.node_name or "",
                "attributes": {
                    name: list(a.value) if isinstance(a.value, tuple) else a.value
                    for name, a in device.attributes.items()
                },
                "capacity": {name: str(capacity.value) for name, capacity in device.capacity.items()},
                "heldBy": holders[id],
                "taints": [str(taint) for taint in device.taints],
            }


def _find_holders(snapshot: ClusterSnapshot) -> defaultdict[DeviceId, list[str]]:
    holders: defaultdict[DeviceId, list[str]] = defaultdict(list)
    for claim in snapshot.allocated_claims():
        for result in claim.allocation.results if claim.allocation else ():
            amounts = ", ".join(f"{name} {amount}" for name, amount in (result.consumed_capacity or {}).items())
            holders[result.device_id].append(f"{claim.ref}" + (f" ({amounts})" if amounts else ""))
    return holders
