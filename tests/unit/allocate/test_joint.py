"""Batches and gangs decided together: what one by one misses, and what must hold for every answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from claimsmith.allocate import joint
from claimsmith.allocate.batch import Batch, Gang, JointDecision, JointLimits, Member
from claimsmith.allocate.cpsat.decide import solve_batch
from claimsmith.allocate.cpsat.layout import lay_out
from claimsmith.allocate.cpsat.ledger import BatchLedger
from claimsmith.allocate.cpsat.linear import LinearModel
from claimsmith.allocate.cpsat.model import build_placement
from claimsmith.allocate.cpsat.offers import Offer, find_offer
from claimsmith.allocate.cpsat.parts import find_parts
from claimsmith.allocate.cpsat.patterns import find_patterns
from claimsmith.allocate.cpsat.realise import Realiser
from claimsmith.allocate.cpsat.solver import Answer
from claimsmith.allocate.cpsat.terms import Level
from claimsmith.allocate.joint import allocate_jointly
from claimsmith.allocate.policy.objective import PACK, SPREAD, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.errors import FieldError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Pending, Refused
from claimsmith.model.node import Node
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
    gpu,
    match,
    node,
    on_nodes,
    request,
    slice_,
    sub,
    taint,
    toleration,
)
from tests.unit.allocate.jointly import check_jointly, list_devices
from tests.unit.allocate.solving import number_shares, problem

NUMA: Final = "resource.kubernetes.io/numaNode"
ALONE: Final = JointLimits(solver_effort=0.0)
"""Search decides alone."""


def kind(name: str) -> str:
    return f'device.attributes["gpu.example.test"].kind == "{name}"'


def prepare(*slices: ResourceSlice, held: Sequence[ResourceClaim] = ()) -> PreparedCluster:
    return PreparedCluster.from_problem(replace(problem(*slices, *held), claims=()))


def decide(
    cluster: PreparedCluster,
    batch: Batch,
    *,
    nodes: Sequence[Node] = (node(),),
    limits: JointLimits | None = None,
    policy: Policy = PACK,
) -> JointDecision:
    """Return the checked decision; the cluster must be as it was."""
    before = dict(cluster.uses)
    decision = allocate_jointly(cluster, batch, nodes=nodes, share_ids=number_shares(), limits=limits, policy=policy)
    if dict(cluster.uses) != before:
        raise AssertionError("the cluster holds something for the batch")
    check_jointly(cluster, batch, decision, nodes=nodes)
    return decision


def members(*claims: ResourceClaim, gang: str = "") -> tuple[Member, ...]:
    return tuple(Member(name=item.metadata.name, claims=(item,), gang=gang) for item in claims)


def starving() -> tuple[PreparedCluster, list[ResourceClaim]]:
    """A counter of 2, of which the first device takes all and two others half each; two claims want either."""
    slices = (
        slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 2}),)),
        slice_(
            device("whole", attributes={"kind": "whole"}, counters=[consumes("card", {"u": 2})]),
            device("half-1", attributes={"kind": "half"}, counters=[consumes("card", {"u": 1})]),
            device("half-2", attributes={"kind": "half"}, counters=[consumes("card", {"u": 1})]),
            name="devices",
            slice_count=2,
        ),
    )
    wish = alternatives("r", sub("whole", kind("whole")), sub("half", kind("half")))
    return prepare(*slices), [claim("a", wish), claim("b", wish)]


@pytest.mark.parametrize("limits", [None, ALONE])
def test_a_gang_that_greed_starves_is_placed(limits: JointLimits | None) -> None:
    cluster, wanted = starving()
    batch = Batch(members=members(*wanted, gang="g"), gangs=(Gang(name="g", min_count=2),))

    assert list_devices(decide(cluster, batch, limits=limits)) == {"a": ["half-1"], "b": ["half-2"]}


def test_pods_that_are_no_gang_are_placed_together_by_the_solver_alone() -> None:
    cluster, wanted = starving()
    batch = Batch(members=members(*wanted))
    alone, decision = decide(cluster, batch, limits=ALONE), decide(cluster, batch)

    assert alone.objective[:2] == (("placed", 1), ("rank", 0))
    assert decision.objective[:2] == (("placed", 2), ("rank", 2))
    assert (decision.status, decision.decided_by, decision.reason) == ("optimal", "cpsat", "")


def test_an_answer_of_search_that_is_proven_counts_as_the_solvers() -> None:
    decision = decide(prepare(slice_(gpu())), Batch(members=members(claim("a"))))

    assert decision.status == "optimal"
    assert decision.decided_by == "cpsat"
    assert decision.bound == decision.objective


def test_search_alone_opens_no_node_that_others_which_are_open_can_stand_in_for() -> None:
    sizes = {"a": ("80Gi", "40Gi"), "b": ("40Gi", "40Gi"), "c": ("24Gi", "24Gi")}
    slices = [
        slice_(
            *(device(f"{name}{n}", capacity={"memory": size}) for n, size in enumerate(found)),
            name=f"s-{name}",
            node=name,
            pool=name,
        )
        for name, found in sizes.items()
    ]
    batch = Batch(members=members(*map(claim, "pqrs"), gang="g"), gangs=(Gang(name="g", min_count=4),))
    decision = decide(prepare(*slices), batch, nodes=[node(name) for name in sizes], limits=ALONE)

    assert sorted(name for found in list_devices(decision).values() for name in found) == ["b0", "b1", "c0", "c1"]


def test_without_effort_search_decides_and_says_why() -> None:
    decision = decide(prepare(slice_(gpu())), Batch(members=members(claim("a"))), limits=ALONE)

    assert (decision.status, decision.decided_by, decision.bound) == ("searched", "search", ())
    assert decision.reason == "the limits leave the solver no effort"


def test_without_the_extra_search_decides_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "is_installed", lambda: False)
    decision = decide(prepare(slice_(gpu())), Batch(members=members(claim("a"))))

    assert decision.status == "searched"
    assert decision.reason == "the solver is not installed; install claimsmith[solver]"


def lie(linear: LinearModel, levels: Sequence[Level], *, start: Sequence[int], effort: float, seed: int) -> Answer:
    """A solver that gives everything to everybody."""
    return Answer(values=tuple(linear.upper), bounds=(), effort=0.0)


def test_an_answer_that_can_not_be_made_real_is_counted_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "solve_batch", partial(solve_batch, solve=lie))
    cluster, wanted = starving()
    decision = decide(cluster, Batch(members=members(*wanted)))

    assert (decision.fallbacks, decision.decided_by, decision.status) == (1, "search", "searched")
    assert decision.reason == "the solver's answer breaks the rows of its model"
    assert list_devices(decision) == {"a": ["whole"]}


def test_what_the_exact_search_does_not_find_is_not_made_real() -> None:
    cluster, wanted = starving()
    layout = lay_out(cluster, Batch(members=members(*wanted)), (node(),))
    parts = find_parts(layout, apart=False).parts
    patterns = find_patterns(layout, parts, traits=lambda record: record.device.name)
    offers = [offer for part in parts if isinstance(offer := find_offer(patterns, part, "node-a"), Offer)]
    model = build_placement(layout, offers)
    taken = [use for use in model.uses if use.kind.first.device.name == "whole"]
    values = model.linear.complete({variable: 2 for use in taken for variable in use.expression} | {0: 2})
    problem = Realiser(model, BatchLedger(layout), number_shares()).realise(values)

    assert problem.startswith("member b: node node-a does not give what the model chose: Pending")


def test_the_same_batch_has_the_same_answer_every_time() -> None:
    slices = [slice_(*(gpu(f"gpu-{place}") for place in range(4)), node=name, name=name) for name in ("n-1", "n-2")]
    batch = Batch(members=members(*(claim(f"c{number}", request(count=2)) for number in range(5))))
    nodes = (node("n-1"), node("n-2"))
    first, second = (decide(prepare(*slices), batch, nodes=nodes) for _ in range(2))

    assert first == second


def test_a_gang_that_can_not_reach_its_number_gets_nothing() -> None:
    wanted = [claim(f"c{number}") for number in range(3)]
    batch = Batch(members=members(*wanted, gang="g"), gangs=(Gang(name="g", min_count=3),))
    decision = decide(prepare(slice_(gpu("gpu-0"), gpu("gpu-1"))), batch)

    assert all(isinstance(found, Pending) for found in decision.decisions.values())
    assert (decision.objective[0], decision.status) == (("placed", 0), "optimal")


def test_a_gang_above_its_number_gets_what_there_is() -> None:
    wanted = [claim(f"c{number}") for number in range(3)]
    batch = Batch(members=members(*wanted, gang="g"), gangs=(Gang(name="g", min_count=2),))
    decision = decide(prepare(slice_(gpu("gpu-0"), gpu("gpu-1"))), batch)

    assert decision.objective[0] == ("placed", 2)


def test_higher_priority_is_worth_more_than_any_number_of_others() -> None:
    low = members(claim("a"), claim("b"))
    high = Member(name="c", claims=(claim("c", request(count=2)),), priority=1)
    decision = decide(prepare(slice_(gpu("gpu-0"), gpu("gpu-1"))), Batch(members=(*low, high)))

    assert list_devices(decision) == {"c": ["gpu-0", "gpu-1"]}
    assert decision.objective[:2] == (("placed at priority 1", 1), ("placed at priority 0", 0))


def test_room_on_nodes_is_shared_by_the_batch() -> None:
    slices = [slice_(gpu("gpu-0"), gpu("gpu-1"), node=name, name=name) for name in ("n-1", "n-2")]
    batch = Batch(
        members=tuple(replace(item, demand={"cpu": 6}) for item in members(claim("a"), claim("b"), claim("c"))),
        free={"n-1": {"cpu": 11}, "n-2": {"cpu": 12}},
    )
    decision = decide(prepare(*slices), batch, nodes=(node("n-1"), node("n-2")))
    nodes = sorted(found.node for found in decision.decisions.values() if isinstance(found, Allocation))

    assert nodes == ["n-1", "n-2", "n-2"]


def test_a_node_without_known_room_has_none() -> None:
    batch = Batch(members=(Member(name="a", claims=(claim("a"),), demand={"cpu": 1}),), free={})

    assert decide(prepare(slice_(gpu())), batch).objective[0] == ("placed", 0)


def test_members_without_claims_take_room_alone() -> None:
    batch = Batch(
        members=(Member(name="a", demand={"cpu": 2}), Member(name="b", demand={"cpu": 2})),
        free={"node-a": {"cpu": 3}},
    )
    decision = decide(prepare(), batch)

    assert (decision.objective[0], decision.fallbacks) == (("placed", 1), 0)


def test_counters_are_never_overdrawn() -> None:
    slices = (
        slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 5}),)),
        slice_(
            *(device(f"part-{n}", counters=[consumes("card", {"u": 2})]) for n in range(4)), name="d", slice_count=2
        ),
    )
    decision = decide(prepare(*slices), Batch(members=members(*(claim(f"c{n}") for n in range(4)))))

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 2), 0, "optimal")


def test_shares_take_no_more_than_a_device_has() -> None:
    nics = [
        device(f"nic-{n}", capacity={"bandwidth": capacity(10, default=1)}, allow_multiple_allocations=True)
        for n in range(2)
    ]
    wanted = [claim(f"c{n}", request(capacity={"bandwidth": amount})) for n, amount in enumerate([4, 4, 6, 6, 1])]
    decision = decide(prepare(slice_(*nics)), Batch(members=members(*wanted)))

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 4), 0, "optimal")


def test_one_request_never_has_two_shares_of_a_device() -> None:
    nics = [
        device(f"nic-{size}", capacity={"bandwidth": capacity(size, default=5)}, allow_multiple_allocations=True)
        for size in (5, 20)
    ]
    wanted = [claim(f"c{n}", request(count=2)) for n in range(3)]
    policy = Policy(name="placed", terms=("rank",))
    decision = decide(prepare(slice_(*nics)), Batch(members=members(*wanted)), policy=policy)

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 1), 0, "optimal")


def test_devices_of_a_claim_match() -> None:
    devices = [gpu(f"gpu-{n}", attributes={NUMA: min(n, 2)}) for n in range(4)]
    wanted = [claim(f"c{n}", request(count=2), constraints=[match(NUMA)]) for n in range(2)]
    decision = decide(prepare(slice_(*devices)), Batch(members=members(*wanted)))

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 1), 0, "optimal")


def test_devices_of_a_claim_differ() -> None:
    devices = [gpu(f"gpu-{n}", attributes={NUMA: min(n, 2)}) for n in range(5)]
    wanted = [claim(f"c{n}", request(count=2), constraints=[distinct(NUMA)]) for n in range(3)]
    decision = decide(prepare(slice_(*devices)), Batch(members=members(*wanted)))

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 2), 0, "optimal")


def test_equal_members_share_the_values_that_match() -> None:
    devices = [gpu(f"gpu-{n}", attributes={NUMA: n // 3}) for n in range(6)]
    pair = [request("x"), request("y")]
    wanted = [claim(f"c{n}", *pair, constraints=[match(NUMA)]) for n in range(3)]
    policy = Policy(name="placed", terms=("rank",))
    decision = decide(prepare(slice_(*devices)), Batch(members=members(*wanted)), policy=policy)

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 2), 0, "optimal")


def test_all_devices_are_had_together_or_not_at_all() -> None:
    everything = claim("all", request(allocation_mode="All"))
    cluster = prepare(slice_(gpu("gpu-0"), gpu("gpu-1")))
    decision = decide(cluster, Batch(members=members(everything, claim("one"))))

    assert (decision.objective[0], decision.fallbacks, decision.status) == (("placed", 1), 0, "optimal")


def test_untolerated_taints_keep_members_away() -> None:
    tainted = gpu("gpu-0", taints=[taint()])
    patient = claim("patient", request(tolerations=(toleration(),)))
    decision = decide(prepare(slice_(tainted)), Batch(members=members(claim("plain"), patient)))

    assert list_devices(decision) == {"patient": ["gpu-0"]}


def test_administrators_see_devices_that_others_have() -> None:
    look = claim("look", request(admin_access=True, count=2))
    cluster = prepare(slice_(gpu("gpu-0"), gpu("gpu-1")))
    decision = decide(cluster, Batch(members=members(claim("a"), look, claim("b"))))

    assert decision.objective[0] == ("placed", 3)
    assert decision.unmodelled == ("devices that administrators look at beside those of the other members",)


def test_a_shared_claim_is_allocated_once_and_binds_its_members() -> None:
    slices = [slice_(gpu(f"{name}-gpu"), gpu(f"{name}-more"), node=name, name=name) for name in ("n-1", "n-2")]
    shared = claim("shared")
    batch = Batch(
        members=(
            Member(name="a", claims=(shared,)),
            Member(name="b", claims=(shared, claim("own"))),
            Member(name="c", claims=(shared,), nodes=frozenset({"n-2"})),
        )
    )
    decision = decide(prepare(*slices), batch, nodes=(node("n-1"), node("n-2")))
    found = [item for item in decision.decisions.values() if isinstance(item, Allocation)]

    assert [item.node for item in found] == ["n-2", "n-2", "n-2"]
    assert len({item.results[0] for item in found}) == 1
    assert (decision.status, decision.fallbacks) == ("optimal", 0)


def test_members_of_a_shared_claim_follow_it_where_it_is() -> None:
    slices = [slice_(gpu(f"{name}-gpu"), gpu(f"{name}-more"), node=name, name=name) for name in ("n-1", "n-2")]
    shared = claim("shared")
    batch = Batch(members=tuple(Member(name=name, claims=(shared, claim(name))) for name in ("a", "b")))
    decision = decide(prepare(*slices), batch, nodes=(node("n-1"), node("n-2")))

    assert (decision.objective[0], decision.status, decision.fallbacks) == (("placed", 1), "optimal", 0)


def test_a_shared_claim_of_a_fabric_binds_to_the_nodes_that_reach_it() -> None:
    fabric = slice_(device("switch"), name="fabric", node=None, pool="fabric", node_selector=on_nodes(zone="east"))
    local = [slice_(gpu(f"{name}-gpu"), node=name, name=name) for name in ("n-1", "n-2", "n-3")]
    nodes = [node("n-1", labels={"zone": "east"}), node("n-2", labels={"zone": "east"}), node("n-3")]
    shared = claim(
        "shared",
        request("switch", 'device.driver == "gpu.example.test" && !has(device.attributes["gpu.example.test"].model)'),
    )
    own = [claim(f"own-{n}", request("gpu", 'has(device.attributes["gpu.example.test"].model)')) for n in range(3)]
    batch = Batch(members=tuple(Member(name=f"m{n}", claims=(shared, item)) for n, item in enumerate(own)))
    decision = decide(prepare(fabric, *local), batch, nodes=nodes)
    homes = sorted(found.node for found in decision.decisions.values() if isinstance(found, Allocation))

    assert homes == ["n-1", "n-2"]
    assert (decision.status, decision.fallbacks) == ("optimal", 0)


def test_devices_that_several_nodes_reach_are_taken_once() -> None:
    fabric = slice_(device("f-0"), device("f-1"), name="fabric", node=None, pool="fabric", all_nodes=True)
    batch = Batch(members=members(*(claim(f"c{n}") for n in range(3))))
    decision = decide(prepare(fabric), batch, nodes=(node("n-1"), node("n-2")))

    assert (decision.objective[0], decision.fallbacks) == (("placed", 2), 0)


def test_an_allocated_claim_keeps_its_devices_and_binds_its_member() -> None:
    slices = [slice_(gpu(f"{name}-gpu"), gpu(f"{name}-more"), node=name, name=name) for name in ("n-1", "n-2")]
    had = allocated(claim("had"), device_id("n-2-gpu", pool="n-2"), node="n-2")
    batch = Batch(members=(Member(name="a", claims=(had, claim("own"))),))
    decision = decide(prepare(*slices, held=[had]), batch, nodes=(node("n-1"), node("n-2")))

    assert list_devices(decision) == {"a": ["n-2-gpu", "n-2-more"]}


def test_a_member_that_no_search_can_serve_is_refused_and_the_others_are_decided() -> None:
    wrong = claim("wrong", request(klass="nothing"))
    decision = decide(prepare(slice_(gpu())), Batch(members=members(wrong, claim("right"))))

    assert isinstance(decision.decisions["wrong"], Refused)
    assert list_devices(decision) == {"right": ["gpu-0"]}
    assert decision.unmodelled == ("member wrong: claim default/wrong, request r: device class nothing does not exist",)


def test_a_small_wish_takes_the_small_device() -> None:
    big, small = gpu("big", memory="80Gi"), gpu("small", memory="24Gi")
    decision = decide(prepare(slice_(big, small)), Batch(members=members(claim("a"))))

    assert list_devices(decision) == {"a": ["small"]}


def big_or_small() -> tuple[PreparedCluster, Batch]:
    """A claim that prefers the big device, which is the dearer one."""
    cluster = prepare(slice_(gpu("big", memory="80Gi", model="big"), gpu("small", memory="24Gi", model="small")))
    names = ("big", "small")
    choices = (sub(name, f'device.attributes["gpu.example.test"].model == "{name}"') for name in names)
    return cluster, Batch(members=members(claim("a", alternatives("r", *choices))))


def test_later_terms_never_worsen_earlier_ones() -> None:
    decision = decide(*big_or_small())

    assert decision.objective[:3] == (("placed", 1), ("rank", 0), ("waste", 1000))
    assert decision.status == "optimal"


def test_what_there_was_no_effort_to_prove_stays_open() -> None:
    decision = decide(*big_or_small(), limits=JointLimits(solver_effort=1e-9))

    assert decision.status == "feasible"
    assert decision.bound == (("placed", 1), ("rank", 0), ("waste", 300))


def test_packing_fills_a_node_that_is_in_use() -> None:
    slices = [slice_(*(gpu(f"{name}-{n}") for n in range(3)), node=name, name=name) for name in ("n-1", "n-2")]
    held = [allocated(claim("held"), device_id("n-2-0", pool="n-2"), node="n-2")]
    batch = Batch(members=members(claim("a"), claim("b")))
    decision = decide(prepare(*slices, held=held), batch, nodes=(node("n-1"), node("n-2")))

    assert list_devices(decision) == {"a": ["n-2-1"], "b": ["n-2-2"]}


def test_spreading_uses_the_nodes_evenly() -> None:
    slices = [slice_(*(gpu(f"{name}-{n}") for n in range(4)), node=name, name=name) for name in ("n-1", "n-2")]
    batch = Batch(members=members(*(claim(f"c{n}") for n in range(4))))
    decision = decide(prepare(*slices), batch, nodes=(node("n-1"), node("n-2")), policy=SPREAD)

    assert dict(decision.objective)["spread"] == 8


def test_a_gang_is_placed_where_its_nodes_agree_in_a_label() -> None:
    racks = {"n-1": "east", "n-2": "west", "n-3": "west"}
    slices = [slice_(gpu(f"{name}-gpu"), node=name, name=name) for name in racks]
    batch = Batch(
        members=members(claim("a"), claim("b"), gang="g"), gangs=(Gang(name="g", min_count=2, close_by="rack"),)
    )
    decision = decide(prepare(*slices), batch, nodes=[node(name, labels={"rack": r}) for name, r in racks.items()])
    nodes = {found.node for found in decision.decisions.values() if isinstance(found, Allocation)}

    assert nodes == {"n-2", "n-3"}


def test_members_with_one_name_are_refused() -> None:
    with pytest.raises(FieldError, match=r"members named 'a': found 2, allowed 1"):
        Batch(members=(Member(name="a"), Member(name="a")))


def test_a_member_of_an_unknown_gang_is_refused() -> None:
    with pytest.raises(FieldError, match=r"member 'a': gang: found 'g', allowed no gang"):
        Batch(members=(Member(name="a", gang="g"),))


def test_a_gang_of_nobody_is_refused() -> None:
    with pytest.raises(FieldError, match=r"gang 'g': minCount: found 0, allowed >= 1"):
        Gang(name="g", min_count=0)
