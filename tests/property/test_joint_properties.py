"""The joint allocation against its slow twin: the same objective, every allocation valid, never worse than search."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.batch import Batch, Gang, JointDecision, JointLimits, Member
from claimsmith.allocate.cpsat.assignment import assign
from claimsmith.allocate.cpsat.decide import model_batch
from claimsmith.allocate.cpsat.hint import search_batch
from claimsmith.allocate.cpsat.layout import lay_out
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.joint import allocate_jointly
from claimsmith.allocate.policy.objective import FRAGMENTATION, PACK, SPREAD, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import DeviceConstraint, ResourceClaim, SubRequest
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
    device_id,
    distinct,
    match,
    node,
    request,
    slice_,
    sub,
    taint,
    toleration,
)
from tests.property.joint_twin import JointProblem, find_best
from tests.unit.allocate.jointly import check_jointly
from tests.unit.allocate.solving import number_shares, problem

DEVICES_MAX = 4
"""On each of two nodes."""
BATCHES = 200

WEIGHTED = Policy(name="weighted", terms=("waste", "rank", "spread"), weights=(("waste", 1), ("rank", 500)))
policies = st.sampled_from([PACK, SPREAD, FRAGMENTATION, WEIGHTED])
kinds = st.sampled_from(["x", "y"])
consumption = st.sampled_from([(), (), (consumes("card", {"u": 1}),), (consumes("card", {"u": 2}),)])
values: st.SearchStrategy[int | str | tuple[int, ...] | None] = st.sampled_from([None, 0, 0, 1, 1, (0, 1), "one"])


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    attributes: dict[str, int | str | tuple[int, ...]] = {"kind": draw(kinds)}
    for key, value in (("numa", draw(values)), ("numaNode", draw(st.sampled_from([None, 0, 1])))):
        if value is not None:
            attributes[key] = value
    shareable = draw(st.sampled_from([False, False, True]))
    room = draw(st.sampled_from([None, 4, 6]))
    return device(
        name,
        attributes=attributes,
        capacity={} if room is None else {"memory": capacity(room, default=2 if shareable else None)},
        counters=draw(consumption),
        taints=draw(st.sampled_from([(), (), (), (taint(),)])),
        allow_multiple_allocations=shareable,
    )


@st.composite
def pools(draw: st.DrawFn, name: str) -> list[ResourceSlice]:
    found = [draw(devices(f"{name}-{number}")) for number in range(draw(st.integers(1, DEVICES_MAX)))]
    counters = counter_set("card", {"u": draw(st.integers(1, 3))})
    return [
        slice_(*found, name=f"{name}-s", node=name, slice_count=2),
        slice_(name=f"{name}-c", node=name, slice_count=2, shared_counters=(counters,)),
    ]


@st.composite
def held(draw: st.DrawFn, slices: list[ResourceSlice]) -> list[ResourceClaim]:
    found: list[ResourceClaim] = []
    left = next(item for item in slices if item.shared_counters).shared_counters[0].counters["u"].nanos
    for pool, item in [(part.pool, item) for part in slices for item in part.devices]:
        takes = sum(amount.nanos for part in item.consumes_counters for amount in part.counters.values())
        if takes > left or item.allow_multiple_allocations or not draw(st.sampled_from([False, False, False, True])):
            continue
        left -= takes
        found.append(allocated(claim(f"held-{item.name}"), device_id(item.name, pool=pool)))
    return found


@st.composite
def specs(draw: st.DrawFn, name: str = "") -> SubRequest:
    selectors = draw(st.sampled_from([(), ("x",), ("y",)]))
    amount = draw(st.sampled_from([None, None, None, 3]))
    return sub(
        name,
        *(f'device.attributes["gpu.example.test"].kind == "{kind}"' for kind in selectors),
        count=draw(st.sampled_from([1, 1, 1, 2])),
        allocation_mode=draw(st.sampled_from(["ExactCount"] * 9 + ["All"])),
        tolerations=draw(st.sampled_from([(), (toleration(),)])),
        capacity=None if amount is None else {"memory": amount},
    )


@st.composite
def constraints(draw: st.DrawFn) -> DeviceConstraint:
    kind = draw(st.sampled_from([match, distinct]))
    return kind("gpu.example.test/numa", *draw(st.sampled_from([(), (), ("r0",), ("r0/second",)])))


@st.composite
def claims(draw: st.DrawFn, name: str) -> ResourceClaim:
    wanted = []
    for place in range(draw(st.sampled_from([1, 1, 1, 2]))):
        if draw(st.sampled_from([False, True])):
            wanted.append(alternatives(f"r{place}", draw(specs("first")), draw(specs("second"))))
        else:
            wanted.append(replace(request(f"r{place}"), exactly=draw(specs())))
    return claim(name, *wanted, constraints=draw(st.lists(constraints(), max_size=1)))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    shapes = [draw(claims("shape-0")), draw(claims("shape-1"))]
    gang = draw(st.sampled_from(["", "", "g"]))
    members = []
    for number in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(shapes))
        members.append(
            Member(
                name=f"m{number}",
                claims=(replace(shape, metadata=replace(shape.metadata, name=f"c{number}")),),
                priority=draw(st.sampled_from([0, 0, 0, 1])),
                nodes=draw(st.sampled_from([None, None, frozenset({"node-a"}), frozenset({"node-b"})])),
                gang=gang if draw(st.booleans()) else "",
            )
        )
    return Batch(members=tuple(members), gangs=(Gang(name="g", min_count=2),) if gang else ())


@st.composite
def joint_problems(draw: st.DrawFn) -> JointProblem:
    batch = draw(batches())
    wanted = [item for member in batch.members for item in member.claims]
    nodes: dict[str, AllocationProblem] = {}
    for name in ("node-a", "node-b"):
        slices = draw(pools(name))
        nodes[name] = problem(*slices, *draw(held(slices)), *wanted, on=node(name))
    return JointProblem(batch=batch, nodes=nodes)


def prepare(asked: JointProblem) -> PreparedCluster:
    parts = list(asked.nodes.values())
    return PreparedCluster.from_problem(
        replace(
            parts[0],
            claims=(),
            slices=tuple(itertools.chain.from_iterable(part.slices for part in parts)),
            allocated=tuple(itertools.chain.from_iterable(part.allocated for part in parts)),
        )
    )


def decide(asked: JointProblem, policy: Policy, *, limits: JointLimits | None = None) -> JointDecision:
    nodes = [part.node for part in asked.nodes.values()]
    decision = allocate_jointly(
        prepare(asked), asked.batch, nodes=nodes, share_ids=number_shares(), policy=policy, limits=limits
    )
    check_jointly(prepare(asked), asked.batch, decision, nodes=nodes)
    return decision


def get_costs(asked: JointProblem, decision: JointDecision) -> tuple[int, ...]:
    """Members without a node by priority, then the policy's levels."""
    priorities = sorted({member.priority for member in asked.batch.members}, reverse=True)
    values = [value for _, value in decision.objective]
    missing = [
        sum(member.priority == priority for member in asked.batch.members) - value
        for priority, value in zip(priorities, values, strict=False)
    ]
    return (*missing, *values[len(missing) :])


