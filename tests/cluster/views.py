"""Who has which device, as the kubelet, the claims and the agent's ledger tell it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from claimsmith.api.kinds import POD, RESOURCE_CLAIM
from claimsmith.kube.client import KubeClient
from claimsmith.node.grants import GIVEN_AGAIN
from claimsmith.node.podresources import PodResources
from tests.cluster.cluster import RealCluster

__all__ = ["Views", "find_double", "find_given_twice", "look", "parse_given_again"]

_POD: Final = "pod "

Holders = Mapping[str, frozenset[str]]
"""Names of holders by device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Holders of each device at about one moment.

    Args:
        kubelet: `claim NAME` or `pod NAME`, by the pod resources service.
        claims: `claim NAME`, by the allocations that the API server shows.
        ledger: `claim NAME` or `grant NUMBER`, by the agent's checkpoint.
        cdi: Names of the driver's files that containerd reads.
        given_again: Devices of which the agent has told, since the youngest of their pods came, that the kubelet had it
            give them again.
    """

    kubelet: Holders = field(default_factory=dict)
    claims: Holders = field(default_factory=dict)
    ledger: Holders = field(default_factory=dict)
    cdi: tuple[str, ...] = ()
    given_again: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nobody has anything."""
        return not (self.kubelet or self.claims or self.ledger or self.cdi)


def find_double(views: Views) -> list[str]:
    """Return what has two holders in one view, one sentence for each.

    Two pods that have one card by their limits alone are the kubelet's doing if it had the agent give it twice: the
    kubelet chooses whose card it is, and on a busy machine it may forget what it gave to a pod that it is about to
    start, and give it to the next one. Those are `find_given_twice`.

    Source: UpdateAllocatedDevices in pkg/kubelet/cm/devicemanager/manager.go of kubernetes v1.37.2, which lists pods
    before it takes its lock, and is called whenever somebody asks the pod resources service.
    """
    twice = _given_twice(views)
    named = {"kubelet": views.kubelet, "claims": views.claims, "ledger": views.ledger}
    return [
        f"{who}: {_sentence(device, holders)}"
        for who, holdings in named.items()
        for device, holders in holdings.items()
        if len(holders) > 1 and not (who == "kubelet" and device in twice)
    ]


def find_given_twice(views: Views) -> list[str]:
    """Return which devices the kubelet has given to two pods, one sentence for each."""
    return [_sentence(device, views.kubelet[device]) for device in sorted(_given_twice(views))]


def _given_twice(views: Views) -> set[str]:
    return {device for device in views.given_again if _is_shared_by_pods(views.kubelet.get(device, frozenset()))}


def _is_shared_by_pods(holders: frozenset[str]) -> bool:
    return len(holders) > 1 and all(holder.startswith(_POD) for holder in holders)


def _sentence(device: str, holders: frozenset[str]) -> str:
    return f"{device} is held by {' and '.join(sorted(holders))}"


async def look(cluster: RealCluster, client: KubeClient, *, driver: str, resource: str) -> Views:
    """Return who has the devices of a driver.

    Args:
        resource: Name of the extended resource under which its device plugin offers them.
    """
    kubelet = _group(await _ask_kubelet(cluster, driver, resource))
    shared = {device: holders for device, holders in kubelet.items() if _is_shared_by_pods(holders)}
    return Views(
        kubelet=kubelet,
        claims=_group(await _list_allocated(client, driver)),
        ledger=_group(_read_ledger(cluster, driver)),
        cdi=tuple(path.name for path in cluster.list_cdi_files() if driver in path.name),
        given_again=await _find_given_again(cluster, client, shared) if shared else frozenset(),
    )


async def _find_given_again(cluster: RealCluster, client: KubeClient, shared: Holders) -> frozenset[str]:
    """Return the devices, of those that several pods have, that the agent gave again since the youngest pod came."""
    came = {
        f"{_POD}{item['metadata']['name']}": datetime.fromisoformat(item["metadata"]["creationTimestamp"])
        for item in (await client.list(POD)).items
    }
    given = list(parse_given_again((cluster.folder / "agent.log").read_text()))
    return frozenset(
        device
        for device, holders in shared.items()
        if any(device == id_ and all(at >= came.get(pod, at) for pod in holders) for id_, at in given)
    )


def parse_given_again(log: str) -> Iterable[tuple[str, datetime]]:
    """Yield which devices agents say that they gave again, and when."""
    for line in log.splitlines():
        if GIVEN_AGAIN in line:
            found = json.loads(line)
            yield from ((id_, datetime.fromisoformat(found["time"])) for id_ in found["fields"]["ids"].split(","))


async def _ask_kubelet(cluster: RealCluster, driver: str, resource: str) -> list[tuple[str, str]]:
    answer = await PodResources(cluster.paths, timeout_s=60).list()
    containers = [(pod, container) for pod in answer.pod_resources for container in pod.containers]
    granted = [
        (device, f"pod {pod.name}")
        for pod, container in containers
        for item in container.devices
        if item.resource_name == resource
        for device in item.device_ids
    ]
    claimed = [
        (found.device_name, f"claim {item.claim_name}")
        for _, container in containers
        for item in container.dynamic_resources
        for found in item.claim_resources
        if found.driver_name == driver
    ]
    return granted + claimed


async def _list_allocated(client: KubeClient, driver: str) -> list[tuple[str, str]]:
    listed = await client.list(RESOURCE_CLAIM)
    return [
        (result["device"], f"claim {claim['metadata']['name']}")
        for claim in listed.items
        for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        if result["driver"] == driver
    ]


def _read_ledger(cluster: RealCluster, driver: str) -> list[tuple[str, str]]:
    content = json.loads((cluster.paths.folder_of(driver) / "checkpoint.json").read_text())
    claimed = [(item["device"], f"claim {claim['name']}") for claim in content["claims"] for item in claim["devices"]]
    granted = [
        (name, f"grant {number}") for number, grant in enumerate(content.get("grants", ())) for name in grant["ids"]
    ]
    return claimed + granted


def _group(pairs: Iterable[tuple[str, str]]) -> Holders:
    found: dict[str, set[str]] = defaultdict(set)
    for device, holder in pairs:
        found[device].add(holder)
    return {device: frozenset(holders) for device, holders in found.items()}
