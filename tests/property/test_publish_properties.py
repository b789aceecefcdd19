"""For any inventory: what is published is what was found, in order, within the limits, and stays so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.api.resource_v1_slices import encode_slice
from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.plan import SliceOwner, SlicePlan, plan_slices
from claimsmith.testing import builders as b
from claimsmith.validate.slices import check_slice_spec
from tests.unit.publish.stored import StoredSlices

OWNER = SliceOwner(driver=b.DRIVER, node=b.NODE, node_uid="uid-node-a")


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Draw a pool of up to 300 devices, with runs of plain, tainted, listed and counting ones."""
    sets = tuple(b.counter_set(f"set-{index}", {"u": 8}) for index in range(draw(st.integers(0, 20))))
    kinds = ["plain", "tainted", "listed", *(["counting"] if sets else [])]
    runs = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 140)), max_size=4))
    labels = [kind for kind, length in runs for _ in range(length)]
    names = draw(st.permutations(range(len(labels)))) if len(labels) < 12 else range(len(labels))
    skipped = draw(st.sets(st.integers(0, max(len(labels) - 1, 0)), max_size=5))
    devices = [_device(f"dev-{name}", kind) for name, kind in zip(names, labels, strict=True) if name not in skipped]
    return Inventory.of(*devices, counter_sets=sets)


def _device(name: str, kind: str) -> Device:
    return b.device(
        name,
        attributes={"many": ("a", "b")} if kind == "listed" else {"one": 1},
        taints=[b.taint()] if kind == "tainted" else (),
        counters=[b.consumes("set-0", {"u": 1})] if kind == "counting" else (),
    )


def _is_advanced(device: Device) -> bool:
    return bool(device.taints or device.consumes_counters or "many" in device.attributes)


def _check(items: tuple[ResourceSlice, ...], inventory: Inventory) -> None:
    pool = inventory.pools[0]
    assert tuple(device for item in items for device in item.devices) == pool.devices
    assert tuple(found for item in items for found in item.shared_counters) == pool.counter_sets
    assert len({item.generation for item in items}) == 1
    for item in items:
        assert item.slice_count == len(items)
        assert not (item.devices and item.shared_counters)
        assert len(item.shared_counters) <= 8
        assert len(item.devices) <= (64 if any(map(_is_advanced, item.devices)) else 128)
        assert list(check_slice_spec(encode_slice(item).spec, None, "spec")) == []


@given(inventory=inventories())
def test_the_published_devices_are_those_of_the_inventory_in_order(inventory: Inventory) -> None:
    store = StoredSlices()

    store.apply(plan_slices(OWNER, inventory, ()))

    _check(store.items, inventory)


@given(first=inventories(), second=inventories())
def test_any_inventory_follows_any_other(first: Inventory, second: Inventory) -> None:
    store = StoredSlices()
    store.apply(plan_slices(OWNER, first, ()))
    store.apply(plan_slices(OWNER, second, store.items))

    _check(store.items, second)
    assert plan_slices(OWNER, second, store.items) == SlicePlan()
    assert max(map(len, store.complete_generations)) <= 1


@given(inventory=inventories(), victims=st.sets(st.integers(0, 10)))
def test_deleted_slices_come_back(inventory: Inventory, victims: set[int]) -> None:
    store = StoredSlices()
    store.apply(plan_slices(OWNER, inventory, ()))
    for index, item in enumerate(store.items):
        if index in victims:
            store.delete(item.name)

    store.apply(plan_slices(OWNER, inventory, store.items))

    _check(store.items, inventory)


@given(inventory=inventories())
def test_no_cut_of_the_devices_has_fewer_slices(inventory: Inventory) -> None:
    devices = inventory.pools[0].devices
    fewest = [0] + [len(devices)] * len(devices)
    for end in range(1, len(devices) + 1):
        advanced = False
        for start in range(end - 1, max(end - 129, -1), -1):
            advanced = advanced or _is_advanced(devices[start])
            if end - start > (64 if advanced else 128):
                break
            fewest[end] = min(fewest[end], fewest[start] + 1)

    made = plan_slices(OWNER, inventory, ()).creates

    assert sum(bool(item.devices) for item in made) == fewest[-1]
