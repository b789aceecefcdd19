"""A hundred pods that come and go in random order, by claims and by limits of the same cards, on a real node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM_TEMPLATE
from claimsmith.kube.client import KubeClient
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import ConfiguredAgent, configured
from tests.cluster.manifests import device_class, exactly, pod, template
from tests.cluster.test_device_plugin import wait_offered
from tests.cluster.views import Views, find_double, find_given_twice, look
from tests.cluster.watching import is_ready, wait_for_object

DRIVER, RESOURCE, CARDS = "sim.claimsmith.dev", "nvidia.com/gpu", 8
OFFERED = f"    devicePlugin: {{resources: [{{resource: {RESOURCE}}}]}}"
PODS = 100
STEP_S = 600.0
ENDED_S = 300.0
"""Within which all pods are gone: a kubelet that was restarted looks at what an earlier one left once a minute, and a
claim that waits for such a device keeps its pod for up to 45 s."""
RELEASED_S = 180.0
"""Within which all devices are free after the last pod is gone."""
LOOK_S = 0.2
Answer = TypeVar("Answer")


class Node:
    """The node under test, for rules that run in a thread of their own."""

    def __init__(self, cluster: RealCluster, client: KubeClient, agent: ConfiguredAgent) -> None:
        self._cluster, self._client, self._agent = cluster, client, agent
        self._loop = asyncio.get_running_loop()
        self.made, self.alive = 0, list[str]()
        self.given_twice = set[str]()
        """What the kubelet had the agent give to two pods, which it alone can answer for."""

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine in the loop of the test; return what it does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STEP_S)

    async def create(self, kinds: Sequence[str]) -> None:
        """Create pods, each of which wants one card: by a claim, or by a limit."""
        for kind in kinds:
            name = f"{kind}-{self.made}"
            wanted = pod(name, claims={"gpu": "gpu"}) if kind == "claim" else pod(name, limits={RESOURCE: "1"})
            await self._client.create(POD, wanted)
            self.made += 1
            self.alive.append(name)

    async def delete(self, names: Sequence[str], *, grace_s: int) -> None:
        """Delete pods without waiting for their end."""
        for name in names:
            self.alive.remove(name)
            await self._client.delete(POD, name, namespace="default", grace_period_s=grace_s)

    async def start_one(self, kind: str) -> None:
        """Create a pod and wait until it is ready."""
        await self.create([kind])
        await wait_for_object(self._client, POD, self.alive[-1], is_ready)

    async def kill_agent(self) -> None:
        """Kill the agent, and start it again."""
        await self._agent.process.kill()
        await self._agent.process.start()
        await self._agent.process.wait_registered(DRIVER)

    async def restart_kubelet(self) -> None:
        """End the kubelet and start it again; return when it has taken the driver."""
        known = sum(line["message"] == "The kubelet has registered the plugin" for line in self._agent.process.lines)
        await self._cluster.restart_kubelet()
        await self._agent.process.wait_logged("The kubelet has registered the plugin", count=known + 1)

    async def look(self) -> Views:
        """Return who has which device."""
        views = await look(self._cluster, self._client, driver=DRIVER, resource=RESOURCE)
        self.given_twice.update(find_given_twice(views))
        return views

    async def end_all(self) -> Views:
        """Delete all pods, and return who has which device when nobody has any, or when the time is over."""
        self.alive.clear()
        await delete_pods(self._client, timeout_s=ENDED_S)
        for _ in range(int(RELEASED_S / LOOK_S)):
            if (views := await self.look()).is_empty:
                break
            await asyncio.sleep(LOOK_S)
        return views


class Storm(RuleBasedStateMachine):
    """What users, operators and the kernel do, in any order."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node
        self._restarts = 0

    @rule(kinds=st.lists(st.sampled_from(["claim", "limit"]), min_size=1, max_size=6))
    def create(self, kinds: list[str]) -> None:
        self._node.do(self._node.create(kinds))

    @precondition(lambda self: self._node.alive)
    @rule(data=st.data(), grace_s=st.sampled_from([1, 1, 1, 0]))
    def delete(self, data: st.DataObject, grace_s: int) -> None:
        names = data.draw(st.lists(st.sampled_from(self._node.alive), min_size=1, max_size=6, unique=True))
        self._node.do(self._node.delete(names, grace_s=grace_s))

    @precondition(lambda self: self._restarts < 2)
    @rule()
    def kill_agent(self) -> None:
        self._restarts += 1
        self._node.do(self._node.kill_agent())

    @precondition(lambda self: self._restarts < 2)
    @rule()
    def restart_kubelet(self) -> None:
        self._restarts += 1
        self._node.do(self._node.restart_kubelet())

    @invariant()
    def no_device_has_two_holders(self) -> None:
        views = self._node.do(self._node.look())
        assert not find_double(views), views

    def teardown(self) -> None:
        views = self._node.do(self._node.end_all())
        assert views.is_empty, views


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_hundred_pods_leave_nothing_and_share_nothing(
    real_cluster: RealCluster, client: KubeClient, record_property: Any
) -> None:
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))
    cards = f"gpus: [{{model: A100-40, count: {CARDS}}}]"
    async with configured(real_cluster, client, cards, OFFERED) as agent:
        await wait_offered(real_cluster, client, CARDS)
        node = Node(real_cluster, client, agent)
        options = settings(
            max_examples=6,
            stateful_step_count=12,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        machine: Any = partial(Storm, node)
        await asyncio.to_thread(run_state_machine_as_test, machine, settings=options)
        while node.made < PODS:
            await node.create(["claim", "limit"] * 3)
            await node.delete(node.alive[::2], grace_s=1)
            assert not find_double(await node.look())
        assert (await node.end_all()).is_empty

        await node.start_one("claim")
        await node.start_one("limit")
        views = await node.look()
        assert not find_double(views)
        assert len(views.kubelet) == len(views.ledger) == 2
        assert len(views.claims) == 1
        record_property("given_twice_by_the_kubelet", len(node.given_twice))
