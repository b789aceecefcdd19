"""What-if, preemption and moves against twins that try everything."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.prepared.problem import merge_taint_rules
from claimsmith.allocate.replan.cheapest_set import find_cheapest_set
from claimsmith.allocate.replan.defrag import Goal, Shape, measure, plan_defrag
from claimsmith.allocate.replan.preempt import find_victims
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.allocate.whatif import NodeTemplate, change_snapshot, count_fitting, find_cheapest_nodes
from claimsmith.allocate.whatif.budgets import BudgetLedger
from claimsmith.allocate.whatif.changes import AddNodes, copy_pod
from claimsmith.allocate.whatif.trial import NoPlace, Placement, place_all, put_pod, put_pods, take_pods
from claimsmith.cluster.build import ClusterObject
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.testing.builders import device, node, slice_
from tests.unit.allocate.trying import Held, budget, cluster, gpus, held_by, running, sharing, waiting

TRIAL = SchedulerTrial()


@st.composite
def clusters(draw: st.DrawFn, *, nodes: int = 3, cards: int = 3, shared: bool = True) -> ClusterSnapshot:
    """Up to three nodes whose GPUs are held by pods of several priorities, some of them shared, some under budgets."""
    sizes = {f"n{n}": draw(st.integers(0, cards)) for n in range(draw(st.integers(1, nodes)))}
    objects: list[ClusterObject | Held] = []
    for name, size in sizes.items():
        free = [f"g{n}" for n in range(size)]
        for _ in range(draw(st.integers(0, size))):
            if not free:
                break
            count = draw(st.integers(1, min(2, len(free))))
            taken, free = free[:count], free[count:]
            pod, label = f"p{len(objects)}", draw(st.sampled_from(["x", "y"]))
            priority, cpu = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            if shared and count == 1 and draw(st.integers(0, 3)) == 0:
                other = f"{pod}-too"
                objects += [held_by(f"{pod}-both", name, taken[0], pod, other)]
                objects += [sharing(item, name, f"{pod}-both", priority=priority) for item in (pod, other)]
            else:
                objects.append(running(pod, name, *taken, priority=priority, cpu=cpu, app=label))
    if draw(st.booleans()):
        objects.append(budget("keep", draw(st.integers(0, 1)), app="x"))
    return cluster(sizes, *objects, cpu=4)


def subsets(pods: list[Pod]) -> list[tuple[Pod, ...]]:
    return list(chain.from_iterable(combinations(pods, size) for size in range(len(pods) + 1)))


def all_placed(snapshot: ClusterSnapshot, pods: list[Pod]) -> bool:
    _, decisions = place_all(snapshot, pods, place=TRIAL, explain=False)
    return all(isinstance(item, Placement) for item in decisions)


def count_violations(snapshot: ClusterSnapshot, victims: tuple[Pod, ...]) -> int:
    """Take the victims one after another; count those that a budget forbids."""
    ledger = BudgetLedger.of(snapshot)
    return sum(bool(ledger.take(pod)) for pod in victims)


def price(snapshot: ClusterSnapshot, victims: tuple[Pod, ...]) -> tuple[int, int, int, int]:
    """What the victims cost by the rules, computed anew."""
    lowest = min((pod.priority for pod in snapshot.pods.values()), default=0)
    priorities = [pod.priority for pod in victims]
    violations = count_violations(snapshot, victims)
    return violations, max(priorities), len(victims), sum(priorities) - lowest * len(victims)


@given(data=st.data(), snapshot=clusters(), sizes=st.lists(st.integers(1, 2), min_size=1, max_size=2))
def test_victims_are_the_cheapest_of_all_sets(data: st.DataObject, snapshot: ClusterSnapshot, sizes: list[int]) -> None:
    priority = data.draw(st.integers(1, 3))
    pods = [waiting(f"new-{n}", size, priority=priority, cpu=n) for n, size in enumerate(sizes)]
    candidates = [pod for pod in snapshot.pods.values() if pod.priority < priority]
    enough = [s for s in subsets(candidates) if all_placed(take_pods(snapshot, [pod.ref for pod in s]), pods)]
    found = find_victims(snapshot, pods, place=TRIAL)

    if not enough:
        assert (found.status, found.victims) == ("impossible", ())
    elif () in enough:
        assert (found.status, found.victims) == ("needless", ())
    elif min(count_violations(snapshot, s) for s in enough):
        assert (found.status, found.victims) == ("forbidden", ())
    else:
        assert found.status == "optimal"
        assert price(snapshot, found.victims) == min(price(snapshot, s) for s in enough)
        assert all(isinstance(item, Placement) for item in found.decisions)


@given(
    families=st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=5),
    costs=st.lists(st.integers(1, 9), min_size=7, max_size=7),
)
def test_a_cheapest_set_is_cheapest_among_all(families: list[frozenset[int]], costs: list[int]) -> None:
    found = find_cheapest_set(
        range(7),
        is_enough=lambda chosen: any(family <= chosen for family in families),
        cost=lambda chosen: (sum(costs[number] for number in chosen),),
    )

    assert found is not None
    assert found.is_optimal
    assert sum(costs[n] for n in found.chosen) == min(sum(costs[n] for n in family) for family in families)


@given(families=st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=5))
def test_a_set_that_is_found_in_haste_is_irreducible(families: list[frozenset[int]]) -> None:
    found = find_cheapest_set(
        range(7),
        is_enough=lambda chosen: any(family <= chosen for family in families),
        cost=lambda chosen: (len(chosen),),
        trials_max=0,
    )

    assert found is not None
    assert found.chosen in families
    assert not any(family < found.chosen for family in families)


@given(snapshot=clusters(shared=False), size=st.integers(1, 3), moves=st.integers(0, 3), wanted=st.integers(1, 3))
def test_a_plan_can_be_carried_out_step_by_step_and_reaches_what_it_says(
    snapshot: ClusterSnapshot, size: int, moves: int, wanted: int
) -> None:
    goal = Goal(name="room", shapes=(Shape(name="room", pod=waiting("probe", size), wanted=wanted),))
    found = plan_defrag(snapshot, goal, moves=moves, place=TRIAL)
    for step in found.steps:
        snapshot = take_pods(snapshot, [pod.ref for pod in step.pods])
        for placement in step.placements:
            assert find_violations(snapshot, placement) == []
            snapshot = put_pod(snapshot, placement)

    assert measure(snapshot, goal, place=TRIAL) == found.after
    assert found.moves <= moves
    assert (found.after > found.before) == bool(found.steps)


def find_violations(snapshot: ClusterSnapshot, placement: Placement) -> list[str]:
    """Ask the independent checker of the devices, and add up the cpu of the node."""
    case = VerifyCase(
        node=snapshot.nodes[placement.node],
        claims=tuple(replace(claim, allocation=None, reserved_for=()) for claim in placement.claims),
        slices=merge_taint_rules(snapshot.slices, snapshot.taint_rules),
        classes=snapshot.classes,
        allocated=snapshot.allocated_claims(),
    )
    broken = verify_allocation(case, [claim.allocation for claim in placement.claims if claim.allocation])
    on_node = [pod for pod in snapshot.pods.values() if pod.node_name == placement.node] + [placement.pod]
    cpu = sum(
        item.requests["cpu"].milli_value() for pod in on_node for item in pod.containers if "cpu" in item.requests
    )
    room = snapshot.nodes[placement.node].allocatable["cpu"].milli_value()
    return [str(item) for item in broken] + (["cpu"] if cpu > room else [])


@given(snapshot=clusters(), size=st.integers(0, 2), cpu=st.integers(0, 3), fabric=st.integers(0, 2))
def test_the_number_that_fits_is_that_of_placing_one_by_one(
    snapshot: ClusterSnapshot, size: int, cpu: int, fabric: int
) -> None:
    if fabric:
        parts = slice_(
            *(device(f"f{n}") for n in range(fabric)), node=None, pool="fabric", name="fabric", all_nodes=True
        )
        snapshot = replace(snapshot, slices=(parts, *snapshot.slices))
    pod = waiting("new", size, cpu=cpu)
    found = count_fitting(snapshot, pod, place=TRIAL, maximum=9, explain=False)
    count = 0
    while count < 9:
        decision = TRIAL(snapshot, copy_pod(pod, count), explain=False)
        if isinstance(decision, NoPlace):
            break
        snapshot, count = put_pods(snapshot, [decision]), count + 1

    assert found.total == count
    assert (found.stopped is None) == (count == 9)


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=4),
    costs=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    maximum=st.integers(0, 2),
)
def test_the_nodes_that_are_bought_are_the_cheapest_of_all_choices(
    sizes: list[int], costs: tuple[int, int], maximum: int
) -> None:
    pods = [waiting(f"p{n}", size) for n, size in enumerate(sizes)]
    snapshot = cluster({}, *pods)
    offers = [
        NodeTemplate(node=node("big"), slices=(gpus("big", 3),), cost=costs[0], maximum=maximum),
        NodeTemplate(node=node("small"), slices=(gpus("small", 1),), cost=costs[1]),
    ]
    choices = [
        (counts[0] * costs[0] + counts[1] * costs[1])
        for counts in product(range(maximum + 1), range(len(pods) + 1))
        if all_placed(
            change_snapshot(snapshot, [AddNodes(template=t, count=c) for t, c in zip(offers, counts, strict=True)]),
            pods,
        )
    ]
    found = find_cheapest_nodes(snapshot, offers, place=TRIAL)

    if choices:
        assert (found.status, found.cost) == ("optimal", min(choices))
    else:
        assert found.hopeless or found.status == "impossible"


@given(
    families=st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=5),
    most=st.integers(0, 4),
)
def test_a_set_that_costs_too_much_is_not_looked_for(families: list[frozenset[int]], most: int) -> None:
    found = find_cheapest_set(
        range(7),
        is_enough=lambda chosen: any(family <= chosen for family in families),
        cost=lambda chosen: (len(chosen),),
        at_most=(most,),
    )

    assert (found is None) == (min(map(len, families)) > most)
