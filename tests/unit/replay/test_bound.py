"""The bound is never below what is possible, and often just that."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.cpsat import relaxation
from claimsmith.replay.bound import find_bound
from claimsmith.replay.trace import TraceNode, TracePod
from tests.unit.replay.small_trace import make_trace, trace_node, trace_pod


def fill_best(nodes: list[TraceNode], pods: list[TracePod]) -> int:
    """The most that can be allocated: every pod on every node or on none, GPUs filled the largest first."""
    best = 0
    for places in product(range(-1, len(nodes)), repeat=len(pods)):
        total = sum(pod.total_milli for pod, place in zip(pods, places, strict=True) if place >= 0)
        if total > best and all(
            fits(node, [pod for pod, place in zip(pods, places, strict=True) if place == number])
            for number, node in enumerate(nodes)
        ):
            best = total
    return best


def fits(node: TraceNode, pods: list[TracePod]) -> bool:
    if sum(pod.cpu_milli for pod in pods) > node.cpu_milli:
        return False
    if any(pod.models and node.model not in pod.models for pod in pods):
        return False
    return pack([1_000] * node.gpus, [pod.gpu_milli for pod in pods for _ in range(pod.gpus)])


def pack(rooms: list[int], parts: list[int]) -> bool:
    if not parts:
        return True
    tried = set()
    for place, room in enumerate(rooms):
        if room >= parts[0] and room not in tried:
            tried.add(room)
            if pack([*rooms[:place], room - parts[0], *rooms[place + 1 :]], parts[1:]):
                return True
    return False


pods = st.builds(
    trace_pod,
    st.sampled_from([0, 200, 300, 400, 600, 700, 1_000]),
    cpu=st.sampled_from([1_000, 8_000]),
    models=st.sampled_from(["", "", "A"]),
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            trace_node, gpus=st.integers(1, 2), cpu=st.sampled_from([8_000, 32_000]), model=st.sampled_from("AB")
        ),
        min_size=1,
        max_size=2,
    ),
    st.lists(pods, max_size=5),
)
def test_nothing_that_is_possible_is_above_the_bound(nodes: list[TraceNode], wanted: list[TracePod]) -> None:
    bound = find_bound(make_trace(nodes, wanted), wanted)

    assert bound is not None
    assert bound.allocated_milli >= fill_best(nodes, wanted) - 1e-6


def test_parts_that_leave_a_hole_in_every_gpu_are_bounded_by_their_patterns() -> None:
    wanted = [trace_pod(600)] * 5

    bound = find_bound(make_trace([trace_node(gpus=2)], wanted), wanted)
    assert bound is not None
    assert bound.allocated_milli == pytest.approx(1_200)


def test_processors_bound_too() -> None:
    wanted = [trace_pod(500, cpu=8_000)] * 4

    bound = find_bound(make_trace([trace_node(gpus=2, cpu=16_000)], wanted), wanted)
    assert bound is not None
    assert bound.allocated_milli == pytest.approx(1_000)


def test_pods_that_must_be_kept_take_their_processors() -> None:
    wanted = [trace_pod(500, cpu=8_000)] * 2 + [trace_pod(0, cpu=8_000)]
    trace = make_trace([trace_node(cpu=16_000)], wanted)

    found = [find_bound(trace, wanted, keep_plain=keep) for keep in (False, True)]
    assert [bound and round(bound.allocated_milli) for bound in found] == [1_000, 500]


def test_the_kinds_that_are_kept_are_told() -> None:
    large, small = trace_pod(600), trace_pod(500)
    wanted = [large, small, small]

    bound = find_bound(make_trace([trace_node(gpus=1)], wanted), wanted)
    assert bound is not None
    assert bound.kept == {large: pytest.approx(0), small: pytest.approx(2)}


def test_without_the_extra_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation, "find_spec", lambda _: None)

    assert find_bound(make_trace([trace_node()], [trace_pod()]), [trace_pod()]) is None
