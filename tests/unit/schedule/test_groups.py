"""The condition of a pod group."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from claimsmith.api.kinds import POD_GROUP, Kind
from claimsmith.kube.client import KubeObject, PatchType
from claimsmith.model.podgroup import PodGroup
from claimsmith.schedule.groups import INITIALLY_SCHEDULED, GroupWriter
from claimsmith.testing.builders import pod_group

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Client:
    """Remembers what is patched."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: dict[str, Any],
        *,
        namespace: str = "",
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> KubeObject:
        assert (kind, name, namespace, patch_type, subresource) == (POD_GROUP, "gang", "default", "strategic", "status")
        self.patches.append(patch)
        return {}


async def mark(group: PodGroup, reason: str, message: str = "why") -> list[dict[str, Any]]:
    client = Client()
    await GroupWriter(client, now=lambda: NOW).mark(group, reason, message)
    return [condition for patch in client.patches for condition in patch["status"]["conditions"]]


def having(status: str, reason: str, message: str = "why") -> PodGroup:
    condition = {"type": INITIALLY_SCHEDULED, "status": status, "reason": reason, "message": message}
    return pod_group(conditions=[{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}])


async def test_a_group_that_does_not_fit_is_told_so() -> None:
    (found,) = await mark(pod_group(), "Unschedulable")

    assert found == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "why",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 0,
    }


async def test_a_group_that_was_placed_stays_so() -> None:
    assert await mark(having("True", "Scheduled"), "Unschedulable") == []


async def test_the_same_again_costs_no_write() -> None:
    assert await mark(having("False", "Unschedulable"), "Unschedulable") == []


async def test_another_message_keeps_the_time_of_the_status() -> None:
    (found,) = await mark(having("False", "Unschedulable"), "SchedulerError", "other")

    assert (found["reason"], found["lastTransitionTime"]) == ("SchedulerError", "2026-01-01T00:00:00Z")


async def test_another_status_has_the_time_of_now() -> None:
    (found,) = await mark(having("False", "Unschedulable"), "Scheduled", "placed")

    assert (found["status"], found["lastTransitionTime"]) == ("True", "2026-01-02T03:04:05Z")
