"""Partitions: exactly the layouts that the hardware allows fit into the counters."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from claimsmith.drivers.simulated.partitions import (
    BOARDS,
    Board,
    Profile,
    iter_placements,
    list_consumption,
    list_counters,
)
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.quantity import parse_quantity
from tests.unit.drivers.paper import devices_of, driver_of


def fits(board: Board, placements: tuple[tuple[Profile, int], ...]) -> bool:
    """Tell whether placements fit into the counters of a card together."""
    used: Counter[str] = Counter()
    for profile, start in placements:
        used.update({name: amount.value() for name, amount in list_consumption(profile, start).items()})
    counters = list_counters(board, "card").counters
    return all(amount <= counters[name].value() for name, amount in used.items())


def overlap(placements: tuple[tuple[Profile, int], ...]) -> bool:
    slices = [index for profile, start in placements for index in range(start, start + profile.size)]
    return len(set(slices)) < len(slices)


@pytest.mark.parametrize("key", sorted(BOARDS))
def test_every_counter_that_a_partition_takes_is_there(key: str) -> None:
    counters = list_counters(BOARDS[key], "card").counters

    for profile, start in iter_placements(BOARDS[key]):
        assert set(list_consumption(profile, start)) <= set(counters)
    assert len(counters) <= 32


@pytest.mark.parametrize("key", sorted(BOARDS))
def test_partitions_without_media_engines_fit_exactly_when_they_don_t_overlap(key: str) -> None:
    board = BOARDS[key]
    plain = [(profile, start) for profile, start in iter_placements(board) if "+me" not in profile.name]

    for count in (2, 3):
        for chosen in combinations(plain, count):
            assert fits(board, chosen) is not overlap(chosen)


@pytest.mark.parametrize("key", sorted(BOARDS))
def test_only_one_partition_has_the_media_engines(key: str) -> None:
    board = BOARDS[key]
    media = [(profile, start) for profile, start in iter_placements(board) if "+me" in profile.name]

    assert [pair for pair in combinations(media, 2) if fits(board, pair)] == []


@pytest.mark.parametrize(("key", "most"), [("a100-40gb", 7), ("a100-80gb", 7), ("h100-80gb", 7), ("a30-24gb", 4)])
def test_as_many_smallest_partitions_fit_as_the_vendor_says(key: str, most: int) -> None:
    board = BOARDS[key]
    smallest = tuple(item for item in iter_placements(board) if item[0] == board.profiles[0])

    assert len(smallest) == most
    assert fits(board, smallest)


def test_large_partitions_begin_at_the_far_end() -> None:
    places = [(profile.name, start) for profile, start in iter_placements(BOARDS["a100-40gb"])]

    assert places.index(("3g.20gb", 4)) < places.index(("3g.20gb", 0))
    assert places.index(("1g.5gb", 0)) < places.index(("1g.5gb", 1))


def test_first_fit_in_order_cuts_a_card_into_three_two_one_and_one() -> None:
    board = BOARDS["a100-40gb"]
    chosen: tuple[tuple[Profile, int], ...] = ()
    for wanted in ("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"):
        chosen += (
            next(item for item in iter_placements(board) if item[0].name == wanted and fits(board, (*chosen, item))),
        )

    assert [start for _, start in chosen] == [4, 0, 2, 3]


def test_a_card_that_can_be_cut_is_published_whole_and_in_parts() -> None:
    inventory = driver_of("gpus: [{model: A100-40, mig: true}]").discover()

    found = devices_of(inventory)
    part = found["gpu-0-mig-3g20gb-4"]
    assert len(found) == 26
    assert next(iter(found)) == "gpu-0"
    assert part.attributes["profile"] == DeviceAttribute.of("3g.20gb")
    assert part.attributes["parentUUID"] == found["gpu-0"].attributes["uuid"]
    assert part.attributes["type"] == DeviceAttribute.of("mig")
    assert part.capacity["memory"].value == parse_quantity("19968Mi")
    assert [item.name for item in inventory.pools[0].counter_sets] == ["gpu-0"]
    assert found["gpu-0"].consumes_counters[0].counters == inventory.pools[0].counter_sets[0].counters
