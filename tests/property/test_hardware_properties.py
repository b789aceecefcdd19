"""What is in the way of a device, against a twin that adds everything up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.node.hardware import Hardware
from claimsmith.testing import builders as b

SETS = ("card-0", "card-1")
COUNTERS = ("memory", "slices")
DECLARED = 4
POOLS = ("node-a", "other")
NAMES = ("d0", "d1", "d2", "d3", "d4")

uses = st.dictionaries(
    st.sampled_from(SETS),
    st.tuples(
        st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, DECLARED), min_size=1),
        st.sampled_from([(), (), ("x",), ("y",), ("x", "y")]),
    ),
    max_size=2,
)


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    counters = [b.consumes(key, amounts, groups=groups) for key, (amounts, groups) in draw(uses).items()]
    return b.device(name, counters=counters)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Pools whose last device may be unknown, since it is not there any more."""
    counters = tuple(b.counter_set(name, dict.fromkeys(COUNTERS, DECLARED)) for name in SETS)
    found = [
        Pool(
            name=pool,
            devices=tuple(draw(devices(name)) for name in NAMES[: draw(st.sampled_from([4, 5]))]),
            counter_sets=counters if draw(st.sampled_from([True, True, False])) else (),
        )
        for pool in POOLS
    ]
    return Inventory(pools=tuple(found))


ids = st.builds(DeviceId, st.just(b.DRIVER), st.sampled_from(POOLS), st.sampled_from(NAMES))


def is_obstructed(inventory: Inventory, wanted: set[DeviceId], held: set[DeviceId]) -> bool:
    """Tell whether anything is in the way: each rule by itself, over everything."""
    if wanted & held:
        return True
    return any(
        _is_obstructed(
            pool, {i.device for i in wanted if i.pool == pool.name}, {i.device for i in held if i.pool == pool.name}
        )
        for pool in inventory.pools
    )


def _is_obstructed(pool: Pool, wanted: set[str], held: set[str]) -> bool:
    known = {device.name: device for device in pool.devices}
    for one in wanted:
        for other in held:
            if {one, other} <= known.keys():
                continue
            counted = [bool(known[name].consumes_counters) for name in (one, other) if name in known]
            if all(counted) and pool.counter_sets:
                return True
    mine, theirs = [known[n] for n in sorted(wanted & known.keys())], [known[n] for n in sorted(held & known.keys())]
    for device in mine:
        for name in SETS:
            groups = [set(_groups(other, name)) for other in theirs if _takes(other, name)]
            if not _takes(device, name) or not groups:
                continue
            groups.append(set(_groups(device, name)))
            if any(groups) and not set.intersection(*groups):
                return True
    return any(_is_short(pool, mine, theirs, name, counter) for name in SETS for counter in COUNTERS)


def _is_short(pool: Pool, mine: list[Device], theirs: list[Device], name: str, counter: str) -> bool:
    declared = DECLARED if pool.counter_sets else 0
    needed = sum(_amount(device, name, counter) for device in mine if _meets(device, theirs))
    taken = sum(_amount(device, name, counter) for device in theirs)
    wanted = sum(_amount(device, name, counter) for device in mine)
    return bool(needed and taken) and wanted + taken > declared


def _meets(device: Device, others: list[Device]) -> bool:
    sets = {item.counter_set for item in device.consumes_counters}
    return any(item.counter_set in sets for other in others for item in other.consumes_counters)


def _takes(device: Device, name: str) -> bool:
    return any(item.counter_set == name for item in device.consumes_counters)


def _groups(device: Device, name: str) -> tuple[str, ...]:
    return next(item.compatibility_groups for item in device.consumes_counters if item.counter_set == name)


def _amount(device: Device, name: str, counter: str) -> int:
    amounts = (item.counters.get(counter) for item in device.consumes_counters if item.counter_set == name)
    return sum(amount.nanos // 10**9 for amount in amounts if amount is not None)


@given(
    inventory=inventories(),
    wanted=st.lists(ids, min_size=1, max_size=3),
    held=st.lists(ids, max_size=5),
)
def test_an_obstacle_is_found_exactly_when_the_sums_say_so(
    inventory: Inventory, wanted: list[DeviceId], held: list[DeviceId]
) -> None:
    found = Hardware.of(b.DRIVER, inventory, node="node-a").find_obstacle(wanted, held)

    assert (found is not None) == is_obstructed(inventory, set(wanted), set(held))
    if found is not None:
        assert found.wanted in wanted
        assert found.held in held


@given(inventory=inventories(), held=st.lists(ids, max_size=4))
def test_what_is_blocked_is_what_has_an_obstacle(inventory: Inventory, held: list[DeviceId]) -> None:
    hardware = Hardware.of(b.DRIVER, inventory, node="node-a")

    blocked = hardware.find_blocked(held)
    assert set(blocked) == {
        device for device in {*hardware.uses, *held} if is_obstructed(inventory, {device}, set(held))
    }
    assert {device: device for device in held}.items() <= blocked.items()
