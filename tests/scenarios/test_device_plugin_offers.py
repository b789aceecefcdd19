"""What the kubelet of an embedded node is offered as extended resources, and what it may take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from claimsmith.embedded.kubelet.devices.endpoint import ListedDevice
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import ContainerEdits, Hook, PreparedDevice, PreparedDevices, PrepareRequest
from claimsmith.node.deviceplugin_rules import PreferencePolicy, ResourceRule
from claimsmith.node.podresources import ForeignRule
from claimsmith.testing import builders as b
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.scenarios.granting_node import (
    RESOURCE,
    GpuDriver,
    Granting,
    quick,
    reaches,
    registered,
    start,
    wanting,
)
from tests.scenarios.small_plugin import SmallPlugin

ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


def listed(node: EmbeddedNode, resource: str = RESOURCE) -> dict[str, ListedDevice]:
    """Return the devices as the kubelet knows them."""
    shelf = node.kubelet.devices.stock.find(resource)
    return {} if shelf is None else dict(shelf.listed)


async def test_the_kubelet_is_told_the_numa_node_of_each_device(node: EmbeddedNode) -> None:
    inventory = Inventory.of(b.device("gpu-0", attributes={NUMA: 1}), b.device("gpu-1"))
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)

        assert {name: device.numa for name, device in listed(node).items()} == {"gpu-0": (1,), "gpu-1": ()}


async def test_a_tainted_or_allocated_device_is_unhealthy_until_it_is_not(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1", "gpu-2", "gpu-3"), node.paths, quick())
    taints = {b.device_id("gpu-1"): [b.taint()], b.device_id("gpu-2"): [b.taint(effect="None")]}
    async with node.running(), granting.serving(taints=taints, allocated=[b.device_id("gpu-3")]) as plugins:
        await registered(node, plugins)
        found = {name: device.healthy for name, device in listed(node).items()}
        plugins.update(driver.discover())
        await reaches(node, lambda: all(device.healthy for device in listed(node).values()))

    assert found == {"gpu-0": True, "gpu-1": False, "gpu-2": True, "gpu-3": False}


async def test_devices_that_come_and_go_are_told(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        plugins.update(Inventory.of(b.device("gpu-7")))

        await reaches(node, lambda: set(listed(node)) == {"gpu-7"})


async def test_one_resource_for_each_rule(node: EmbeddedNode) -> None:
    inventory = Inventory.of(b.gpu("gpu-0", model="A100"), b.gpu("gpu-1", model="T4"))
    rules = [ResourceRule(resource=f"x.test/{model.lower()}", attributes={"model": model}) for model in ("A100", "T4")]
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick(rules))
    async with node.running(), granting.serving() as plugins:
        for rule in rules:
            await registered(node, plugins, rule.resource)
        pod = await start(node, "p", wanting(1, resource="x.test/t4"))

    assert "env GPUS=gpu-1" in node.output(pod, "c0")


async def test_two_containers_share_a_card_by_its_replicas(node: EmbeddedNode) -> None:
    rule = ResourceRule(resource=RESOURCE, replicas=2)
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick([rule]))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1, 1))

        assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0::0",), ("gpu-0::1",)]
        assert ["env GPUS=gpu-0" in node.output(pod, name) for name in ("c0", "c1")] == [True, True]
    assert len(driver.calls) == 2


async def test_more_than_one_replica_is_refused_unless_the_rule_allows_it(node: EmbeddedNode) -> None:
    rule = ResourceRule(resource=RESOURCE, replicas=2)
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick([rule]))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(2), phase="Failed")

        assert "found a container that asks for 2, allowed 1" in pod["status"]["message"]
        assert granting.ledger.grants() == ()


async def test_two_replicas_of_one_card_where_the_rule_allows_it(node: EmbeddedNode) -> None:
    rule = ResourceRule(resource=RESOURCE, replicas=2, several_replicas=True)
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick([rule]))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "p", wanting(2))

        assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0::0", "gpu-0::1")]


async def test_a_container_gets_devices_that_are_close_to_each_other(node: EmbeddedNode) -> None:
    roots = {"gpu-0": "a", "gpu-1": "b", "gpu-2": "a", "gpu-3": "b", "gpu-4": "b"}
    inventory = Inventory.of(*(b.device(name, attributes={ROOT: root}) for name, root in roots.items()))
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "three", wanting(3))
        await start(node, "two", wanting(2))

        assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-1", "gpu-3", "gpu-4"), ("gpu-0", "gpu-2")]


BRIDGED = {
    "gpu-0": {"links": ("gpu-2",), NUMA: 0},
    "gpu-1": {"links": ("gpu-3",), NUMA: 0},
    "gpu-2": {"links": ("gpu-0",), NUMA: 1},
    "gpu-3": {"links": ("gpu-1",), NUMA: 1},
}
"""Two pairs, each with a bridge that goes from one NUMA node to the other."""
SWITCHED = {f"gpu-{n}": {"links": "switch", ROOT: f"pci0000:{n // 2}0", NUMA: n // 4} for n in range(8)}
"""Eight cards on one switch; two at a PCIe root, four at a NUMA node."""


@pytest.mark.parametrize(
    ("box", "preference", "amounts", "given"),
    [
        (BRIDGED, "topology", [1, 2, 1], ["0", "13", "2"]),
        (BRIDGED, "topology", [2, 2], ["02", "13"]),
        (BRIDGED, "spread", [2], ["03"]),
        (BRIDGED, "packed", [1, 1], ["0", "2"]),
        (SWITCHED, "topology", [1, 2, 4], ["0", "23", "4567"]),
        (SWITCHED, "topology", [2, 3, 2], ["01", "456", "23"]),
        (SWITCHED, "spread", [2, 2], ["04", "26"]),
    ],
    ids=["pairs", "both-pairs", "pairs-spread", "pairs-packed", "switch", "switch-odd", "switch-spread"],
)
async def test_links_and_roots_decide_which_cards_containers_get(
    node: EmbeddedNode,
    box: Mapping[str, Mapping[str, Any]],
    preference: PreferencePolicy,
    amounts: Sequence[int],
    given: Sequence[str],
) -> None:
    inventory = Inventory.of(*(b.device(name, attributes=found) for name, found in box.items()))
    rule = ResourceRule(resource=RESOURCE, link_attribute="links", preference=preference)
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick([rule]))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        for number, amount in enumerate(amounts):
            await start(node, f"pod-{number}", wanting(amount))

        ids = [grant.ids for grant in granting.ledger.grants()]
        assert ids == [tuple(f"gpu-{card}" for card in cards) for cards in given]


async def test_a_partition_is_not_offered_while_its_card_is_given_away(node: EmbeddedNode) -> None:
    inventory = Inventory.of(
        b.device("whole", attributes={"kind": "card"}, counters=[b.consumes("card", {"slices": 2})]),
        b.device("half", attributes={"kind": "part"}, counters=[b.consumes("card", {"slices": 1})]),
        counter_sets=(b.counter_set("card", {"slices": 2}),),
    )
    rules = [ResourceRule(resource=f"x.test/{kind}", attributes={"kind": kind}) for kind in ("card", "part")]
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick(rules))
    async with node.running(), granting.serving() as plugins:
        for rule in rules:
            await registered(node, plugins, rule.resource)
        await start(node, "p", wanting(1, resource="x.test/card"))
        await reaches(node, lambda: not listed(node, "x.test/part")["half"].healthy)

        assert listed(node, "x.test/card")["whole"].healthy
        assert {device.device for device in plugins.in_use()} == {"whole", "half"}


class HookDriver(GpuDriver):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        edits = ContainerEdits(hooks=(Hook(name="createRuntime", path="/bin/true"),))
        return PreparedDevices(devices=tuple(PreparedDevice(device=device, edits=edits) for device in request.devices))


async def test_hooks_need_cdi_and_the_pod_is_told(node: EmbeddedNode) -> None:
    granting = Granting(HookDriver("gpu-0"), node.paths, quick(passing="edits"))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1), phase="Failed")

        assert "found hooks for gpu-0" in pod["status"]["message"]
        assert "let devices be passed by CDI" in pod["status"]["message"]
        assert granting.ledger.grants() == ()


async def test_an_older_kubelet_gets_cdi_names_as_an_annotation(node: EmbeddedNode) -> None:
    rule = ResourceRule(resource=RESOURCE, annotations={"x.test/team": "blue"})
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick([rule], passing="cdi-annotations"))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1))
        grants = node.kubelet.devices.table.find(pod["metadata"]["uid"], "c0")
        (uid,) = (grant.uid for grant in granting.ledger.grants())

    assert dict(grants[RESOURCE].response.annotations) == {
        "x.test/team": "blue",
        f"cdi.k8s.io/claimsmith_{uid}": f"k8s.gpu.example.test/claim={uid}:device:gpu-0",
    }


async def test_a_driver_that_fails_costs_the_pod_but_holds_nothing(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick())

    def fail(operation: str) -> None:
        if operation == "prepare":
            raise OSError("no power")

    driver.fail = fail
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1), phase="Failed")

        assert "prepare failed: OSError: no power" in pod["status"]["message"]
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert granting.ledger.grants() == ()


async def test_a_driver_that_leaves_for_good_leaves_no_amount_behind(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await plugins.withdraw()

            await reaches(node, lambda: node.kubelet.devices.stock.count(0).capacity == {RESOURCE: 0})


async def test_what_a_foreign_plugin_gave_away_is_not_for_claims(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0", "gpu-1"), node.paths, quick(()), foreign=ForeignRule())
    async with node.running(), SmallPlugin(node.paths.device_plugins, {"gpu-1": "Healthy"}) as foreign:
        await foreign.register()
        await reaches(node, lambda: bool(listed(node, "vendor.example/gpu")))
        async with granting.serving() as plugins:
            await start(node, "theirs", wanting(1, resource="vendor.example/gpu"))
            await reaches(node, lambda: bool(plugins.in_use()))
            (use,) = plugins.in_use().values()

    assert (use.device.device, use.resource, str(use.pod), use.foreign) == (
        "gpu-1",
        "vendor.example/gpu",
        "default/theirs",
        True,
    )


async def test_a_card_of_a_plugin_before_ours_is_not_given_away_while_its_pod_runs(node: EmbeddedNode) -> None:
    """Both offer one resource, each with ids of its own."""
    inventory = Inventory.of(b.gpu("gpu-0"), b.gpu("gpu-1"))
    granting = Granting(GpuDriver(inventory=inventory), node.paths, quick(), foreign=ForeignRule())
    async with node.running():
        async with SmallPlugin(node.paths.device_plugins, {"GPU-gpu-0": "Healthy"}) as before:
            await before.register(resource=RESOURCE)
            await reaches(node, lambda: bool(listed(node)))
            await start(node, "old", wanting(1))
        async with granting.serving() as plugins:
            await reaches(node, lambda: set(listed(node)) == {"gpu-0", "gpu-1"})
            await reaches(node, lambda: not listed(node)["gpu-0"].healthy)
            pod = await start(node, "new", wanting(1))

            assert "env GPUS=gpu-1" in node.output(pod, "c0")
            assert {device.device: use.foreign for device, use in plugins.in_use().items()} == {
                "gpu-0": True,
                "gpu-1": False,
            }
