from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, OfferedDevice, ResourceRule, card_of, plan_offers
from claimsmith.testing import builders as b


def offers(*rules: ResourceRule, inventory: Inventory) -> dict[str, list[str]]:
    found = plan_offers(b.DRIVER, inventory, node=b.NODE, rules=rules)
    return {resource: [offered.id for offered in items] for resource, items in found.items()}


MIXED = Inventory.of(
    b.gpu("gpu-0", model="A100", memory="80Gi"), b.gpu("gpu-1", model="T4", memory="16Gi"), b.device("nic-0")
)


def test_a_rule_without_conditions_takes_all_devices() -> None:
    assert offers(ResourceRule(resource="example.com/any"), inventory=MIXED) == {
        "example.com/any": ["gpu-0", "gpu-1", "nic-0"]
    }


def test_a_device_goes_to_the_first_rule_that_takes_it() -> None:
    rules = (
        ResourceRule(
            resource="example.com/big", selector=f'device.capacity["{b.DRIVER}"].memory.isGreaterThan(quantity("40Gi"))'
        ),
        ResourceRule(resource="example.com/gpu", attributes={"type": "gpu"}),
        ResourceRule(resource="example.com/rest"),
    )

    assert offers(*rules, inventory=MIXED) == {
        "example.com/big": ["gpu-0"],
        "example.com/gpu": ["gpu-1"],
        "example.com/rest": ["nic-0"],
    }


def test_a_value_of_another_type_does_not_match() -> None:
    inventory = Inventory.of(b.device("a", attributes={"index": 1}), b.device("b", attributes={"index": True}))

    assert offers(ResourceRule(resource="x.test/a", attributes={"index": 1}), inventory=inventory) == {
        "x.test/a": ["a"]
    }


@pytest.mark.parametrize("name", ["model", f"{b.DRIVER}/model"])
def test_attributes_are_found_with_and_without_the_driver_as_their_domain(name: str) -> None:
    assert offers(ResourceRule(resource="x.test/a", attributes={name: "T4"}), inventory=MIXED) == {
        "x.test/a": ["gpu-1"]
    }


def test_a_resource_without_devices_is_offered_empty() -> None:
    assert offers(ResourceRule(resource="x.test/a", attributes={"no": 1}), inventory=MIXED) == {"x.test/a": []}


def test_the_id_is_the_attribute_that_the_rule_names() -> None:
    rule = ResourceRule(resource="x.test/a", id_attribute="uuid")

    assert offers(rule, inventory=MIXED) == {"x.test/a": ["GPU-gpu-0", "GPU-gpu-1", "nic-0"]}


def test_two_devices_never_have_one_id() -> None:
    twins = Inventory.of(*(b.gpu(name, attributes={"uuid": "same"}) for name in ("gpu-0", "gpu-1")))
    rule = ResourceRule(resource="x.test/a", id_attribute="uuid")

    assert offers(rule, inventory=twins) == {"x.test/a": ["same", f"{b.DRIVER}/{b.NODE}/gpu-1"]}


def test_devices_of_other_pools_have_the_pool_in_their_id() -> None:
    inventory = Inventory(pools=(Pool(devices=(b.device("d"),)), Pool(name="far", devices=(b.device("d"),))))

    assert offers(ResourceRule(resource="x.test/a"), inventory=inventory) == {"x.test/a": ["d", "far/d"]}


def test_devices_that_other_nodes_reach_too_are_not_offered() -> None:
    shared = Pool(name="fabric", devices=(b.device("d"),), all_nodes=True)
    some = Pool(name="rack", devices=(b.device("d"),), node_selector=b.on_nodes(rack="r1"))
    own = Pool(devices=(b.device("far", node_name="node-b"), b.device("near", node_name=b.NODE)))

    assert offers(ResourceRule(resource="x.test/a"), inventory=Inventory(pools=(shared, some, own))) == {
        "x.test/a": ["near"]
    }


def test_replicas_are_told_apart_by_their_number() -> None:
    rule = ResourceRule(resource="x.test/a", replicas=2)
    found = plan_offers(b.DRIVER, Inventory.of(b.device("gpu-0")), node=b.NODE, rules=[rule])

    assert [(item.id, item.replica, item.card) for item in found["x.test/a"]] == [
        ("gpu-0::0", "0", "gpu-0"),
        ("gpu-0::1", "1", "gpu-0"),
    ]


@pytest.mark.parametrize(("value", "nodes"), [(1, (1,)), ((0, 1), (0, 1)), (-1, ()), (None, ())])
def test_the_numa_nodes_are_those_of_the_standard_attribute(
    value: int | tuple[int, ...] | None, nodes: tuple[int, ...]
) -> None:
    attributes = {} if value is None else {"resource.kubernetes.io/numaNode": value}
    inventory = Inventory.of(b.device("gpu-0", attributes=attributes))

    (item,) = plan_offers(b.DRIVER, inventory, node=b.NODE, rules=[ResourceRule(resource="x.test/a")])["x.test/a"]
    assert item.numa_nodes == nodes


def test_a_selector_that_fails_on_a_device_does_not_take_it() -> None:
    rule = ResourceRule(resource="x.test/a", selector=f'device.attributes["{b.DRIVER}"].type == "gpu"')

    assert offers(rule, inventory=MIXED) == {"x.test/a": ["gpu-0", "gpu-1"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource": "gpu"}, "resource: found 'gpu', allowed an extended resource name"),
        ({"resource": "kubernetes.io/gpu"}, "allowed an extended resource name"),
        ({"replicas": 0}, "replicas: found 0, allowed 1 to 1024"),
        ({"preference": "best"}, "preference: found 'best', allowed topology, packed or spread"),
        ({"selector": "device.nothing"}, "selector: found 'device.nothing', allowed an expression that compiles"),
    ],
)
def test_a_rule_that_can_not_be_kept_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        ResourceRule(**{"resource": "x.test/a", **changes})  # type: ignore[arg-type]


def test_one_resource_has_one_rule() -> None:
    rule = ResourceRule(resource="x.test/a")

    with pytest.raises(FieldError, match=r"rules: found 'x\.test/a', allowed each resource once"):
        DevicePluginOptions(rules=(rule, rule))


@pytest.mark.parametrize(("id_", "card"), [("gpu-0::3", "gpu-0"), ("gpu-0", "gpu-0"), ("a::b", "a::b"), ("::1", "::1")])
def test_the_card_of_an_id(id_: str, card: str) -> None:
    assert card_of(id_) == card


def test_an_offered_device_is_its_own_card() -> None:
    item = OfferedDevice(id="odd::1", device=b.device_id("odd"), source=b.device("odd"))

    assert item.card == "odd::1"
