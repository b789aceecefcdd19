"""What is written so that the API server shows an inventory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.model.device import Device, DeviceTaint
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.content import NOT_LISTED_TAINT, DeviceNotes
from claimsmith.publish.plan import SliceOwner, SlicePlan, plan_slices, preview_slices
from claimsmith.testing import builders as b
from tests.unit.publish.stored import StoredSlices

OWNER = SliceOwner(driver=b.DRIVER, node=b.NODE, node_uid="uid-node-a")


def gpus(count: int, *, tainted: str = "") -> tuple[Device, ...]:
    names = [f"gpu-{index:03d}" for index in range(count)]
    return tuple(b.device(name, taints=[b.taint()] if name == tainted else ()) for name in names)


def parts(cards: int, parts_per_card: int) -> Inventory:
    sets = tuple(b.counter_set(f"card-{card}", {"units": parts_per_card}) for card in range(cards))
    devices = (
        b.device(f"card-{card}-part-{part}", counters=[b.consumes(f"card-{card}", {"units": 1})])
        for card in range(cards)
        for part in range(parts_per_card)
    )
    return Inventory.of(*devices, counter_sets=sets)


def published(
    inventory: Inventory, *, store: StoredSlices | None = None, notes: DeviceNotes | None = None
) -> SlicePlan:
    into = store or StoredSlices()
    plan = plan_slices(OWNER, inventory, into.items, notes=notes)
    into.apply(plan)
    return plan


def device_names(items: tuple[ResourceSlice, ...]) -> list[str]:
    return [device.name for item in items for device in item.devices]


@pytest.mark.parametrize(
    ("inventory", "sizes"),
    [
        (Inventory.of(*gpus(300)), [128, 128, 44]),
        (Inventory.of(*gpus(70, tainted="gpu-069")), [69, 1]),
        (Inventory.of(*gpus(128)), [128]),
        (Inventory.of(*gpus(65, tainted="gpu-000")), [64, 1]),
        (parts(9, 8), [0, 0, 64, 8]),
        (Inventory.of(), [0]),
        (Inventory(), [0]),
    ],
)
def test_a_pool_is_cut_by_the_limits_of_the_api(inventory: Inventory, sizes: list[int]) -> None:
    made = published(inventory).creates

    assert [len(item.devices) for item in made] == sizes
    assert {item.slice_count for item in made} == {len(made)}
    assert {item.generation for item in made} == {1}
    assert {item.pool for item in made} == {b.NODE}


def test_counter_sets_have_slices_of_their_own_of_eight() -> None:
    made = published(parts(9, 8)).creates

    assert [len(item.shared_counters) for item in made] == [8, 1, 0, 0]


def test_names_keep_the_order_and_slices_belong_to_their_node() -> None:
    made = published(Inventory.of(*gpus(130))).creates

    assert [item.metadata.generate_name for item in made] == [
        "00000-gpu.example.test-node-a-",
        "00001-gpu.example.test-node-a-",
    ]
    assert [item.node_name for item in made] == ["node-a", "node-a"]
    owner = made[0].metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "node-a", "uid-node-a", True)


def test_a_second_plan_writes_nothing() -> None:
    store = StoredSlices()
    published(parts(9, 8), store=store)

    assert plan_slices(OWNER, parts(9, 8), store.items) == SlicePlan()


def test_one_changed_slice_keeps_the_generation() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(200)), store=store)

    plan = published(Inventory.of(*gpus(201)), store=store)

    assert [len(item.devices) for item in plan.updates] == [73]
    assert plan.writes == 1
    assert {item.generation for item in store.items} == {1}


def test_one_more_slice_raises_the_generation_of_all() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(128)), store=store)

    plan = published(Inventory.of(*gpus(129)), store=store)

    assert (len(plan.updates), len(plan.creates)) == (1, 1)
    assert {(item.generation, item.slice_count) for item in store.items} == {(2, 2)}


def test_a_device_less_in_the_first_slice_leaves_the_others_alone() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(300)), store=store)

    plan = published(Inventory.of(*gpus(300)[1:]), store=store)

    assert [len(item.devices) for item in plan.updates] == [127]
    assert plan.writes == 1
    assert device_names(store.items) == [device.name for device in gpus(300)[1:]]


def test_fewer_slices_delete_the_obsolete_ones_first() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(300)), store=store)

    plan = published(Inventory.of(*gpus(10)), store=store)

    assert (len(plan.deletes), len(plan.updates), len(plan.creates)) == (2, 1, 0)
    assert [len(item.devices) for item in store.items] == [10]


def test_an_empty_inventory_keeps_one_empty_slice() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(300)), store=store)

    published(Inventory(), store=store)

    assert [(len(item.devices), item.slice_count) for item in store.items] == [(0, 1)]


def test_at_no_moment_two_generations_are_complete() -> None:
    store = StoredSlices()
    for count in (300, 10, 129, 400, 0, 64):
        published(Inventory.of(*gpus(count)), store=store)

    assert max(map(len, store.complete_generations)) == 1
    assert len(store.complete_generations[-1]) == 1


def test_a_deleted_slice_comes_back_with_one_write() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(300)), store=store)
    store.delete(store.items[1].name)

    plan = published(Inventory.of(*gpus(300)), store=store)

    assert (plan.writes, len(plan.creates)) == (1, 1)
    assert device_names(store.items) == [device.name for device in gpus(300)]


def test_an_edited_slice_is_put_back() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(2)), store=store)
    store.edit(replace(store.items[0], devices=(b.device("intruder"),)))

    plan = published(Inventory.of(*gpus(2)), store=store)

    assert plan.writes == 1
    assert device_names(store.items) == ["gpu-000", "gpu-001"]


def test_a_second_slice_of_the_same_content_is_deleted() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(2)), store=store)
    twin = store.items[0]
    store.edit(replace(twin, metadata=replace(twin.metadata, name=twin.name + "z")))

    plan = published(Inventory.of(*gpus(2)), store=store)

    assert [item.name for item in plan.deletes] == [twin.name + "z"]
    assert plan.writes == 1


def test_slices_of_other_drivers_are_left_alone() -> None:
    other = b.slice_(b.device("x"), driver="other.example.test", name="00000-other")

    assert published(Inventory.of(*gpus(1)), store=StoredSlices([other])).deletes == ()


def test_a_slice_of_another_name_is_replaced() -> None:
    old = b.slice_(*gpus(1), name="by-hand")

    plan = published(Inventory.of(*gpus(1)), store=StoredSlices([old]))

    assert [item.name for item in plan.deletes] == ["by-hand"]
    assert [item.generation for item in plan.creates] == [2]


def test_a_slice_of_a_node_that_was_made_again_is_replaced() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(1)), store=store)

    plan = plan_slices(replace(OWNER, node_uid="uid-of-the-new-node"), Inventory.of(*gpus(1)), store.items)

    assert (len(plan.deletes), len(plan.updates), len(plan.creates)) == (1, 0, 1)


def test_a_pool_that_is_gone_takes_its_slices_along() -> None:
    store = StoredSlices()
    published(Inventory(pools=(Pool(name="a", devices=gpus(1)), Pool(name="b", devices=gpus(1)))), store=store)

    published(Inventory(pools=(Pool(name="a", devices=gpus(1)),)), store=store)

    assert [item.pool for item in store.items] == ["a"]


def test_a_device_that_a_claim_holds_is_tainted_instead_of_dropped() -> None:
    store = StoredSlices()
    published(parts(2, 2), store=store)
    held = DeviceNotes(held=frozenset({DeviceId(b.DRIVER, b.NODE, "card-1-part-0")}))

    published(parts(1, 2), store=store, notes=held)

    assert device_names(store.items) == ["card-0-part-0", "card-0-part-1", "card-1-part-0"]
    kept = store.items[-1].devices[-1]
    assert kept.taints == (NOT_LISTED_TAINT,)
    assert [item.name for item in store.items[0].shared_counters] == ["card-0", "card-1"]
    assert plan_slices(OWNER, parts(1, 2), store.items, notes=held) == SlicePlan()


def test_a_held_device_that_is_listed_no_longer_evicts_its_pods_where_that_is_wished_for() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(1)), store=store)
    held = DeviceNotes(held=frozenset({DeviceId(b.DRIVER, b.NODE, "gpu-000")}), not_listed_effect="NoExecute")
    published(Inventory.of(), store=store, notes=held)

    (kept,) = store.items[0].devices
    assert kept.taints == (replace(NOT_LISTED_TAINT, effect="NoExecute"),)


def test_a_held_device_goes_with_its_claim() -> None:
    store = StoredSlices()
    published(Inventory.of(*gpus(2)), store=store)
    held = DeviceNotes(held=frozenset({DeviceId(b.DRIVER, b.NODE, "gpu-001")}))
    published(Inventory.of(*gpus(1)), store=store, notes=held)

    published(Inventory.of(*gpus(1)), store=store)

    assert device_names(store.items) == ["gpu-000"]


def test_a_held_device_keeps_its_pool_alive() -> None:
    store = StoredSlices()
    published(Inventory(pools=(Pool(name="a", devices=gpus(1)), Pool(name="b", devices=gpus(1)))), store=store)
    held = DeviceNotes(held=frozenset({DeviceId(b.DRIVER, "b", "gpu-000")}))

    published(Inventory(pools=(Pool(name="a", devices=gpus(1)),)), store=store, notes=held)

    assert {item.pool: device_names((item,)) for item in store.items} == {"a": ["gpu-000"], "b": ["gpu-000"]}


def test_a_health_taint_is_added_to_the_drivers_own_and_taken_away_again() -> None:
    store = StoredSlices()
    inventory = Inventory.of(b.device("gpu-0", taints=[b.taint("own.example/x")]))
    published(inventory, store=store)
    sick = DeviceTaint(key="claimsmith.dev/unhealthy", value="xid-79", effect="NoSchedule")

    published(inventory, store=store, notes=DeviceNotes(taints={DeviceId(b.DRIVER, b.NODE, "gpu-0"): (sick,)}))
    then = store.items[0].devices[0].taints
    published(inventory, store=store)

    assert [taint.key for taint in then] == ["claimsmith.dev/unhealthy", "own.example/x"]
    assert [taint.key for taint in store.items[0].devices[0].taints] == ["own.example/x"]


def test_the_time_of_a_taint_is_kept_and_causes_no_write() -> None:
    store = StoredSlices()
    inventory = Inventory.of(b.device("gpu-0", taints=[b.taint("example.test/a")]), b.device("gpu-1"))
    published(inventory, store=store)
    item = store.items[0]
    timed = replace(item.devices[0], taints=(replace(item.devices[0].taints[0], time_added="2026-01-01T00:00:00Z"),))
    store.edit(replace(item, devices=(timed, item.devices[1])))

    quiet = plan_slices(OWNER, inventory, store.items)
    changed = plan_slices(OWNER, Inventory.of(inventory.pools[0].devices[0]), store.items)

    assert quiet == SlicePlan()
    assert changed.updates[0].devices[0].taints[0].time_added == "2026-01-01T00:00:00Z"


def test_a_server_that_drops_a_field_gets_no_second_update() -> None:
    store = StoredSlices()
    inventory = Inventory.of(b.device("gpu-0", taints=[b.taint()]))
    published(inventory, store=store)
    sent = store.items[0]
    stored = replace(sent, devices=(b.device("gpu-0"),))
    store.edit(stored)

    plan = plan_slices(OWNER, inventory, store.items, accepted={stored.name: (sent, stored)})

    assert plan == SlicePlan()


@pytest.mark.parametrize(
    ("bad", "subject", "words"),
    [
        (b.device("GPU_0"), "GPU_0", "RFC 1123 label"),
        (b.device("gpu-0"), "gpu-0", "two devices of this name"),
        (b.device("x", taints=[b.taint("no key")]), "x", "name part"),
        (b.device("x", capacity={f"c{index}": 1 for index in range(33)}), "x", "must not exceed 32"),
        (b.device("x", counters=[b.consumes("nowhere", {"u": 1})]), "x", "counter set 'nowhere'"),
    ],
)
def test_a_device_that_the_api_refuses_is_named_and_the_others_are_published(
    bad: Device, subject: str, words: str
) -> None:
    plan = published(Inventory.of(b.device("gpu-0"), bad, b.device("gpu-2")))

    assert device_names(plan.creates) == ["gpu-0", "gpu-2"]
    assert [problem.subject for problem in plan.problems] == [f"{b.DRIVER}/{b.NODE}/{subject}"]
    assert words in plan.problems[0].text


def test_a_device_with_an_unfit_attribute_is_published_in_another_form_and_that_is_told() -> None:
    store = StoredSlices()
    odd = b.device("gpu-0", attributes={"model": "m" * 65, "rail": "red"})

    plan = published(Inventory.of(odd), store=store)

    (made,) = plan.creates[0].devices
    assert made.attributes == b.device(attributes={"model": "m" * 64, "rail": "red"}).attributes
    assert [(item.subject, item.text, item.published) for item in plan.problems] == [
        (f"{b.DRIVER}/{b.NODE}/gpu-0", "attribute model: cut to 64 bytes", True)
    ]
    assert plan_slices(OWNER, Inventory.of(odd), store.items).writes == 0


def test_a_counter_set_that_the_api_refuses_takes_its_devices_along() -> None:
    sets = (b.counter_set("ok", {"u": 1}), b.counter_set("Bad", {"u": 1}))
    devices = (
        b.device("a", counters=[b.consumes("ok", {"u": 1})]),
        b.device("b", counters=[b.consumes("Bad", {"u": 1})]),
    )

    plan = published(Inventory.of(*devices, counter_sets=sets))

    assert device_names(plan.creates) == ["a"]
    assert [problem.subject for problem in plan.problems] == [f"{b.DRIVER}/{b.NODE}", f"{b.DRIVER}/{b.NODE}/b"]


def test_two_pools_of_one_name_are_a_problem_and_the_first_is_published() -> None:
    plan = published(Inventory(pools=(Pool(devices=gpus(1)), Pool(name=b.NODE, devices=gpus(2)))))

    assert device_names(plan.creates) == ["gpu-000"]
    assert "two pools" in plan.problems[0].text


def test_a_pool_for_other_nodes_has_their_selector_and_no_node() -> None:
    pool = Pool(name="fabric", devices=gpus(1), node_selector=b.on_nodes(zone="a"))

    made = published(Inventory(pools=(pool,))).creates[0]

    assert (made.node_name, made.node_selector, made.all_nodes) == (None, b.on_nodes(zone="a"), False)


def test_devices_that_choose_their_nodes_make_the_slice_say_so() -> None:
    made = published(Inventory.of(b.device("a", node_name="n1"), b.device("b", all_nodes=True), b.device("c")))

    assert made.creates[0].per_device_node_selection
    assert made.creates[0].node_name is None
    assert device_names(made.creates) == ["a", "b"]
    assert "exactly one" in made.problems[0].text


def test_a_preview_has_names_in_the_order_of_the_slices() -> None:
    made = preview_slices(b.DRIVER, b.NODE, Inventory.of(*gpus(300)))

    assert [item.name for item in made] == sorted(item.name for item in made)
    assert device_names(made) == [device.name for device in gpus(300)]
