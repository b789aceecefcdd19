"""Whatever a policy prefers, a pod that fits on some node gets devices that break no rule."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.policy.objective import POLICIES
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.features import Features
from claimsmith.model.snapshot import ClusterSnapshot
from tests.property.test_group_properties import NODES, clusters, hold, wanted_claims


@settings(max_examples=25)
@given(
    before=clusters(),
    others=st.lists(wanted_claims(), max_size=2),
    taken=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=4),
    claims=wanted_claims(),
    policy=st.sampled_from(sorted(POLICIES)),
    features=st.sampled_from([Features(), Features.all()]),
)
def test_a_pod_that_fits_is_placed_by_every_policy_and_one_that_does_not_is_not(
    before: ClusterSnapshot,
    others: list[tuple[ResourceClaim, ...]],
    taken: list[tuple[int, int]],
    claims: tuple[ResourceClaim, ...],
    policy: str,
    features: Features,
) -> None:
    cluster = PreparedCluster.from_snapshot(before, features)
    placer = Placer(cluster, POLICIES[policy])
    for pod in others:
        placer.observe(pod)
        placer.place(pod, nodes=NODES, share_ids=lambda: "s")
    held = hold_some(before, taken)
    for claim in held:
        cluster.hold(claim)

    unique = count()
    decision = placer.place(claims, nodes=NODES, share_ids=lambda: f"share-{next(unique)}")

    answers = allocate_on_nodes(cluster, claims, nodes=NODES, share_ids=lambda: f"share-{next(unique)}")
    assert isinstance(decision, Allocation) == any(isinstance(answer, Allocation) for answer in answers)
    if isinstance(decision, Allocation):
        case = VerifyCase(
            node=before.nodes[decision.node],
            claims=claims,
            slices=before.slices,
            classes=before.classes,
            allocated=tuple(held),
            features=features,
        )
        assert verify_allocation(case, decision.results) == ()


def hold_some(before: ClusterSnapshot, taken: list[tuple[int, int]]) -> list[ResourceClaim]:
    """Claims that hold some of the devices, each once."""
    held: dict[object, ResourceClaim] = {}
    for place, number in taken:
        found = before.slices[place % len(before.slices)]
        if found.devices:
            claim = hold(found, found.devices[number % len(found.devices)])
            held[claim.ref] = claim
    return list(held.values())
