"""Pods that are placed together: which of them wait, which have their place, and when a decision is due. Pure.

A group is placed jointly when its policy is `gang`, or when all its pods must go to nodes of one label value. Pods of
other groups are placed one by one, but not before their group is there.

Source: plugin gangscheduling and scheduleOnePodGroup in kubernetes v1.37.2 pkg/scheduler (KEP-4671, KEP-5732).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.workload import Pod

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
    """The pods of a cluster by their groups, in order of creation; a change costs the same whatever the group's size.

    Args:
        groups: All groups, as they stand whenever a gang is asked for.
        waits: Tells whether a pod without a node waits for one here.
    """

    def __init__(self, groups: Mapping[PodGroupRef, PodGroup], *, waits: Callable[[Pod], bool]) -> None:
        self._groups, self._waits = groups, waits
        self._members: dict[PodGroupRef, _Members] = {}
        self._places: dict[str, _Place] = {}
        self._serials = itertools.count()

    @classmethod
    def of_pods(cls, pods: Iterable[Pod], groups: Mapping[PodGroupRef, PodGroup]) -> GangDirectory:
        """Return the directory of some pods; all of them that have no node wait."""
        directory = cls(groups, waits=lambda _: True)
        for pod in pods:
            directory.see_pod(None, pod)
        return directory

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod."""
        if old is not None:
            self._drop(old, is_gone=new is None or new.uid != old.uid)
        ref = find_group_ref(new) if new is not None else None
        if new is None or ref is None or new.finished:
            return
        if new.node_name or self._waits(new):
            members = self._members.setdefault(ref, _Members())
            (members.placed if new.node_name else members.waiting).put(self._place(new), new)

    def find(self, ref: PodGroupRef) -> Gang:
        """Return a group with its pods as they stand; without any pod when it has none."""
        members = self._members.get(ref) or _Members()
        return Gang(
            ref=ref,
            group=self._groups.get(ref),
            waiting=tuple(members.waiting.pods),
            placed=tuple(members.placed.pods),
        )

    def _place(self, pod: Pod) -> _Place:
        """Return where a pod stands, which stays as it is for as long as the pod is there."""
        if pod.uid not in self._places:
            self._places[pod.uid] = (pod.metadata.creation_timestamp or "", next(self._serials))
        return self._places[pod.uid]

    def _drop(self, pod: Pod, *, is_gone: bool) -> None:
        ref, place = find_group_ref(pod), self._places.get(pod.uid)
        if ref is None or place is None:
            return
        if is_gone:
            del self._places[pod.uid]
        if members := self._members.get(ref):
            members.waiting.drop(place)
            members.placed.drop(place)
            if not (members.waiting.pods or members.placed.pods):
                del self._members[ref]


_Place = tuple[str, int]
"""When a pod was created, and the how many-th it was that came."""


@dataclass(slots=True)
class _Row:
    """Pods in order of their places."""

    places: list[_Place] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def put(self, place: _Place, pod: Pod) -> None:
        index = bisect_left(self.places, place)
        self.places.insert(index, place)
        self.pods.insert(index, pod)

    def drop(self, place: _Place) -> None:
        """Take the pod of a place away, if there is one."""
        index = bisect_left(self.places, place)
        if self.places[index : index + 1] == [place]:
            del self.places[index], self.pods[index]


@dataclass(slots=True)
class _Members:
    """Pods of one group that have not ended: those that wait, and those that have a node."""

    waiting: _Row = field(default_factory=_Row)
    placed: _Row = field(default_factory=_Row)


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
