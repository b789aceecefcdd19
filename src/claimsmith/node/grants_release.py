"""When a grant of the device plugin is over: the protocol never says so, and so the kubelet's lists must. Pure.

Source: UpdateAllocatedDevices and writeCheckpoint of pkg/kubelet/cm/devicemanager, kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.names import DeviceId, PodRef
from claimsmith.node.entry import Grant
from claimsmith.node.podresources import ContainerDevices, KubeletView

__all__ = ["ABSENCES", "BURST_S", "GrantWatch", "ReleasePlan"]

ABSENCES: Final = 2
"""How many looks in a row must not find a grant before it is over."""
BURST_S: Final = 60.0
"""Longest time in seconds in which the kubelet asks for all containers of one pod."""
_NUDGE_MIN_S: Final = 1.0
_NUDGE_MAX_S: Final = 60.0
"""Shortest and longest pause in seconds before the kubelet is made to write its checkpoint once more, while only that
names a grant."""


@dataclass(slots=True)
class _Record:
    """What was seen of one grant.

    Args:
        since_s: When it was first looked at, in monotonic seconds.
        is_fresh: Whether it was made while this process ran, and nothing has named it since.
        absences: How many looks in a row have not found it.
        was_listed: Whether the service has named it: then it is no init container's, whose devices others take over.
        nudge_due_s: When to have the checkpoint written again if only that names it, in monotonic seconds.
        nudge_pause_s: Pause in seconds before the next time.
    """

    since_s: float
    is_fresh: bool
    absences: int = 0
    was_listed: bool = False
    nudge_due_s: float = 0.0
    nudge_pause_s: float = _NUDGE_MIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan:
    """What follows from one look at the kubelet's lists.

    Args:
        over: Grants that nobody has any more.
        unknown: What containers have of our resources without a grant: one per resource and set of ids.
        listed: Grants that somebody has.
        nudge: Whether the kubelet should write its checkpoint anew: only that still names a grant, perhaps in vain.
    """

    over: tuple[Grant, ...] = ()
    unknown: tuple[ContainerDevices, ...] = ()
    listed: tuple[Grant, ...] = ()
    nudge: bool = False


@dataclass(slots=True)
class GrantWatch:
    """Remembers what was seen of grants, and tells which are over.

    Args:
        grace_s: Seconds for which a new grant is kept though nothing names it yet.
    """

    grace_s: float
    _records: dict[Grant, _Record] = field(default_factory=dict)
    _pods: frozenset[PodRef] = frozenset()
    _has_looked: bool = False

    def look(
        self,
        view: KubeletView,
        grants: Iterable[Grant],
        *,
        now_s: float,
        resources: Iterable[str],
        devices: Mapping[tuple[str, str], DeviceId],
    ) -> ReleasePlan:
        """Take in a look at the kubelet's lists; return what follows.

        Args:
            view: What the kubelet tells. What it can't tell is in use.
            grants: All grants there are.
            now_s: Monotonic seconds.
            resources: Resources that are offered now.
            devices: Device by resource and id, for grants whose ids are not known any more.
        """
        grants = tuple(grants)
        self._forget_all_but(grants, now_s)
        named = {grant for grant in grants if _is_named(grant, view.containers, devices)}
        for grant in grants:
            record = self._records[grant]
            record.is_fresh &= grant not in named
            record.was_listed |= _is_named(grant, view.listed or (), devices)
            record.absences = 0 if grant in named else record.absences + view.is_whole
        plan = ReleasePlan(
            over=tuple(grant for grant in grants if self._is_over(grant, now_s)),
            unknown=_unknown(view, grants, {*resources, *(grant.resource for grant in grants)}),
            listed=tuple(grant for grant in grants if grant in named),
            nudge=self._must_nudge(view, [grant for grant in grants if grant in named], devices, now_s),
        )
        self._has_looked = True
        self._pods = view.pods
        return plan

    @property
    def is_waiting(self) -> bool:
        """Whether the next look may tell that a grant is over, which then need not wait."""
        return any(0 < record.absences < ABSENCES and not record.is_fresh for record in self._records.values())

    def note_made(self, grant: Grant, now_s: float) -> None:
        """Take in that this process has just made a grant."""
        self._records[grant] = _Record(since_s=now_s, is_fresh=True)

    def must_be_over(self, grant: Grant, now_s: float) -> bool:
        """Tell whether a grant is over, given that the kubelet now gives some of its devices to somebody else.

        Its devices go to another container of the same pod alone when they were an init container's, within one
        burst of calls, before any container of the pod has started.
        """
        record = self._records.get(grant)
        if not grant.entry.finished:
            return True
        return record is not None and (record.was_listed or now_s - record.since_s > BURST_S)

    def _forget_all_but(self, grants: tuple[Grant, ...], now_s: float) -> None:
        self._records = {
            grant: self._records.get(grant) or _Record(since_s=now_s, is_fresh=self._has_looked) for grant in grants
        }

    def _is_over(self, grant: Grant, now_s: float) -> bool:
        record = self._records[grant]
        return record.absences >= ABSENCES and (not record.is_fresh or now_s - record.since_s >= self.grace_s)

    def _must_nudge(
        self,
        view: KubeletView,
        named: Iterable[Grant],
        devices: Mapping[tuple[str, str], DeviceId],
        now_s: float,
    ) -> bool:
        """Tell whether the checkpoint may name a grant in vain: only it does, and pods have gone or time has passed."""
        if not view.is_whole:
            return False
        gone = not self._pods <= view.pods
        due = False
        for grant in named:
            record = self._records[grant]
            if _is_named(grant, view.listed or (), devices) or (record.nudge_due_s > now_s and not gone):
                continue
            due = True
            record.nudge_due_s = now_s + record.nudge_pause_s
            record.nudge_pause_s = _NUDGE_MIN_S if gone else min(_NUDGE_MAX_S, 2 * record.nudge_pause_s)
        return due


def _is_named(
    grant: Grant, containers: Iterable[ContainerDevices], devices: Mapping[tuple[str, str], DeviceId]
) -> bool:
    """Tell whether a container has what a grant gave: the kubelet asks once for all ids of one container."""
    for item in containers:
        if item.resource != grant.resource:
            continue
        if not grant.ids:
            # An id that stands for no device we know may be any.
            if any(devices.get((item.resource, id_)) in (None, *grant.devices) for id_ in item.ids):
                return True
        elif item.ids == frozenset(grant.ids):
            return True
    return False


def _unknown(view: KubeletView, grants: tuple[Grant, ...], resources: set[str]) -> tuple[ContainerDevices, ...]:
    known = {(grant.resource, frozenset(grant.ids)) for grant in grants}
    found = {
        (item.resource, item.ids): item
        for item in view.containers
        if item.resource in resources and (item.resource, item.ids) not in known
    }
    return tuple(found.values())
