"""Which devices to prefer, on the boxes that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from claimsmith.model.inventory import Inventory
from claimsmith.node.deviceplugin_rules import PreferencePolicy, ResourceRule, plan_offers
from claimsmith.node.preferred import Place, closeness, find_places, plan_preferred
from claimsmith.testing import builders as b

RULE = ResourceRule(resource="x.test/gpu", link_attribute="links")
ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"


Attributes = Mapping[str, str | int | tuple[str, ...]]


def places(**attributes: Attributes) -> Mapping[str, Place]:
    """Return where cards sit that have some attributes; `g0` is the card `gpu-0`."""
    devices = [b.device(name.replace("g", "gpu-"), attributes=found) for name, found in attributes.items()]
    offered = plan_offers(b.DRIVER, Inventory.of(*devices), node=b.NODE, rules=[RULE])[RULE.resource]
    return find_places(b.DRIVER, RULE, offered)


BRIDGED = places(
    g0={"links": ("gpu-1",), NUMA: 0},
    g1={"links": ("gpu-0",), NUMA: 0},
    g2={"links": ("gpu-3",), NUMA: 1},
    g3={"links": ("gpu-2",), NUMA: 1},
)
"""Two pairs with a bridge each, each at a NUMA node of its own."""
ON_SWITCH: dict[str, Attributes] = {
    f"g{n}": {"links": "switch", ROOT: f"pci0000:{n // 2}0", NUMA: n // 4} for n in range(8)
}
SWITCHED = places(**ON_SWITCH)
"""Eight cards on one switch; two at a PCIe root, four at a NUMA node."""


def choose(
    found: Mapping[str, Place],
    size: int,
    available: Sequence[int],
    *,
    must: Sequence[int] = (),
    policy: PreferencePolicy = "topology",
) -> list[int]:
    chosen = plan_preferred(
        [f"gpu-{n}" for n in available],
        must_include=[f"gpu-{n}" for n in must],
        size=size,
        places=found,
        policy=policy,
    )
    return sorted(int(id_.removeprefix("gpu-")) for id_ in chosen)


def test_two_cards_are_those_of_a_bridge() -> None:
    assert choose(BRIDGED, 2, [0, 2, 3]) == [2, 3]


def test_one_card_leaves_the_bridged_pair_to_others() -> None:
    assert choose(BRIDGED, 1, [2, 3, 0]) == [0]


def test_a_card_that_a_container_gets_anyway_brings_its_partner() -> None:
    assert choose(BRIDGED, 2, [0, 1, 2, 3], must=[3]) == [2, 3]


def test_spread_cards_are_far_from_each_other() -> None:
    assert choose(BRIDGED, 2, [0, 1, 2, 3], policy="spread") == [0, 2]


@pytest.mark.parametrize(
    ("size", "available", "chosen"),
    [(2, [0, 2, 3, 4], [2, 3]), (4, [0, 1, 2, 4, 5, 6, 7], [4, 5, 6, 7]), (3, [0, 4, 5, 6], [4, 5, 6])],
)
def test_on_a_switch_the_pcie_root_and_then_the_numa_node_decide(
    size: int, available: list[int], chosen: list[int]
) -> None:
    assert choose(SWITCHED, size, available) == chosen


def test_there_are_not_as_many() -> None:
    assert choose(SWITCHED, 3, [0, 1]) == []


def test_each_bridge_counts() -> None:
    found = places(
        g0={"links": ("gpu-1", "gpu-1", "gpu-2")}, g1={"links": ("gpu-0", "gpu-0")}, g2={"links": ("gpu-0",)}
    )

    assert closeness(found["gpu-0"], found["gpu-1"]) == 2 * closeness(found["gpu-0"], found["gpu-2"])


def test_cards_without_attributes_are_taken_in_their_order() -> None:
    assert choose(places(g0={}, g1={}, g2={}), 2, [0, 1, 2]) == [0, 1]
