"""Boards that are cut on demand, as real pools: each request is a claim, each partition a device that takes counters.

The slices are those that the agent would publish for the simulated driver's cards: memory slices and engines are
counters, and every size at every place is a device. Only their order is NVIDIA's driver's: by name, each size from the
first slice on.

Source: dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/driver.go, generateSplitResourceSlices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Final

from claimsmith.api.manifests import Manifest
from claimsmith.model.claim import DeviceClass, DeviceRequest, ResourceClaim, ResourceClaimSpec, Selector, SubRequest
from claimsmith.model.metadata import Metadata
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.publish.plan import preview_slices
from claimsmith.replay.mig_arrivals import Arrival
from claimsmith.sdk.driver import DriverContext
from claimsmith.sdk.registry import create_drivers

__all__ = ["CLASS", "DRIVER", "build_board_claim", "build_boards", "read_profiles"]

DRIVER: Final = "mig.replay.claimsmith.dev"
"""Driver of the boards."""
CLASS: Final = "mig"
"""Class of their partitions."""
MODEL: Final = "A100-80"
NAMESPACE: Final = "replay"
_PLUGIN: Final = "simulated"


@lru_cache(maxsize=4)
def build_boards(count: int) -> ClusterSnapshot:
    """Return a cluster of nodes with one board each, without claims.

    Args:
        count: Number of boards; >= 1.
    """
    names = [f"node-{number:03}" for number in range(count)]
    nodes = {name: Node(metadata=Metadata(name=name, labels={"kubernetes.io/hostname": name})) for name in names}
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "mig"'
    klass = DeviceClass(metadata=Metadata(name=CLASS), selectors=(Selector(expression=expression),))
    return ClusterSnapshot(
        nodes=nodes, slices=tuple(item for name in names for item in _publish(name)), classes={CLASS: klass}
    )


def build_board_claim(arrival: Arrival) -> ResourceClaim:
    """Return the claim of a request."""
    name = f"request-{arrival.number}"
    return ResourceClaim(metadata=Metadata(name=name, namespace=NAMESPACE, uid=name), spec=_build_spec(arrival.profile))


def read_profiles(slices: tuple[ResourceSlice, ...]) -> Mapping[str, str]:
    """Return the size of each partition, by the name of the device."""
    return {
        device.name: str(device.attributes["profile"].value)
        for item in slices
        for device in item.devices
        if "profile" in device.attributes
    }


@lru_cache
def _build_spec(profile: str) -> ResourceClaimSpec:
    selector = Selector(expression=f'device.attributes["{DRIVER}"].profile == "{profile}"')
    wanted = SubRequest(device_class=CLASS, selectors=(selector,))
    return ResourceClaimSpec(requests=(DeviceRequest(name="partition", exactly=wanted),))


def _publish(node: str) -> tuple[ResourceSlice, ...]:
    """Return the slices of a node with one board."""
    settings = {
        "apiVersion": "claimsmith.dev/v1alpha1",
        "kind": "SimulatedDevices",
        "metadata": {"name": "boards"},
        "spec": {"driver": DRIVER, "gpus": [{"model": MODEL, "mig": True}]},
    }
    context = DriverContext(node_name=node, documents=(Manifest(object=settings, source="boards"),))
    drivers = create_drivers(_PLUGIN, context)
    found = (item for driver in drivers for item in preview_slices(driver.name, node, driver.discover()))
    return tuple(replace(item, devices=tuple(sorted(item.devices, key=attrgetter("name")))) for item in found)
