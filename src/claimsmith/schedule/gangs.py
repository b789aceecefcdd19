"""Pods that are placed together: which of them wait, which have their place, and when a decision is due. Pure.

A group is placed jointly when its policy is `gang`, or when all its pods must go to nodes of one label value. Pods of
other groups are placed one by one, but not before their group is there.

Source: plugin gangscheduling and scheduleOnePodGroup in kubernetes v1.37.2 pkg/scheduler (KEP-4671, KEP-5732).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from claimsmith.model.names import PodRef
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.pods import is_schedulable

__all__ = ["Gang", "GangDirectory", "find_group_ref", "find_mismatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The pods of one group as they stand.

    Args:
        ref: Namespace and name of the group.
        group: The group; None while it is not there yet.
        waiting: Pods that wait for a node, in order of creation.
        placed: Pods that have their node, or for which one is decided, and that have not ended.
    """

    ref: PodGroupRef
    group: PodGroup | None = None
    waiting: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()

    @property
    def is_joint(self) -> bool:
        """Whether its pods are decided together; a group that is not there yet counts as one that is."""
        return self.group is None or self.group.spec.is_gang or bool(self.group.spec.topology_keys)

    @property
    def min_count(self) -> int:
        """Least number of pods that must have a place; 1 for groups that are no gang."""
        return (self.group.spec.min_count if self.group is not None else None) or 1

    @property
    def needed(self) -> int:
        """Least number of waiting pods that a decision must place; at least 1."""
        return max(1, self.min_count - len(self.placed))

    @property
    def is_complete(self) -> bool:
        """Whether a decision is due: the group is there, and as many pods as it needs."""
        return self.group is not None and len(self.waiting) >= self.needed

    @property
    def topology_key(self) -> str:
        """Label of which all nodes of the pods must have one value; empty for none."""
        keys = self.group.spec.topology_keys if self.group is not None else ()
        return keys[0] if keys else ""

    def describe_gap(self) -> str:
        """Return what the group waits for before a decision is due; empty when it is complete."""
        if self.group is None:
            return f"pod group {self.ref} does not exist; create it"
        if self.is_complete:
            return ""
        present = len(self.waiting) + len(self.placed)
        return f"pod group {self.ref} has {present} of at least {self.min_count} pods; create the others"


class GangDirectory:
    """The groups of a cluster with their pods.

    Args:
        names: Values of `spec.schedulerName` whose pods wait for this scheduler.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._groups: dict[PodGroupRef, PodGroup] = {}
        self._pods: dict[PodGroupRef, dict[PodRef, Pod]] = {}

    def see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Take in a change of a group."""
        if old is not None:
            self._groups.pop(old.ref, None)
        if new is not None:
            self._groups[new.ref] = new

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod."""
        ref = find_group_ref(old) if old is not None else None
        if old is not None and ref is not None:
            members = self._pods.get(ref, {})
            members.pop(old.ref, None)
            if not members:
                self._pods.pop(ref, None)
        ref = find_group_ref(new) if new is not None else None
        if new is not None and ref is not None and not new.finished:
            self._pods.setdefault(ref, {})[new.ref] = new

    def find(self, ref: PodGroupRef) -> Gang:
        """Return a group with its pods as they stand; without any pod when it has none."""
        members = sorted(self._pods.get(ref, {}).values(), key=_age)
        return Gang(
            ref=ref,
            group=self._groups.get(ref),
            waiting=tuple(pod for pod in members if is_schedulable(pod, self._names)),
            placed=tuple(pod for pod in members if pod.node_name),
        )

    def __iter__(self) -> Iterator[PodGroupRef]:
        return iter(tuple(self._pods))


def find_group_ref(pod: Pod) -> PodGroupRef | None:
    """Return which group a pod belongs to; None for none."""
    return PodGroupRef(pod.metadata.namespace, pod.pod_group) if pod.pod_group else None


def find_mismatch(gang: Gang) -> str:
    """Return why the pods can't be one group: scheduler and priority must be the same; empty when they are.

    Source: validatePodGroup in kubernetes v1.37.2 pkg/scheduler/schedule_one_podgroup.go.
    """
    members = (*gang.waiting, *gang.placed)
    if gang.group is None or not members:
        return ""
    priority = gang.group.spec.priority
    wanted = members[0].priority if priority is None else priority
    for pod in members:
        if pod.scheduler_name != members[0].scheduler_name:
            return (
                f"pod {pod.ref} of pod group {gang.ref}: found scheduler {pod.scheduler_name!r}, "
                f"allowed that of the other pods, {members[0].scheduler_name!r}; name one scheduler in all of them"
            )
        if pod.priority != wanted:
            return (
                f"pod {pod.ref} of pod group {gang.ref}: found priority {pod.priority}, "
                f"allowed that of the group, {wanted}; give all pods the group's priority class"
            )
    return ""


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "", pod.metadata.name)
