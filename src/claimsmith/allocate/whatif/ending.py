"""Which pods that run now end with a change of the cluster, and which only lose a device under their feet.

Source: what evicts: node lifecycle's taint manager and pkg/controller/devicetainteviction of kubernetes v1.37.2. A
device that is published no longer evicts nobody; its pod runs on with what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from claimsmith.allocate.prepared.problem import merge_taints
from claimsmith.allocate.whatif.draining import is_remade, stays_on_node
from claimsmith.allocate.whatif.trial import find_pod_claims, renew_pod, take_pods
from claimsmith.model.claim import DeviceResult
from claimsmith.model.device import DeviceTaint
from claimsmith.model.names import DeviceId
from claimsmith.model.node import NodeTaint
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["PodEnd", "find_ends", "take_ended"]

Evicting = Mapping[DeviceId, Sequence[DeviceTaint]]
"""Each published device, with the taints that drive its users out."""

_EVICTS = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """A pod that runs before a change and not after it, or with devices that are there no longer.

    Args:
        pod: As it was.
        causes: Why, in words.
        ends: False when it runs on, on devices that nobody publishes any more.
    """

    pod: Pod
    causes: tuple[str, ...]
    ends: bool = True


def find_ends(before: ClusterSnapshot, after: ClusterSnapshot) -> tuple[PodEnd, ...]:
    """Return the pods on nodes that a change ends, or takes devices from, in the order of the snapshot.

    Only taints that the change brings end pods; one that is tolerated for some time counts as one that ends. A pod that
    the change itself removes is not among them.
    """
    was, now = _find_evicting(before), _find_evicting(after)
    new = {device: [taint for taint in taints if taint not in was.get(device, ())] for device, taints in now.items()}
    running = [pod for pod in before.pods.values() if pod.node_name and not pod.finished]
    ends = (_find_end(pod, before, after, evicting=new) for pod in running)
    return tuple(end for end in ends if end is not None)


def take_ended(snapshot: ClusterSnapshot, ends: Iterable[PodEnd]) -> ClusterSnapshot:
    """Return the cluster once pods that end have ended; what is made anew of them waits."""
    ended = [end.pod for end in ends if end.ends]
    left = take_pods(snapshot, [pod.ref for pod in ended])
    remade = {pod.ref: renew_pod(pod) for pod in ended if is_remade(pod) and not stays_on_node(pod)}
    return replace(left, pods={**left.pods, **remade})


def _find_evicting(snapshot: ClusterSnapshot) -> Evicting:
    merged = (merge_taints(item, snapshot.taint_rules) for item in snapshot.slices)
    return {
        DeviceId(item.driver, item.pool, device.name): [taint for taint in device.taints if taint.effect == _EVICTS]
        for item in merged
        for device in item.devices
    }


def _find_end(pod: Pod, before: ClusterSnapshot, after: ClusterSnapshot, *, evicting: Evicting) -> PodEnd | None:
    """Return why a pod ends or goes without its devices; None when nothing of the change touches it."""
    if pod.node_name not in after.nodes:
        return PodEnd(pod=pod, causes=(f"node {pod.node_name} is gone",)) if pod.node_name in before.nodes else None
    if pod.ref not in after.pods:
        return None
    results = _find_results(pod, before)
    causes = [f"node {pod.node_name} gets taint {taint}" for taint in _find_node_taints(pod, before, after)]
    causes += [
        f"{result.device_id} gets taint {taint}"
        for result in results
        for taint in evicting.get(result.device_id, ())
        if not _stays(result, taint)
    ]
    if causes:
        return PodEnd(pod=pod, causes=tuple(causes))
    lost = [str(result.device_id) for result in results if result.device_id not in evicting]
    return PodEnd(pod=pod, causes=(f"holds {', '.join(lost)}, which is gone",), ends=False) if lost else None


def _find_results(pod: Pod, snapshot: ClusterSnapshot) -> list[DeviceResult]:
    claims = (snapshot.claims.get(ref) for ref in find_pod_claims(pod))
    return [result for claim in claims if claim and claim.allocation for result in claim.allocation.results]


def _find_node_taints(pod: Pod, before: ClusterSnapshot, after: ClusterSnapshot) -> list[NodeTaint]:
    """Return the taints that the pod's node gets and that it does not tolerate for ever."""
    known = before.nodes[pod.node_name].taints if pod.node_name in before.nodes else ()
    accepted = [item for item in pod.tolerations if item.toleration_seconds is None]
    return [
        taint
        for taint in after.nodes[pod.node_name].taints
        if taint.effect == _EVICTS and taint not in known and not any(item.tolerates(taint) for item in accepted)
    ]


def _stays(result: DeviceResult, taint: DeviceTaint) -> bool:
    """Tell whether users of a device stay: an allocation's toleration keeps them only if it names the effect."""
    return any(
        item.effect == _EVICTS and item.toleration_seconds is None and item.tolerates(taint)
        for item in result.tolerations
    )
