"""The cheapest nodes to add so that everything that waits can run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from claimsmith.allocate.whatif.changes import AddNodes, NodeTemplate, change_snapshot
from claimsmith.allocate.whatif.draining import find_waiting
from claimsmith.allocate.whatif.fitting import count_fitting
from claimsmith.allocate.whatif.trial import NoPlace, Placement, PlacePod, PodDecision, place_all
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["NodePurchase", "find_cheapest_nodes"]

PLACEMENTS_MAX = 20_000
"""Most pods that are placed in search of the cheapest nodes, all trials together."""
_STATES_MAX = 200_000

Counts = tuple[int, ...]
"""How many nodes of each template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePurchase:
    """Nodes to add.

    Args:
        counts: How many of each template, by name; without templates of which none is needed.
        cost: What they cost together.
        status: `needless`: everything runs as it is; `optimal`: no cheaper choice lets the queue run; `feasible`: a
            choice that does, and at least `bound` must be spent; `impossible`: not even all nodes that can be had.
        bound: No choice is cheaper than this.
        decisions: What becomes of the queue with these nodes.
        hopeless: Waiting pods that no template helps; they are left out of the question.
        trials: How many choices were tried on the whole queue.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    cost: float = 0.0
    status: Literal["needless", "optimal", "feasible", "impossible"]
    bound: float = 0.0
    decisions: tuple[PodDecision, ...] = ()
    hopeless: tuple[NoPlace, ...] = ()
    trials: int = 0


def find_cheapest_nodes(
    snapshot: ClusterSnapshot,
    templates: Sequence[NodeTemplate],
    *,
    place: PlacePod,
    placements_max: int = PLACEMENTS_MAX,
) -> NodePurchase:
    """Return the cheapest choice of nodes with which all waiting pods run, decided one by one as the scheduler does.

    Choices are tried from the cheapest on, without those that can't do for one kind of pod alone. When that takes too
    long, nodes are added one by one, then taken away and exchanged again; the bound says how far that may be off.

    Args:
        templates: Nodes that can be had.
        placements_max: Most pods to place while choices are tried from the cheapest on.
    """
    queue = find_waiting(snapshot)
    after, decisions = place_all(snapshot, queue, place=place, explain=False)
    pending = [item.pod for item in decisions if isinstance(item, NoPlace)]
    if not pending:
        return NodePurchase(status="needless", decisions=decisions)
    hopeless = _find_hopeless(after, pending, templates, place=place)
    lost = {item.pod.ref for item in hopeless}
    search = _Search(
        snapshot=snapshot,
        queue=tuple(pod for pod in queue if pod.ref not in lost),
        templates=tuple(templates),
        place=place,
        budget=placements_max,
    )
    return search.run(hopeless)


def _find_hopeless(
    snapshot: ClusterSnapshot, pods: Iterable[Pod], templates: Sequence[NodeTemplate], *, place: PlacePod
) -> tuple[NoPlace, ...]:
    """Return the pods that fit on no node that can be had, with the reasons for the whole cluster and one of each."""
    one_each = [AddNodes(template=template) for template in templates if template.maximum != 0]
    larger = change_snapshot(snapshot, one_each)
    decisions = [place(larger, pod) for pod in pods]
    return tuple(item for item in decisions if isinstance(item, NoPlace))


@dataclass(slots=True, kw_only=True)
class _Search:
    """The search for the cheapest choice.

    Args:
        budget: How many pods may still be placed.
    """

    snapshot: ClusterSnapshot
    queue: tuple[Pod, ...]
    templates: tuple[NodeTemplate, ...]
    place: PlacePod
    budget: int
    trials: int = 0
    _covers: tuple[tuple[int, Counts], ...] = ()
    _known: dict[Counts, tuple[PodDecision, ...]] = field(default_factory=dict)

    def run(self, hopeless: tuple[NoPlace, ...]) -> NodePurchase:
        most = tuple(self._find_maximum(template) for template in self.templates)
        if not self._runs(most):
            return self._buy(most, status="impossible", hopeless=hopeless, bound=0.0)
        self._covers = self._find_covers()
        found, bound = self._try_in_order(most)
        if found is not None:
            return self._buy(found, status="optimal", hopeless=hopeless, bound=self._cost(found))
        chosen = self._improve(self._add_greedily(most))
        status: Literal["optimal", "feasible"] = "optimal" if self._cost(chosen) <= bound else "feasible"
        return self._buy(chosen, status=status, hopeless=hopeless, bound=bound)

    def _buy(
        self,
        counts: Counts,
        *,
        status: Literal["optimal", "feasible", "impossible"],
        hopeless: tuple[NoPlace, ...],
        bound: float,
    ) -> NodePurchase:
        named = {t.name: count for t, count in zip(self.templates, counts, strict=True) if count}
        decisions = self._decide(counts)
        if status == "impossible":
            _, decisions = place_all(self._with(counts), self.queue, place=self.place)
        if not named and status == "optimal":
            return NodePurchase(status="needless", decisions=decisions, hopeless=hopeless, trials=self.trials)
        return NodePurchase(
            counts=named,
            cost=self._cost(counts),
            status=status,
            bound=bound,
            decisions=decisions,
            hopeless=hopeless,
            trials=self.trials,
        )

    def _find_maximum(self, template: NodeTemplate) -> int:
        """Return how many nodes of a template can make sense: one for each pod that waits."""
        return len(self.queue) if template.maximum is None else min(template.maximum, len(self.queue))

    def _cost(self, counts: Counts) -> float:
        return sum(template.cost * count for template, count in zip(self.templates, counts, strict=True))

    def _with(self, counts: Counts) -> ClusterSnapshot:
        added = [AddNodes(template=t, count=count) for t, count in zip(self.templates, counts, strict=True) if count]
        return change_snapshot(self.snapshot, added)

    def _decide(self, counts: Counts) -> tuple[PodDecision, ...]:
        known = self._known.get(counts)
        if known is None:
            self.trials += 1
            self.budget -= len(self.queue)
            _, known = place_all(self._with(counts), self.queue, place=self.place, explain=False)
            self._known[counts] = known
        return known

    def _count_placed(self, counts: Counts) -> int:
        return sum(isinstance(item, Placement) for item in self._decide(counts))

    def _runs(self, counts: Counts) -> bool:
        return self._count_placed(counts) == len(self.queue)

    # --- from the cheapest on -----------------------------------------------------------------------------------------

    def _find_covers(self) -> tuple[tuple[int, Counts], ...]:
        """Return for each kind of pod how many need new nodes, and how many a new node of each template takes.

        Other pods are left aside, so that a choice that can't do for one kind alone need not be tried.
        """
        kinds: dict[tuple[object, ...], list[Pod]] = {}
        for pod in self.queue:
            kinds.setdefault(_kind_of(pod), []).append(pod)
        empty = _without_nodes(self.snapshot)
        covers = []
        for key, pods in kinds.items():
            if key == _ALONE:
                continue
            wanted, pod = len(pods), pods[0]
            here = count_fitting(self.snapshot, pod, place=self.place, maximum=wanted, explain=False).on_nodes
            takes = tuple(self._count_on(empty, template, pod, wanted) for template in self.templates)
            covers.append((wanted - here, takes))
        return tuple(cover for cover in covers if cover[0] > 0)

    def _count_on(self, empty: ClusterSnapshot, template: NodeTemplate, pod: Pod, maximum: int) -> int:
        node = change_snapshot(empty, [AddNodes(template=template)])
        return count_fitting(node, pod, place=self.place, maximum=maximum, explain=False).on_nodes

    def _may_run(self, counts: Counts) -> bool:
        return all(
            sum(count * take for count, take in zip(counts, takes, strict=True)) >= wanted
            for wanted, takes in self._covers
        )

    def _try_in_order(self, most: Counts) -> tuple[Counts | None, float]:
        """Return the first choice that does, by cost; or None and a cost below which there is none."""
        start = tuple(0 for _ in most)
        heap: list[tuple[float, Counts, int]] = [(0.0, start, 0)]
        for _ in range(_STATES_MAX):
            if not heap:
                break
            cost, counts, first = heapq.heappop(heap)
            if self._may_run(counts):
                if self.budget <= 0 and counts not in self._known:
                    return None, cost
                if self._runs(counts):
                    return counts, cost
            for place in range(first, len(most)):
                if counts[place] < most[place]:
                    more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                    heapq.heappush(heap, (self._cost(more), more, place))
        return None, heap[0][0] if heap else 0.0

    # --- when that takes too long -------------------------------------------------------------------------------------

    def _add_greedily(self, most: Counts) -> Counts:
        """Add the node that places most pods for its cost, again and again; it ends, since all nodes together do."""
        counts = tuple(0 for _ in most)
        while not self._runs(counts):
            larger = [self._changed(counts, place, +1) for place in range(len(most)) if counts[place] < most[place]]
            counts = max(larger, key=lambda item: self._rate(counts, item))
        return counts

    def _rate(self, before: Counts, after: Counts) -> tuple[float, float]:
        gained = self._count_placed(after) - self._count_placed(before)
        cost = self._cost(after) - self._cost(before)
        return gained / cost, -cost

    def _improve(self, counts: Counts) -> Counts:
        """Take away what is not needed, and exchange a node for a cheaper one, while that helps."""
        while True:
            better = [item for item in self._neighbours(counts) if self._cost(item) < self._cost(counts)]
            better.sort(key=self._cost)
            found = next((item for item in better if self._may_run(item) and self._runs(item)), None)
            if found is None:
                return counts
            counts = found

    def _neighbours(self, counts: Counts) -> Iterable[Counts]:
        places = range(len(counts))
        for place in places:
            if not counts[place]:
                continue
            fewer = self._changed(counts, place, -1)
            yield fewer
            for other in places:
                maximum = self._find_maximum(self.templates[other])
                if other != place and fewer[other] < maximum:
                    yield self._changed(fewer, other, +1)

    def _changed(self, counts: Counts, place: int, by: int) -> Counts:
        return (*counts[:place], counts[place] + by, *counts[place + 1 :])


_ALONE = ("alone",)


def _kind_of(pod: Pod) -> tuple[object, ...]:
    """Return what pods must have in common to be counted together; pods that share a claim are not counted at all."""
    if any(entry.claim_name for entry in pod.claims):
        return _ALONE
    return (
        pod.metadata.namespace,
        tuple((entry.name, entry.template_name) for entry in pod.claims),
        repr((pod.containers, pod.init_containers, pod.overhead, pod.requests, pod.limits)),
        repr((sorted(pod.node_selector.items()), pod.node_affinity, pod.tolerations)),
    )


def _without_nodes(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the cluster with nothing that could take a pod."""
    slices = tuple(item for item in snapshot.slices if not item.node_name)
    return replace(snapshot, nodes={}, slices=slices, pods={})
