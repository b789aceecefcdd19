"""What an agent makes of failed devices: taints in slices or rules, events and numbers, also over its own restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_TAINT_RULE, EVENT, NODE, Kind
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.inventory import Inventory
from claimsmith.publish.health_policy import CauseRule, HealthPolicy, TaintPlace
from claimsmith.publish.releases import RELEASE_ANNOTATION, ask_release, read_releases
from claimsmith.telemetry import DEVICES_UNHEALTHY
from claimsmith.testing import builders as b
from tests.scenarios.published_node import api_server, list_slices, wait_for
from tests.scenarios.test_agent import Bench, tainted

POLICY = HealthPolicy(hold_s=0.1)


class Cards(Bench):
    """A card with two partitions, and another card."""

    def __init__(self) -> None:
        super().__init__("gpu-0", "gpu-1", "gpu-1-a", "gpu-1-b")

    def discover(self) -> Inventory:
        whole = b.device("gpu-1", attributes={"uuid": "GPU-1"})
        parts = [b.device(f"gpu-1-{end}", attributes={"parentUUID": "GPU-1"}) for end in "ab"]
        return Inventory.of(b.device("gpu-0"), whole, *parts)


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with api_server(b.NODE) as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    return NodePaths.compact(tmp_path)


@contextlib.asynccontextmanager
async def agent(
    driver: Bench, client: KubeClient, paths: NodePaths, policy: HealthPolicy = POLICY
) -> AsyncIterator[Agent]:
    """Run an agent; its devices are published when the block begins."""
    options = AgentOptions(loop=LoopOptions(health=policy), boot_id="boot-1")
    async with Agent([driver], node_name=b.NODE, client=client, paths=paths, options=options) as running:
        await running.wait_published()
        yield running


async def wait_objects(
    client: KubeClient, kind: Kind, holds: Callable[[Sequence[KubeObject]], bool]
) -> list[KubeObject]:
    async with asyncio.timeout(60):
        while not holds(found := (await client.list(kind)).items):
            continue
        return found


def rules_for(*names: str) -> Callable[[Sequence[KubeObject]], bool]:
    return lambda rules: sorted(rule["spec"]["deviceSelector"]["device"] for rule in rules) == sorted(names)


def place(taints: TaintPlace) -> HealthPolicy:
    return replace(POLICY, taints=taints)


async def test_a_failed_card_takes_its_partitions_along(client: KubeClient, paths: NodePaths) -> None:
    driver = Cards()
    async with agent(driver, client, paths):
        driver.say("gpu-1", healthy=False)
        await wait_for(client, tainted("gpu-1", "gpu-1-a", "gpu-1-b"))
        driver.say("gpu-1", healthy=True)

        await wait_for(client, tainted())


async def test_a_failed_partition_leaves_the_other_one_alone(client: KubeClient, paths: NodePaths) -> None:
    driver = Cards()
    async with agent(driver, client, paths):
        driver.say("gpu-1-a", healthy=False)

        await wait_for(client, tainted("gpu-1", "gpu-1-a"))


async def test_a_cause_without_effect_is_told_and_taints_nothing(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    policy = replace(POLICY, rules=(CauseRule(causes=("xid-79",), effect="none"),))
    async with agent(driver, client, paths, policy):
        driver.say("gpu-0", healthy=False)
        (event,) = await wait_objects(client, EVENT, bool)

        assert event["reason"] == "DeviceFailureRecorded"
        assert tainted()(await list_slices(client))


async def test_events_and_numbers_tell_of_a_failed_device(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    async with agent(driver, client, paths) as running:
        driver.say("gpu-0", healthy=False)
        await wait_for(client, tainted("gpu-0"))
        (event,) = await wait_objects(client, EVENT, bool)

        labels = (("driver", b.DRIVER), ("effect", "NoSchedule"))
        assert (event["reason"], event["involvedObject"]["name"]) == ("DeviceUnhealthy", b.NODE)
        assert running.meter.values()[DEVICES_UNHEALTHY, labels] == 1


async def test_a_restart_of_the_agent_makes_no_broken_device_usable(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0", "gpu-1")
    async with agent(driver, client, paths):
        driver.say("gpu-0", healthy=False)
        await wait_for(client, tainted("gpu-0"))
    again = Bench("gpu-0", "gpu-1", "gpu-2")
    async with agent(again, client, paths):
        slices = await wait_for(client, lambda items: [len(item.devices) for item in items] == [3])
        still = tainted("gpu-0")(slices)
        again.say("gpu-0", healthy=True)
        await wait_for(client, tainted())

        assert still


# --- rules ------------------------------------------------------------------------------------------------------------


async def test_taints_go_to_rules_when_the_policy_wants_them_there(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0", "gpu-1")
    async with agent(driver, client, paths, place("rules")):
        driver.say("gpu-0", healthy=False)
        (rule,) = await wait_objects(client, DEVICE_TAINT_RULE, rules_for("gpu-0"))
        driver.become("gpu-0", "gpu-1", "gpu-2")
        unchanged = tainted()(await wait_for(client, lambda items: [len(item.devices) for item in items] == [3]))
        driver.say("gpu-0", healthy=True)
        await wait_objects(client, DEVICE_TAINT_RULE, rules_for())

        assert unchanged
        assert rule["spec"]["taint"]["effect"] == "NoSchedule"


async def test_rules_stay_over_a_restart_and_go_with_the_failure(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    async with agent(driver, client, paths, place("rules")):
        driver.say("gpu-0", healthy=False)
        (before,) = await wait_objects(client, DEVICE_TAINT_RULE, rules_for("gpu-0"))
    again = Bench("gpu-0")
    async with agent(again, client, paths, place("rules")):
        (after,) = await wait_objects(client, DEVICE_TAINT_RULE, rules_for("gpu-0"))
        again.say("gpu-0", healthy=True)
        await wait_objects(client, DEVICE_TAINT_RULE, rules_for())

        assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_rule_that_somebody_deletes_comes_back(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    async with agent(driver, client, paths, place("rules")):
        driver.say("gpu-0", healthy=False)
        (rule,) = await wait_objects(client, DEVICE_TAINT_RULE, rules_for("gpu-0"))
        await client.delete(DEVICE_TAINT_RULE, rule["metadata"]["name"])

        def is_new(rules: Sequence[Any]) -> bool:
            return [found["metadata"]["uid"] for found in rules] not in ([], [rule["metadata"]["uid"]])

        await wait_objects(client, DEVICE_TAINT_RULE, is_new)


async def test_rules_go_when_taints_are_in_slices_from_now_on(client: KubeClient, paths: NodePaths) -> None:
    by_hand = {"metadata": {"name": "mine"}, "spec": {"taint": {"key": "a", "effect": "NoSchedule"}}}
    await client.create(DEVICE_TAINT_RULE, by_hand)
    driver = Bench("gpu-0")
    async with agent(driver, client, paths, place("rules")):
        driver.say("gpu-0", healthy=False)
        await wait_objects(client, DEVICE_TAINT_RULE, lambda rules: len(rules) == 2)
    async with agent(Bench("gpu-0"), client, paths):
        left = await wait_objects(client, DEVICE_TAINT_RULE, lambda rules: len(rules) == 1)

        assert [rule["metadata"]["name"] for rule in left] == ["mine"]


# --- by hand ----------------------------------------------------------------------------------------------------------


async def test_a_device_that_must_not_return_waits_until_it_is_released(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    policy = replace(POLICY, rules=(CauseRule(causes=("xid-79",), returns=False),))
    async with agent(driver, client, paths, policy):
        driver.say("gpu-0", healthy=False)
        await wait_for(client, tainted("gpu-0"))
        driver.say("gpu-0", healthy=True)
        await ask_release(client, b.NODE, add=[b.device_id("gpu-0")])
        await wait_for(client, tainted())
        (node,) = await wait_objects(client, NODE, lambda nodes: not read_releases(nodes[0]))

        assert "annotations" not in node["metadata"] or RELEASE_ANNOTATION not in node["metadata"]["annotations"]


async def test_a_device_that_still_fails_is_not_released(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    policy = replace(POLICY, rules=(CauseRule(causes=("xid-79",), returns=False),))
    async with agent(driver, client, paths, policy):
        driver.say("gpu-0", healthy=False)
        await wait_for(client, tainted("gpu-0"))
        await ask_release(client, b.NODE, add=[b.device_id("gpu-0")])
        await wait_objects(client, NODE, lambda nodes: not read_releases(nodes[0]))

        assert tainted("gpu-0")(await list_slices(client))


async def test_health_of_a_device_that_is_not_listed_is_told_once(
    client: KubeClient, paths: NodePaths, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Cards()
    async with agent(driver, client, paths):
        driver.say("gpu-7", healthy=False)
        driver.say("gpu-7", healthy=True)
        driver.say("gpu-1", healthy=False)
        await wait_for(client, tainted("gpu-1", "gpu-1-a", "gpu-1-b"))

    told = [record.message for record in caplog.records if "not listed" in record.message]
    assert [message.endswith("gpu-7") for message in told] == [True]