@pytest.mark.slow
@settings(max_examples=BATCHES)
@given(joint_problems(), policies)
def test_no_choice_is_better_than_the_answer_of_the_solver(asked: JointProblem, policy: Policy) -> None:
    decision = decide(asked, policy)

    assert get_costs(asked, decision) == find_best(asked, policy)
    assert (decision.status, decision.fallbacks, decision.unmodelled) == ("optimal", 0, ())


@given(joint_problems(), policies)
def test_the_model_admits_what_search_finds_at_the_same_cost(asked: JointProblem, policy: Policy) -> None:
    layout = lay_out(prepare(asked), asked.batch, [part.node for part in asked.nodes.values()])
    objective = Objective.of(layout, policy)
    floor = search_batch(layout, objective, limits=JointLimits().search, share_ids=number_shares())
    model = model_batch(layout, objective)
    start = assign(model.placement, floor)
    costs = tuple(
        sum(start[variable] * factor for variable, factor in level.expression.items()) + level.constant
        for level in model.levels
    )

    assert model.linear.find_broken(start) is None
    assert costs == objective.measure(floor)


@pytest.mark.slow
@given(joint_problems(), policies)
def test_search_alone_is_never_better(asked: JointProblem, policy: Policy) -> None:
    alone = decide(asked, policy, limits=JointLimits(solver_effort=0.0))
    decision = decide(asked, policy)

    assert get_costs(asked, decision) <= get_costs(asked, alone)
    assert alone.decided_by == "search"
