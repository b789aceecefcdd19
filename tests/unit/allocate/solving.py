"""Short ways to ask the search in tests: problems from builders, answers as lists of device names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem, merge_taint_rules
from claimsmith.allocate.search.decide import allocate, allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.testing.builders import klass, node

ALL_GATES = Features.all()


def problem(
    *objects: ResourceSlice | DeviceClass | ResourceClaim | DeviceTaintRule,
    features: Features | None = None,
    on: Node | None = None,
    history: Iterable[ResourceSlice] = (),
) -> AllocationProblem:
    """Return the problem of allocating the claims that have no allocation; the others hold devices."""
    claims = [item for item in objects if isinstance(item, ResourceClaim)]
    classes = [item for item in objects if isinstance(item, DeviceClass)] or [klass()]
    rules = [item for item in objects if isinstance(item, DeviceTaintRule)]
    slices = tuple(item for item in objects if isinstance(item, ResourceSlice))
    return AllocationProblem(
        node=on or node(),
        claims=tuple(claim for claim in claims if claim.allocation is None),
        slices=merge_taint_rules(slices, rules),
        classes={item.name: item for item in classes},
        allocated=tuple(claim for claim in claims if claim.allocation is not None),
        features=features or ALL_GATES,
        history=tuple(history),
    )


def number_shares() -> Callable[[], str]:
    """Return a source of uids that are all different, and the same in every run."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


def solve(asked: AllocationProblem, *, like_upstream: bool = False, budget_steps: int | None = 50_000) -> Decision:
    """Return the decision; an allocation is checked by the independent checker first."""
    deviations = LIKE_UPSTREAM if like_upstream else OURS
    decision = allocate(asked, share_ids=number_shares(), budget_steps=budget_steps, deviations=deviations)
    check(asked, decision, deviations=deviations)
    return decision


def solve_impatiently(asked: AllocationProblem) -> Decision:
    """Return the decision of a search that counts ahead from its first failure on, checked like any other."""
    decisions = allocate_on_nodes(
        PreparedCluster.from_problem(asked),
        asked.claims,
        nodes=(asked.node,),
        share_ids=number_shares(),
        limits=SearchLimits(patience=0),
    )
    decision = next(decisions)
    check(asked, decision)
    return decision


def check(asked: AllocationProblem, decision: Decision, *, deviations: frozenset[Deviation] = OURS) -> None:
    """Let the independent checker look at an allocation, in the mode in which it was asked for.

    Raises:
        AssertionError: The allocation breaks a rule.
    """
    if isinstance(decision, Allocation):
        case = VerifyCase(
            node=asked.node,
            claims=asked.claims,
            slices=asked.slices,
            classes=asked.classes,
            allocated=asked.allocated,
            features=asked.features,
            deviations=deviations,
            history=asked.history,
        )
        broken = verify_allocation(case, decision.results)
        if broken:
            raise AssertionError("; ".join(map(str, broken)))


def devices(decision: Decision) -> list[list[str]]:
    """Return the names of the devices that each claim got.

    Raises:
        AssertionError: The claims got no devices.
    """
    if not isinstance(decision, Allocation):
        raise AssertionError(f"found {decision}, expected an allocation")
    return [[result.device for result in allocation.results] for allocation in decision.results]


def reasons(decision: Decision) -> list[str]:
    """Return the reasons why the claims are pending.

    Raises:
        AssertionError: The claims are not pending.
    """
    if not isinstance(decision, Pending):
        raise AssertionError(f"found {decision}, expected that the claims don't fit")
    return [reason.text for reason in decision.reasons]


def ask(
    *objects: ResourceSlice | DeviceClass | ResourceClaim | DeviceTaintRule, features: Features | None = None
) -> Decision:
    """Return the decision about objects on the default node."""
    return solve(problem(*objects, features=features))


def by_name(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    """Return classes by name."""
    return {item.name: item for item in classes}
