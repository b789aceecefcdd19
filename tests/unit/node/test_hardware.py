"""Which devices share hardware, in the plainest cases."""

from __future__ import annotations

import pytest

from claimsmith.model.inventory import Inventory
from claimsmith.node.hardware import Hardware, Obstacle
from claimsmith.testing import builders as b


def hardware(**groups: tuple[str, ...]) -> Hardware:
    """Return a card with room for four devices, which have these compatibility groups."""
    devices = [b.device(name, counters=[b.consumes("card", {"u": 1}, groups=found)]) for name, found in groups.items()]
    inventory = Inventory.of(*devices, counter_sets=(b.counter_set("card", {"u": 4}),))
    return Hardware.of(b.DRIVER, inventory, node=b.NODE)


@pytest.mark.parametrize(
    ("one", "other", "exclude"),
    [
        ((), (), False),
        (("x",), ("x", "y"), False),
        (("x",), ("y",), True),
        (("x",), (), True),
        ((), ("x",), True),
    ],
)
def test_groups_that_have_nothing_in_common_exclude_each_other(
    one: tuple[str, ...], other: tuple[str, ...], exclude: bool
) -> None:
    found = hardware(a=one, b=other).find_obstacle([b.device_id("a")], [b.device_id("b")])

    assert found == (Obstacle(wanted=b.device_id("a"), held=b.device_id("b")) if exclude else None)


def test_what_all_on_a_card_have_in_common_counts() -> None:
    card = hardware(a=("x", "y"), b=("y", "z"), c=("x", "z"))
    held = [b.device_id("a"), b.device_id("b")]

    found = card.find_obstacle([b.device_id("c")], held)
    assert found is not None
    assert found.held == b.device_id("b")


def test_devices_of_other_pools_are_in_nobodys_way() -> None:
    card = hardware(a=("x",))

    assert (
        card.find_obstacle([b.device_id("a")], [b.device_id("a", pool="other"), b.device_id("gone", pool="other")])
        is None
    )


def test_a_device_of_which_nothing_is_known_may_have_the_whole_card() -> None:
    found = hardware(a=()).find_obstacle([b.device_id("a")], [b.device_id("gone")])

    assert found == Obstacle(wanted=b.device_id("a"), held=b.device_id("gone"))
