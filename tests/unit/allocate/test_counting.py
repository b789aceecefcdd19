"""Counting ahead: combinations of partitions, sums that fill shared devices, and the steps that a search needs."""

from __future__ import annotations

import pytest

from claimsmith.allocate.search.filling import most_filled
from claimsmith.allocate.search.patterns import count_most, find_patterns, keep_largest
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Pending
from claimsmith.model.names import CounterId
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    alternatives,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    distinct,
    match,
    request,
    slice_,
    sub,
)
from tests.unit.allocate.solving import devices, problem, solve, solve_impatiently

UNITS = CounterId("card", "units")
SIZE = 'device.attributes["gpu.example.test"].size == {size}'
GROUP = "gpu.example.test/group"


def test_a_card_serves_combinations_of_partitions() -> None:
    small, big = ((UNITS, 1),), ((UNITS, 3),)
    found = find_patterns(2, {(small, frozenset({0})): 4, (big, frozenset({1})): 2}, {UNITS: 4})

    assert sorted(found or []) == [(1, 1), (4, 0)]


def test_a_device_that_two_kinds_accept_serves_one_of_them() -> None:
    found = find_patterns(2, {(((UNITS, 1),), frozenset({0, 1})): 1}, {UNITS: 4})

    assert sorted(found or []) == [(0, 1), (1, 0)]


def test_a_block_too_large_to_look_into_is_bounded_by_its_scarcest_counter() -> None:
    many = [((CounterId("card", f"slot-{number}"), 1), (UNITS, 1)) for number in range(40)]
    room = {counter: 9 for consumption in many for counter, _ in consumption}

    assert find_patterns(1, {(consumption, frozenset({0})): 1 for consumption in many}, room) is None
    assert count_most(many, room) == 9


def test_covered_patterns_are_dropped() -> None:
    assert sorted(keep_largest([(1, 0), (1, 1), (0, 1), (2, 0)])) == [(1, 1), (2, 0)]


@pytest.mark.parametrize(
    ("amounts", "rooms", "most"),
    [([27, 28, 29, 31], [60, 60], 120), ([40, 40, 40], [100], 80), ([3, 5], [4, 4], 6), ([7], [6], 0), ([], [5], 5)],
)
def test_sums_of_whole_requests_bound_what_fits(amounts: list[int], rooms: list[int], most: int) -> None:
    assert most_filled(amounts, rooms) == most


def gpus(count: int) -> ResourceSlice:
    return slice_(*(device(f"d{number:02d}") for number in range(count)))


def singles(count: int) -> ResourceClaim:
    return claim("c", *(request(f"r{number}") for number in range(count)))


@pytest.mark.parametrize("count", [4, 8, 16, 31])
def test_one_device_too_few_is_found_out_in_linear_steps(count: int) -> None:
    asked = problem(gpus(count), claim("c", request("r", count=count + 1)))
    decision = solve(asked)

    assert isinstance(decision, Pending)
    assert decision.steps <= 2 * count + 2


@pytest.mark.parametrize("count", [4, 8, 16, 31])
def test_one_request_too_many_is_found_out_in_linear_steps(count: int) -> None:
    decision = solve(problem(gpus(count), singles(count + 1)))

    assert isinstance(decision, Pending)
    assert decision.steps <= 3 * count + 3


@pytest.mark.parametrize("count", [8, 16, 24])
def test_the_group_that_is_large_enough_is_found_in_linear_steps(count: int) -> None:
    sizes = [count - 1, count - 1, count - 1, count]
    pool = slice_(
        *(
            device(f"d-{group}-{place:02d}", attributes={"group": group})
            for group, size in enumerate(sizes)
            for place in range(size)
        )
    )
    decision = solve(problem(pool, claim("c", request("r", count=count), constraints=[match(GROUP)])))

    assert devices(decision)[0][0] == "d-3-00"
    assert isinstance(decision, Allocation)
    assert decision.steps <= 5 * count


@pytest.mark.parametrize("count", [6, 10, 16])
def test_one_value_too_few_is_found_out_in_square_steps(count: int) -> None:
    pool = slice_(
        *(device(f"d-{value}-{place}", attributes={"group": value}) for value in range(count - 1) for place in range(4))
    )
    wanted = claim("c", *(request(f"r{number}") for number in range(count)), constraints=[distinct(GROUP)])
    decision = solve(problem(pool, wanted))

    assert isinstance(decision, Pending)
    assert decision.steps <= count * count + 64


