"""The search against its slow twin: the same devices, and every allocation passes the independent checker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import DeviceConstraint, DeviceRequest, ResourceClaim, SubRequest
from claimsmith.model.decision import Allocation, Decision, Pending, Refused
from claimsmith.model.device import Device
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    distinct,
    match,
    request,
    result,
    slice_,
    sub,
    taint,
    toleration,
)
from tests.property.allocation_twin import find_first
from tests.unit.allocate.solving import problem, solve, solve_impatiently

PROBLEMS = 2_000
DEVICES_MAX = 6

kinds = st.sampled_from(["x", "y"])
numa: st.SearchStrategy[int | str | tuple[int, ...] | None] = st.sampled_from(
    [None, None, 0, 1, 1, (0, 1), (1, 2), "one"]
)
taints = st.sampled_from([(), (), (), (taint(),), (taint(effect="None"),)])
consumption = st.sampled_from([(), (), (consumes("card", {"u": 1}),), (consumes("card", {"u": 2}),)])
amounts = st.sampled_from([None, None, 2, 3])


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    attributes: dict[str, int | str | tuple[int, ...]] = {"kind": draw(kinds)}
    value = draw(numa)
    if value is not None:
        attributes["numa"] = value
    shareable = draw(st.sampled_from([False, False, True]))
    room = draw(st.sampled_from([None, 4, 6]))
    default = draw(st.sampled_from([None, 2])) if shareable else None
    return device(
        name,
        attributes=attributes,
        capacity={} if room is None else {"memory": capacity(room, default=default)},
        counters=draw(consumption),
        taints=draw(taints),
        allow_multiple_allocations=shareable,
    )


@st.composite
def pools(draw: st.DrawFn) -> list[ResourceSlice]:
    count = draw(st.integers(1, DEVICES_MAX))
    found = [draw(devices(f"d{number}")) for number in range(count)]
    cut = draw(st.integers(0, count))
    counters = counter_set("card", {"u": draw(st.integers(1, 4))})
    return [
        slice_(*found[:cut], name="s-1", slice_count=3),
        slice_(*found[cut:], name="s-2", slice_count=3),
        slice_(name="s-0", slice_count=3, shared_counters=(counters,)),
    ]


@st.composite
def specs(draw: st.DrawFn, name: str = "") -> SubRequest:
    amount = draw(amounts)
    selectors = draw(st.sampled_from([(), ("x",), ("y",)]))
    return sub(
        name,
        *(f'device.attributes["gpu.example.test"].kind == "{kind}"' for kind in selectors),
        count=draw(st.sampled_from([1, 1, 1, 2, 3])),
        allocation_mode=draw(st.sampled_from(["ExactCount"] * 7 + ["All"])),
        tolerations=draw(st.sampled_from([(), (), (toleration(),)])),
        capacity=None if amount is None else {"memory": amount},
    )


@st.composite
def requests(draw: st.DrawFn, name: str) -> DeviceRequest:
    if draw(st.sampled_from([False, False, True])):
        return alternatives(name, draw(specs("first")), draw(specs("second")))
    admin = draw(st.sampled_from([None, None, None, None, True]))
    return replace(request(name), exactly=replace(draw(specs()), admin_access=admin))


@st.composite
def constraints(draw: st.DrawFn) -> DeviceConstraint:
    kind = draw(st.sampled_from([match, distinct]))
    return kind("gpu.example.test/numa", *draw(st.sampled_from([(), ("r0",), ("r1",), ("r0/second",)])))


@st.composite
def claims(draw: st.DrawFn, number: int) -> ResourceClaim:
    count = draw(st.sampled_from([1, 1, 2, 3]))
    wanted = [draw(requests(f"r{place}")) for place in range(count)]
    return claim(f"c{number}", *wanted, constraints=draw(st.lists(constraints(), max_size=1)))


@st.composite
def held(draw: st.DrawFn, slices: list[ResourceSlice]) -> list[ResourceClaim]:
    """Claims that hold some devices, so that no counter or capacity is overdrawn."""
    found: list[ResourceClaim] = []
    left = next(item for item in slices if item.shared_counters).shared_counters[0].counters["u"].nanos
    for item in [found for part in slices for found in part.devices]:
        takes = sum(amount.nanos for part in item.consumes_counters for amount in part.counters.values())
        if takes > left or not draw(st.sampled_from([False, False, False, True])):
            continue
        left -= takes
        share = {"share": f"share-{item.name}", "consumed": _half(item)} if item.allow_multiple_allocations else {}
        found.append(allocated(claim(f"held-{item.name}"), result(item.name, **share)))  # type: ignore[arg-type]
    return found


def _half(item: Device) -> Mapping[str, str]:
    return dict.fromkeys(item.capacity, "2")


@st.composite
def problems(draw: st.DrawFn) -> AllocationProblem:
    slices = draw(pools())
    wanted = [draw(claims(number)) for number in range(draw(st.sampled_from([1, 1, 2])))]
    return problem(*slices, *draw(held(slices)), *wanted)


def names(decision: Decision) -> list[tuple[str, str]] | None:
    """Which request got which device, claim by claim; None when the claims don't fit."""
    if isinstance(decision, Allocation):
        return [(item.request, item.device) for part in decision.results for item in part.results]
    assert isinstance(decision, Pending), decision
    return None


def expected(asked: AllocationProblem) -> list[tuple[str, str]] | None:
    chosen = find_first(asked)
    if chosen is None:
        return None
    return [
        (f"{item.request}/{item.alternative}" if item.alternative else item.request, item.device.name)
        for item in chosen
    ]


@pytest.mark.slow
@settings(max_examples=PROBLEMS)
@given(problems())
def test_search_finds_the_devices_that_trying_everything_finds_first(asked: AllocationProblem) -> None:
    before = repr(asked)
    decision = solve(asked)

    assert names(decision) == expected(asked)
    assert repr(asked) == before


@given(problems())
def test_counting_ahead_from_the_start_changes_no_answer(asked: AllocationProblem) -> None:
    assert names(solve_impatiently(asked)) == expected(asked)


@given(problems())
def test_both_modes_agree_where_upstream_is_right(asked: AllocationProblem) -> None:
    like_upstream = solve(asked, like_upstream=True)
    decision = solve(asked)

    assert isinstance(like_upstream, Refused) or names(like_upstream) == names(decision)


@given(problems())
def test_a_pending_decision_has_reasons(asked: AllocationProblem) -> None:
    decision = solve(asked)

    assert isinstance(decision, Allocation) or (isinstance(decision, Pending) and decision.reasons)
