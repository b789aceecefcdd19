"""How many more pods of a kind fit, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.allocate.quotas import QuotaLimit, find_quota_limit
from claimsmith.allocate.whatif.changes import copy_pod
from claimsmith.allocate.whatif.neighbourhood import Neighbourhoods, finds_every_node_alike
from claimsmith.allocate.whatif.trial import NoPlace, Placement, PlacePod, put_pod, put_pods
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["COPIES_MAX", "FitCount", "count_fitting"]

COPIES_MAX = 100_000
"""Most copies that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitCount:
    """How many copies of a pod fit besides all that is there.

    Args:
        by_node: Copies by node, without nodes that take none.
        stopped: Why the next one does not fit; None when counting ended at the maximum.
        quota: The quota that ends it earlier; None when no quota does.
    """

    by_node: Mapping[str, int] = field(default_factory=dict)
    stopped: NoPlace | None = None
    quota: QuotaLimit | None = None

    @property
    def on_nodes(self) -> int:
        """How many there is room for, quotas left aside."""
        return sum(self.by_node.values())

    @property
    def total(self) -> int:
        """How many would be placed."""
        return self.on_nodes if self.quota is None else min(self.on_nodes, self.quota.copies)

    @property
    def groups(self) -> Mapping[int, tuple[str, ...]]:
        """Nodes by how many copies each takes, the largest number first."""
        counts = sorted(set(self.by_node.values()), reverse=True)
        return {count: tuple(name for name, n in self.by_node.items() if n == count) for count in counts}


def count_fitting(
    snapshot: ClusterSnapshot, pod: Pod, *, place: PlacePod, maximum: int = COPIES_MAX, explain: bool = True
) -> FitCount:
    """Return how many copies of a pod fit, each placed as the scheduler would after the ones before.

    Nodes that share no pool are counted apart, which gives the same number and costs less.

    Args:
        pod: The pod; it is not placed itself.
        maximum: Most copies to count; >= 0.
        explain: Say why the next one does not fit.
    """
    placed: list[Placement] = []
    for part in _split(snapshot, pod):
        while len(placed) < maximum:
            found = place(part, copy_pod(pod, len(placed)), explain=False)
            if isinstance(found, NoPlace):
                break
            part = put_pod(part, found)
            placed.append(found)
    stopped = None
    if len(placed) < maximum:
        last = place(put_pods(snapshot, placed), copy_pod(pod, len(placed)), explain=explain)
        stopped = last if isinstance(last, NoPlace) else None
    counts = Counter(item.node for item in placed)
    ordered = {name: counts[name] for name in snapshot.nodes if name in counts}
    return FitCount(by_node=ordered, stopped=stopped, quota=find_quota_limit(snapshot, pod))


def _split(snapshot: ClusterSnapshot, pod: Pod) -> list[ClusterSnapshot]:
    """Return parts of the cluster that can be filled one after another."""
    if not finds_every_node_alike(pod):
        return [snapshot]
    neighbourhoods = Neighbourhoods(snapshot)
    groups = neighbourhoods.split()
    return [neighbourhoods.cut(names) for names in groups] if len(groups) > 1 else [snapshot]
