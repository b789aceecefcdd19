"""Writes to pod groups: whether they have got their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from claimsmith.api.kinds import POD_GROUP
from claimsmith.kube.client import PatchesObjects
from claimsmith.model.podgroup import PodGroup

__all__ = ["INITIALLY_SCHEDULED", "GroupWriter", "find_condition"]

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""Type of the condition; once True it stays so. Source: scheduling.k8s.io/v1beta1."""


class GroupWriter:
    """Writes pod groups.

    Args:
        client: Access to pod groups.
        now: The time of day, for the time stamps of conditions.
    """

    def __init__(self, client: PatchesObjects, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client, self._now = client, now

    async def mark(self, group: PodGroup, reason: str, message: str) -> None:
        """Set the condition PodGroupInitiallyScheduled; what says the same already costs no write.

        Args:
            group: The group as last seen.
            reason: `Scheduled` when enough of its pods have a place; `Unschedulable` when no places were found,
                `SchedulerError` when none could be looked for. A group that was scheduled once stays so.
            message: Why, for people.

        Raises:
            ApiError: The server refused or could not be reached.

        Source: updatePodGroupCondition in kubernetes v1.37.2 pkg/scheduler/schedule_one_podgroup.go.
        """
        status = "True" if reason == "Scheduled" else "False"
        old = find_condition(group)
        if old.get("status") == "True" or (old.get("reason"), old.get("message")) == (reason, message):
            return
        changed = old.get("status") != status
        moment = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": INITIALLY_SCHEDULED,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": moment if changed else old.get("lastTransitionTime", moment),
            "observedGeneration": group.metadata.generation,
        }
        await self._client.patch(
            POD_GROUP,
            group.metadata.name,
            {"metadata": {"uid": group.uid}, "status": {"conditions": [condition]}},
            namespace=group.metadata.namespace,
            patch_type="strategic",
            subresource="status",
        )


def find_condition(group: PodGroup) -> Mapping[str, object]:
    """Return the condition PodGroupInitiallyScheduled; empty when the group has none."""
    return next((item for item in group.conditions if item.get("type") == INITIALLY_SCHEDULED), {})
