"""Short ways to ask for explanations in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from claimsmith.allocate.explain.case import ClauseBook
from claimsmith.allocate.explain.context import ALONE, ExplainContext
from claimsmith.allocate.explain.finding import Asked, NodeFinding, find_reasons
from claimsmith.allocate.explain.pending import ExplainLimits, explain_pending
from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.explain.wording import word_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.testing.builders import klass, snapshot
from tests.unit.allocate.solving import problem

Object = ResourceSlice | DeviceClass | ResourceClaim | DeviceTaintRule

__all__ = ["find", "find_in", "pieces", "tell", "why"]


def find(*objects: Object, features: Features | None = None) -> NodeFinding:
    """Return what speaks against the claims without allocation on the default node."""
    return find_in(problem(*objects, features=features))


def find_in(asked: AllocationProblem) -> NodeFinding:
    """Return what speaks against the claims of a problem."""
    cluster = PreparedCluster.from_problem(asked)
    return find_reasons(Asked(ClauseBook(cluster, asked.claims)), asked.node)


def pieces(*objects: Object, features: Features | None = None) -> dict[str, int]:
    """Return how many pieces of which kinds of things make up the set of reasons."""
    found: dict[str, int] = {}
    for relaxation, keep in find(*objects, features=features).kept.items():
        found[relaxation.part] = found.get(relaxation.part, 0) + keep
    return found


def tell(*objects: Object, features: Features | None = None) -> list[Reason]:
    """Return the reasons in words."""
    return list(word_reasons(find(*objects, features=features)))


def why(
    *objects: Node | ResourceSlice | DeviceClass | ResourceClaim,
    refused: Mapping[str, tuple[Reason, ...]] | None = None,
    limits: ExplainLimits | None = None,
    context: ExplainContext = ALONE,
) -> Explanation:
    """Return the explanation of the claims without allocation in a cluster."""
    classes: Iterable[DeviceClass] = () if any(isinstance(item, DeviceClass) for item in objects) else (klass(),)
    seen = snapshot(*objects, *classes)
    cluster = PreparedCluster.from_snapshot(seen, Features.all())
    wanted = [item for item in objects if isinstance(item, ResourceClaim) and item.allocation is None]
    return explain_pending(cluster, wanted, nodes=seen.nodes.values(), refused=refused, limits=limits, context=context)
