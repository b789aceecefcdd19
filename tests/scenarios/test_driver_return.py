"""A driver's return makes the kubelet look at the pods that wait for it: agent's and controller's parts together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from claimsmith.api.kinds import EVENT, POD, Kind
from claimsmith.daemons.agent_return import report_return
from claimsmith.daemons.controller_returns import ReturnWatcher
from claimsmith.errors import UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject
from claimsmith.model.claim import DeviceResult
from claimsmith.model.names import DeviceId
from claimsmith.schedule.returns import RETURN_ANNOTATION
from claimsmith.testing.builders import result
from tests.scenarios.embedded_node import NODE, EmbeddedNode, embedded_node, task, uid_of
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


async def waiting_pod(node: EmbeddedNode, name: str, device: DeviceResult | str = "gpu-0") -> None:
    """Create a pod that is bound and has its claim, and that no kubelet starts."""
    pod = await node.create_pod(name, name)
    await node.create_claim(name, device, pods={name: uid_of(pod)})
    await node.bind(name)


async def touched(node: EmbeddedNode, name: str) -> str:
    """Wait until a pod is touched; return the annotation."""

    def value() -> str:
        return str((node.pod(name).get("metadata", {}).get("annotations") or {}).get(RETURN_ANNOTATION, ""))

    await node.wait_for(lambda: bool(value()))
    return value()


async def test_pods_that_wait_for_a_driver_are_touched_when_it_returns(node: EmbeddedNode) -> None:
    await waiting_pod(node, "train")
    async with task(ReturnWatcher(node.client).run()):
        await report_return(node.client, DRIVER, node=NODE, unanswered=("default/train",))

        assert await touched(node, "train")
    (event,) = [obj for obj in (await node.client.list(EVENT)).items if obj["reason"] == "DriverReturned"]
    assert event["message"].endswith("never answered: default/train")


async def test_a_return_that_was_told_before_the_controller_started_counts_while_it_is_fresh(
    node: EmbeddedNode,
) -> None:
    await waiting_pod(node, "train")
    await report_return(node.client, DRIVER, node=NODE)
    async with task(ReturnWatcher(node.client).run()):
        assert await touched(node, "train")


async def test_an_old_return_touches_nothing(node: EmbeddedNode) -> None:
    other = "other.example.test"
    await waiting_pod(node, "train")
    await waiting_pod(node, "later", result(DeviceId(other, NODE, "nic-0")))
    async with task(ReturnWatcher(node.client).run()):
        await report_return(node.client, DRIVER, node=NODE, now_s=lambda: 1_000_000_000.0)
        await report_return(node.client, other, node=NODE)
        await touched(node, "later")

    pod = await node.client.get(POD, "train", namespace="default")
    assert RETURN_ANNOTATION not in (pod["metadata"].get("annotations") or {})


class AwayAtFirst:
    """A server that can't be reached for some calls."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.made: list[Any] = []

    async def create(self, kind: Kind, obj: Any, *, namespace: str = "") -> KubeObject:
        if self.failures:
            self.failures -= 1
            raise UnreachableError("connection refused")
        self.made.append(obj)
        return {}


@pytest.mark.parametrize(("failures", "made"), [(3, 1), (1000, 0)])
async def test_a_return_is_told_to_a_server_that_is_away_for_a_while(failures: int, made: int) -> None:
    async def pause(seconds: float) -> None:
        return

    server = AwayAtFirst(failures)
    await report_return(server, DRIVER, node=NODE, backoff=Backoff(pause=pause))

    assert len(server.made) == made
