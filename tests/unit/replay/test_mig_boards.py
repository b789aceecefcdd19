"""Boards as pools of partitions, and how full they can be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import factorial, prod

import pytest

from claimsmith.replay.mig_arrivals import BOARD_SLICES, MIXES, PROFILES, Arrival, Mix
from claimsmith.replay.mig_boards import build_board_claim, build_boards, read_profiles
from claimsmith.replay.mig_repack import (
    BOARD_MEMORY,
    MEMORY_SLICES,
    can_hold,
    expect_refused,
    find_refused_by_repacking,
)
from claimsmith.replay.mig_rules import Board, Held, pick_best_fit, pick_by_fragments

SMALL, DOUBLE, TWO, THREE, FOUR, SEVEN = PROFILES


@lru_cache
def board() -> Board:
    return Board.of(build_boards(1).slices)


def place(*sizes: str) -> Held:
    """A board that holds these sizes, each at the first free place."""
    held: Held = frozenset()
    for size in sizes:
        held |= {board().find_free(held)[size][0]}
    return held


@lru_cache
def hold_all(sizes: tuple[str, ...], held: Held = frozenset()) -> bool:
    """Whether one board can hold the sizes, by trying every place."""
    if not sizes:
        return True
    free = board().find_free(held).get(sizes[-1], ())
    return any(hold_all(sizes[:-1], held | {name}) for name in free)


def arrive(number: int, profile: str, *, at: float, until: float) -> Arrival:
    return Arrival(number=number, at=at, until=until, profile=profile)


def count(sizes: tuple[str, ...]) -> Mapping[str, int]:
    return {size: sizes.count(size) for size in PROFILES}


def test_every_node_publishes_every_place_of_every_size() -> None:
    cluster = build_boards(2)
    sizes = list(read_profiles(cluster.slices).values())

    assert [sizes.count(size) for size in PROFILES] == [7, 4, 3, 2, 1, 1]
    assert {item.node_name for item in cluster.slices} == {"node-000", "node-001"}


def test_places_are_published_in_the_order_of_nvidias_driver() -> None:
    names = [device.name for item in build_boards(1).slices for device in item.devices]
    places = [name.removeprefix("gpu-0-mig-") for name in names]

    assert [place for place in places if place[0] in "34"] == ["3g40gb-0", "3g40gb-4", "4g40gb-0"]
    assert names == sorted(names)


def test_partitions_draw_from_counters_that_their_pool_publishes() -> None:
    cluster = build_boards(1)
    published = {
        (counters.name, name)
        for item in cluster.slices
        for counters in item.shared_counters
        for name in counters.counters
    }
    drawn = {
        (use.counter_set, name)
        for item in cluster.slices
        for device in item.devices
        for use in device.consumes_counters
        for name in use.counters
    }

    assert drawn == published


def test_a_request_is_a_claim_for_one_partition_of_its_size() -> None:
    wanted = build_board_claim(arrive(7, THREE, at=0.0, until=1.0))
    exactly = wanted.spec.requests[0].exactly

    assert wanted.ref.name == "request-7"
    assert exactly is not None
    assert (exactly.count, exactly.selectors[0].expression) == (
        1,
        'device.attributes["mig.replay.claimsmith.dev"].profile == "3g.40gb"',
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_what_a_board_can_hold_agrees_with_trying_every_place(number: int) -> None:
    for sizes in combinations_with_replacement(PROFILES, number):
        assert can_hold(count(sizes), 1) == hold_all(sizes), sizes


def test_several_boards_hold_what_no_board_could_hold_alone() -> None:
    assert can_hold({THREE: 3, FOUR: 1}, 2)
    assert not can_hold({THREE: 3, FOUR: 2}, 2)


def test_repacking_refuses_only_what_can_not_be_held_at_all() -> None:
    arrivals = (
        arrive(0, THREE, at=0.0, until=9.0),
        arrive(1, FOUR, at=1.0, until=2.0),
        arrive(2, SMALL, at=1.5, until=9.0),
        arrive(3, SMALL, at=2.0, until=9.0),
    )

    assert [item.number for item in find_refused_by_repacking(arrivals, 1)] == [2]


def list_shares(mix: Mix, load: float) -> Mapping[str, float]:
    """The share that a single board refuses of each size, from the weight of every state that its memory allows."""
    rate = load * BOARD_SLICES / mix.mean_slices / sum(mix.shares)
    full, total = dict.fromkeys(PROFILES, 0.0), 0.0
    for state in product(*(range(BOARD_MEMORY // MEMORY_SLICES[size] + 1) for size in PROFILES)):
        free = BOARD_MEMORY - sum(n * MEMORY_SLICES[size] for n, size in zip(state, PROFILES, strict=True))
        weight = prod((rate * share) ** n / factorial(n) for n, share in zip(state, mix.shares, strict=True))
        if free >= 0:
            total += weight
            for size in PROFILES:
                full[size] += weight * (free < MEMORY_SLICES[size])
    return {size: weight / total for size, weight in full.items()}


@pytest.mark.parametrize("name", sorted(MIXES))
def test_what_is_refused_on_average_agrees_with_weighing_every_state(name: str) -> None:
    found = expect_refused(MIXES[name], load=0.9, boards=1)

    assert found == pytest.approx(list_shares(MIXES[name], 0.9))


def test_what_is_refused_on_average_is_known_of_thousands_of_boards() -> None:
    found = expect_refused(MIXES["large"], load=1.0, boards=2_000)

    assert 0 < found[SMALL] < found[SEVEN] < 0.05


def test_best_fit_takes_the_fullest_board_that_has_room() -> None:
    held = {"a": place(SMALL), "b": place(FOUR), "c": place(FOUR, THREE)}
    pick = pick_best_fit(board(), held, SMALL)

    assert pick is not None
    assert pick[0] == "b"


def test_best_fit_finds_nothing_on_full_boards() -> None:
    assert pick_best_fit(board(), {"a": place(SEVEN)}, SMALL) is None


def test_fragments_keep_the_larger_hole_for_larger_requests() -> None:
    pick = pick_by_fragments(MIXES["uniform"])
    found = pick(board(), {"a": frozenset(), "b": place(SMALL)}, SMALL)

    assert found is not None
    assert found[0] == "b"


def test_fragments_find_nothing_on_full_boards() -> None:
    assert pick_by_fragments(MIXES["uniform"])(board(), {"a": place(SEVEN)}, SMALL) is None