def cards(count: int) -> tuple[ResourceSlice, ResourceSlice]:
    """Cards of 8 slots and 7 units, each cut into 1g at slots 0 to 6 and 3g at slots 0 and 4."""
    sets, parts = [], []
    for card in range(count):
        name = f"card-{card}"
        sets.append(counter_set(name, {"units": 7, **{f"slot-{slot}": 1 for slot in range(8)}}))
        for size, width, starts in ((1, 1, range(7)), (3, 4, (0, 4))):
            for start in starts:
                slots = {f"slot-{slot}": 1 for slot in range(start, start + width)}
                parts.append(
                    device(
                        f"{name}-{size}g-{start}",
                        attributes={"size": size},
                        counters=[consumes(name, {"units": size, **slots})],
                    )
                )
    return (
        slice_(name="counters", slice_count=2, shared_counters=tuple(sets)),
        slice_(*parts, name="devices", slice_count=2),
    )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_partitions_are_packed_in_square_steps(count: int) -> None:
    wanted = [claim(f"s{number}", request("r", SIZE.format(size=1))) for number in range(4 * count)]
    wanted += [claim(f"b{number}", request("r", SIZE.format(size=3))) for number in range(count)]
    decision = solve(problem(*cards(count), *wanted))

    assert isinstance(decision, Allocation)
    assert decision.steps <= 80 * count * count


def test_shared_devices_are_filled_exactly() -> None:
    nics = slice_(
        *(
            device(
                f"nic-{number}",
                capacity={"bandwidth": capacity(100, default=1, minimum=1)},
                allow_multiple_allocations=True,
            )
            for number in range(4)
        )
    )
    amounts = [27, 28, 29, 30, 31, 32, 36, 37, 38, 41, 35, 36]
    wanted = claim("c", *(request(f"r{place}", capacity={"bandwidth": amount}) for place, amount in enumerate(amounts)))
    decision = solve(problem(nics, wanted))

    assert isinstance(decision, Allocation)
    assert decision.steps < 2_000


def test_an_impossible_last_request_is_found_out_at_once() -> None:
    wanted = claim("c", *(request(f"r{number}") for number in range(10)), request("big", count=17))
    decision = solve(problem(gpus(16), wanted))

    assert isinstance(decision, Pending)
    assert decision.steps <= 64


def test_alternatives_are_counted_by_the_least_that_each_takes_of_a_shared_counter() -> None:
    sizes = (25, 20, 16, 14, 12, 10)
    parts = [
        device(f"p-{size}-{place}", attributes={"size": size}, counters=[consumes("card", {"units": size})])
        for size in sizes
        for place in range(4)
    ]
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"units": 42}),))
    wanted = [
        alternatives(f"r{number}", *(sub(f"s{size}", SIZE.format(size=size)) for size in sizes)) for number in range(4)
    ]
    decision = solve(problem(counters, slice_(*parts, name="devices", slice_count=2), claim("c", *wanted)))

    assert isinstance(decision, Allocation)
    assert decision.steps < 500


def test_alternatives_that_may_do_without_a_counter_are_not_counted_on_it() -> None:
    parts = [
        device(f"p{place}", attributes={"size": 1}, counters=[consumes("card", {"units": 1})]) for place in range(3)
    ]
    free = [device(f"f{place}", attributes={"size": 2}) for place in range(3)]
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"units": 1}),))
    wanted = [
        alternatives(f"r{number}", sub("part", SIZE.format(size=1)), sub("whole", SIZE.format(size=2)))
        for number in range(4)
    ]
    decision = solve_impatiently(problem(counters, slice_(*parts, *free, name="d", slice_count=2), claim("c", *wanted)))

    assert devices(decision) == [["p0", "f0", "f1", "f2"]]


def test_shares_of_one_device_take_its_counters_once() -> None:
    shared = device("s", counters=[consumes("card", {"units": 1})], allow_multiple_allocations=True)
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"units": 1}),))
    wanted = claim("c", *(request(f"r{number}") for number in range(3)))

    assert devices(solve_impatiently(problem(counters, slice_(shared, name="d", slice_count=2), wanted))) == [["s"] * 3]


def test_a_thousand_devices_wanted_are_no_matter_of_stack_depth() -> None:
    wanted = [claim(f"c{number:02d}", request("r", count=32)) for number in range(40)]
    pool = slice_(*(device(f"d{number:04d}") for number in range(40 * 32)))

    assert isinstance(solve(problem(pool, *wanted)), Allocation)


@pytest.mark.parametrize("like_upstream", [False, True])
def test_alternatives_beyond_the_limit_are_given_up_whatever_devices_are_tried(like_upstream: bool) -> None:
    unequal = [device(f"d{number:02d}", capacity={"memory": capacity(number + 1)}) for number in range(32)]
    choices = [
        alternatives(f"r{place}", sub("more", count=more), sub("less", count=less))
        for place, (more, less) in enumerate([(7, 5), (21, 20), (4, 3)])
    ]
    wanted = claim("c", *choices, request("last", count=4))
    decision = solve(problem(slice_(*unequal), wanted), like_upstream=like_upstream)

    assert isinstance(decision, Allocation)
    assert [result.request for result in decision.results[0].results][::5] == [
        "r0/less", "r1/less", "r1/less", "r1/less", "r1/less", "r2/less", "last",
    ]  # fmt: skip
    assert decision.steps < 200
