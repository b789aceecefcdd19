"""People are told once of a failed device, machines can count all failures."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import Kind
from claimsmith.kube.events import EventRecorder
from claimsmith.model.inventory import DeviceHealth
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import HealthPolicy
from claimsmith.publish.health_report import HealthReporter
from claimsmith.telemetry import DEVICE_FAILURES, DEVICES_UNHEALTHY, Meter


class KeptEvents:
    """Keeps events instead of storing them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        self.events.append(obj)
        return obj

    async def patch(self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        return patch


class Node:
    """The health of a node's devices, with what was told of it."""

    def __init__(self) -> None:
        self.client, self.meter = KeptEvents(), Meter()
        self.recorder = EventRecorder(self.client, "claimsmith-agent")
        self.health = HealthTaints("gpu.example.test", "node-a", HealthPolicy(hold_s=10))
        self.reporter = HealthReporter("gpu.example.test", "node-a", meter=self.meter, recorder=self.recorder)

    async def say(self, healthy: bool, now_s: float, cause: str = "xid-79") -> list[tuple[str, str]]:
        cause = "" if healthy else cause
        self.health.note(DeviceHealth(device="gpu-0", healthy=healthy, cause=cause), now_s)
        return await self.look(now_s)

    async def look(self, now_s: float) -> list[tuple[str, str]]:
        failures = self.health.failures(now_s)
        self.reporter.tell(self.health.take_changes(), failures)
        await self.recorder.flush()
        return [(event["type"], event["reason"]) for event in self.client.events]


async def test_a_failure_is_a_warning_about_the_node() -> None:
    node = Node()
    told = await node.say(False, 0)

    (event,) = node.client.events
    assert told == [("Warning", "DeviceUnhealthy")]
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "node-a"}
    assert event["message"] == ("Device gpu.example.test/node-a/gpu-0 has failed: xid-79; its taint is NoSchedule")


async def test_a_failure_that_is_reported_again_is_counted_but_not_told_again() -> None:
    node = Node()
    await node.say(False, 0)
    told = await node.say(False, 1)

    labels = (("cause", "xid-79"), ("driver", "gpu.example.test"))
    assert len(told) == 1
    assert node.meter.values()[DEVICE_FAILURES, labels] == 2


async def test_a_harmless_cause_is_recorded() -> None:
    node = Node()

    assert await node.say(False, 0, "xid-31") == [("Warning", "DeviceFailureRecorded")]


async def test_the_return_is_told_and_the_gauge_goes_down() -> None:
    node = Node()
    await node.say(False, 0)
    during = dict(node.meter.values())
    await node.say(True, 1)
    told = await node.look(11)

    labels = (("driver", "gpu.example.test"), ("effect", "NoSchedule"))
    assert told[-1] == ("Normal", "DeviceHealthy")
    assert (during[DEVICES_UNHEALTHY, labels], node.meter.values()[DEVICES_UNHEALTHY, labels]) == (1, 0)
