"""Decisions on manifests and snapshots, without any cluster: the scheduler's own, one pod or gang after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from claimsmith.allocate.explain.context import ExplainContext
from claimsmith.allocate.explain.pending import explain_pending
from claimsmith.allocate.explain.quota import add_quotas
from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.api.manifests import Manifest
from claimsmith.api.snapshotfile import iter_objects
from claimsmith.api.workload_pods import expand_workloads
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.claim_origins import find_origins
from claimsmith.daemons.gang_trial import GangTrial
from claimsmith.daemons.made_claims import name_special_claim
from claimsmith.daemons.offline_claims import ClaimMaker, MadeClaims
from claimsmith.daemons.offline_decision import OfflineDecision, tell_allocated, tell_pending, tell_unplaced
from claimsmith.daemons.offline_objects import load_objects, see_objects
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.daemons.scheduler_gang import GangDecider, GangPlaced
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.daemons.scheduler_reasons import IN_FULL, IN_SHORT
from claimsmith.daemons.sorted_manifests import sort_manifests
from claimsmith.errors import InputError
from claimsmith.model.claim import (
    ResourceClaim,
)
from claimsmith.model.decision import Allocation, Refused
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.podgroup import PodGroupRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.claims import make_share_id
from claimsmith.schedule.gangs import Gang, GangDirectory, find_group_ref
from claimsmith.schedule.groupclaims import reserve_claim

__all__ = ["OfflineCluster"]


class OfflineCluster:
    """A cluster that exists only in manifests, or in a snapshot.

    Args:
        manifests: Its objects, and settings of simulated devices. Workloads stand for the pods that they make.
        base: A cluster that the manifests are put on: of two objects with one name, that of the manifests counts.
        node: Name of the only node to look at; empty for all.
        like_upstream: Choose exactly as upstream, also where it is wrong or aborts needlessly.
        strict: Refuse fields that a kind does not have instead of leaving them out.

    Raises:
        InputError: A manifest can't be used, or the node is not in the manifests.
    """

    def __init__(
        self,
        manifests: Iterable[Manifest] = (),
        *,
        base: ClusterSnapshot | None = None,
        node: str = "",
        like_upstream: bool = False,
        strict: bool = False,
    ) -> None:
        known = () if base is None else {(ref.namespace, ref.name) for ref in base.pods}
        found = sort_manifests(expand_workloads(manifests, known=known), strict=strict)
        objects = load_objects(found, base=() if base is None else tuple(iter_objects(base)), node=node)
        self.left_out: tuple[str, ...] = objects.left_out
        """One sentence for each manifest of a kind that claimsmith does not know, and for each field of that sort."""
        self.out_of_reach: tuple[str, ...] = objects.out_of_reach
        """Those sentences of them that tell of slices whose node is not among the nodes that are given."""
        self._cache = ClusterCache()
        self._cluster = PreparedCluster(deviations=LIKE_UPSTREAM if like_upstream else OURS)
        self._decider = Decider(self._cache, self._cluster)
        self._deviations = LIKE_UPSTREAM if like_upstream else OURS
        joint = None if like_upstream else JointDecider(self._cache, self._cluster, self._decider)
        self._gangs = GangDecider(self._cache, self._decider, joint=joint)
        self._maker = ClaimMaker(self._cache)
        self._directory = GangDirectory(self._cache.groups, waits=lambda _: True)
        self._cache.subscribe_pods(self._directory.see_pod)
        self._pods = see_objects(self._cache, objects)
        self._placed: set[PodRef] = set()
        self._allocated: dict[ClaimRef, str] = {}

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster with everything that was decided so far."""
        return self._cache.snapshot()

    def decide(self, target: str = "") -> Iterator[OfflineDecision]:
        """Decide for all waiting pods by priority, then for claims that no pod uses; each decision counts for the next.

        The pods of a gang are decided together, when the first of them has its turn.

        Args:
            target: Yield only this one, such as `pod/train-0` or `claim/default/gpu`, also when it was decided before;
                what waits before it is decided all the same. Empty: all that wait.

        Raises:
            InputError: There is no such pod or claim.
        """
        if not target:
            yield from self._decide_all()
            return
        names = {target, target.replace("/", "/default/", 1)}
        found = next((decision for decision in self._decide_all() if decision.target in names), None)
        yield found or self._find_other(target, names)

    def explain(self, target: str) -> OfflineDecision:
        """Return the decision for one pod, claim or pod group, with what would help if it has to wait.

        Args:
            target: `pod/NAME`, `claim/NAME` or `podgroup/NAME`, each also with a namespace before the name. What waits
                before it is decided all the same.

        Raises:
            InputError: There is no such object.
        """
        names = {target, target.replace("/", "/default/", 1)}
        found = [decision for decision in self._decide_until(names) if names.intersection(decision.names)]
        if not found:
            self._decider.limits = IN_FULL
            return self._find_other(target, names)
        first = next((decision for decision in found if decision.outcome != "allocated"), found[0])
        named = replace(first, target=next(name for name in first.names if name in names))
        return replace(named, members=tuple(found)) if named.target == named.group else named

    def _decide_until(self, names: set[str]) -> Iterator[OfflineDecision]:
        """Decide for all that waits up to the names, which are explained in full."""
        seen = False
        for decision in self._decide_all(names):
            matches = bool(names.intersection(decision.names))
            if seen and not matches:
                return
            seen = seen or matches
            yield decision

    def _decide_all(self, asked: Collection[str] = ()) -> Iterator[OfflineDecision]:
        """Decide for all that waits.

        Args:
            asked: Names of what is explained in full.
        """
        decided: set[PodGroupRef] = set()
        for pod in self._pods:
            gang = self._find_gang(pod)
            members = (f"pod/{pod.ref}",) if gang is None else _name_gang(gang)
            self._decider.limits = IN_FULL if set(members).intersection(asked) else IN_SHORT
            if gang is None:
                yield self._decide_pod(pod)
            elif gang.ref not in decided:
                decided.add(gang.ref)
                yield from self._decide_gang(gang)
        for claim in self._lone_claims():
            self._decider.limits = IN_FULL if f"claim/{claim.ref}" in asked else IN_SHORT
            yield self._decide_claim(claim)

    def _find_other(self, target: str, names: set[str]) -> OfflineDecision:
        """Return what an object has that does not wait by itself: a pod that has its node, a claim of a pod.

        Raises:
            InputError: There is no such object.
        """
        for pod in self._cache.pods.values():
            if f"pod/{pod.ref}" in names and pod.node_name:
                return self._tell_running(pod)
        for ref in self._cache.groups:
            running = self._directory.find(ref).placed if f"podgroup/{ref}" in names else ()
            if running:
                members = tuple(map(self._tell_running, running))
                was_there = all(member.was_there for member in members)
                return replace(members[0], target=f"podgroup/{ref}", members=members, was_there=was_there)
        for claim in self._cache.snapshot().claims.values():
            if f"claim/{claim.ref}" in names:
                told = tell_allocated(f"claim/{claim.ref}", self._allocated.get(claim.ref, ""), [claim])
                told = replace(told, was_there=claim.ref not in self._allocated)
                return told if claim.allocation is not None else self._decide_claim(claim)
        claims = self._cache.snapshot().claims.values()
        known = [f"podgroup/{ref}" for ref in self._cache.groups if target.startswith("podgroup/")]
        known += [f"pod/{pod.ref}" for pod in self._cache.pods.values()]
        known += [f"claim/{claim.ref}" for claim in claims if not claim.metadata.owner_references]
        allowed = ", ".join(known[:10]) + (" …" if len(known) > 10 else "") or "pod/NAME or claim/NAME"
        raise InputError(f"target {target!r}: found no such pod or claim, allowed {allowed}; correct it")

    def _tell_running(self, pod: Pod) -> OfflineDecision:
        """Return what a pod has that has its node already, or got it in an earlier decision."""
        told = tell_allocated(f"pod/{pod.ref}", pod.node_name, self._claims_of(pod))
        return replace(told, was_there=pod.ref not in self._placed)

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return the claims that a pod uses."""
        claims = self._cache.snapshot().claims
        names = [entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims]
        refs = [ClaimRef(pod.ref.namespace, name) for name in (*names, pod.extended_claim_name) if name]
        return [claims[ref] for ref in refs if ref in claims]

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide_pod(self, pod: Pod) -> OfflineDecision:
        made = self._maker.make(pod)
        missing = self._maker.find_missing_template(made.pod)
        if missing:
            return OfflineDecision(target=f"pod/{pod.ref}", outcome="pending", message=missing)
        if made.gaps:
            return self._explain_gaps(made)
        outcome = self._decider.decide(made.pod)
        return self._take(made.pod, outcome) if isinstance(outcome, Placed) else tell_unplaced(made.pod, outcome)

    def _explain_gaps(self, made: MadeClaims) -> OfflineDecision:
        """Return why a pod waits whose claims quotas keep from being made."""
        with self._maker.as_if_made(made.claims):
            self._cluster.update(self._cache.snapshot())
            nodes = tuple(self._cache.nodes.values())
            wanted = [claim for claim in self._claims_of(made.pod) if claim.allocation is None]
            context = ExplainContext(origins=find_origins(made.pod, ()))
            limits = self._decider.limits
            device = explain_pending(self._cluster, wanted, nodes=nodes, limits=limits, context=context)
        return tell_pending(f"pod/{made.pod.ref}", add_quotas(device, made.gaps))

    def _find_gang(self, pod: Pod) -> Gang | None:
        """Return the gang that a pod belongs to, as it stands; None when the pod is decided by itself."""
        ref = find_group_ref(pod)
        if ref is None:
            return None
        gang = self._directory.find(ref)
        return gang if gang.is_joint else None

    def _decide_gang(self, gang: Gang) -> Iterator[OfflineDecision]:
        """Decide for the pods of a gang together; those beyond what it needs may get nothing."""
        made = [self._maker.make(pod) for pod in gang.waiting]
        gang = replace(gang, waiting=tuple(item.pod for item in made))
        name = f"podgroup/{gang.ref}"
        missing = next(filter(None, map(self._maker.find_missing_template, gang.waiting)), "")
        barred = [item for item in made if item.gaps] if not (missing or gang.describe_gap()) else []
        left = tuple(item.pod for item in made if item not in barred)
        if barred and len(left) < gang.needed:
            yield from self._refuse_gang(gang, made)
            return
        gang = replace(gang, waiting=left)
        outcome = self._try_gang(gang)
        if isinstance(outcome, Unplaced):
            for pod in gang.waiting:
                yield replace(tell_unplaced(pod, replace(outcome, message=missing or outcome.message)), group=name)
        else:
            yield from (replace(decision, group=name) for decision in self._take_gang(gang, outcome))
        yield from (replace(self._explain_gaps(item), group=name) for item in barred)

    def _try_gang(self, gang: Gang) -> GangPlaced | Unplaced:
        """Return the decision for a gang, and what would help all of it if that is asked for."""
        usual = self._decider.limits
        if usual.with_fixes:
            trial = GangTrial(self._cache.snapshot(), gang, deviations=self._deviations)
            self._decider.limits = replace(usual, solve_gang=trial.solve)
        outcome = self._gangs.decide(gang)
        self._decider.limits = usual
        return outcome

    def _refuse_gang(self, gang: Gang, made: Sequence[MadeClaims]) -> Iterator[OfflineDecision]:
        """Refuse all pods of a gang because quotas don't allow the claims of as many as it needs."""
        allowed = [item for item in made if not item.gaps]
        self._maker.unmake(claim for item in allowed for claim in item.claims)
        needed = [*allowed, *(item for item in made if item.gaps)][: gang.needed]
        claims = tuple({claim.ref: claim for item in needed for claim in item.claims}.values())
        gaps = self._maker.find_gaps(claims)
        with self._maker.as_if_made(claims):
            outcome = self._try_gang(replace(gang, waiting=tuple(item.pod for item in needed)))
        explanation = add_quotas(self._explain_outcome(outcome), gaps)
        count, least = len(gang.placed) + len(allowed), gang.min_count
        text = f"pod group {gang.ref}: quotas allow the claims of {count} of at least {least} pods"
        explanation = replace(explanation, notes=(*explanation.notes, text))
        for pod in gang.waiting:
            decision = tell_pending(f"pod/{pod.ref}", explanation)
            yield replace(decision, group=f"podgroup/{gang.ref}", message=f"{text}; {decision.message}")

    def _explain_outcome(self, outcome: GangPlaced | Unplaced) -> Explanation:
        """Return what a decision for a gang says of nodes and devices."""
        if isinstance(outcome, GangPlaced):
            fits = tuple(dict.fromkeys(placed.node for _, placed in outcome.placed))
            return Explanation(node_count=len(self._cache.nodes), fits=fits)
        return outcome.explanation or Explanation(node_count=len(self._cache.nodes))

    def _take_gang(self, gang: Gang, outcome: GangPlaced) -> Iterator[OfflineDecision]:
        got = {pod.uid: placed for pod, placed in outcome.placed}
        taken = {pod.uid: self._take(pod, got[pod.uid]) for pod in gang.waiting if pod.uid in got}
        decided = {uid: replace(decision, joint=outcome.answer) for uid, decision in taken.items()}
        left = tuple(pod for pod in gang.waiting if pod.uid not in got)
        for pod in gang.waiting:
            if pod.uid in decided:
                yield decided[pod.uid]
        if left:
            placed = tuple(replace(pod, node_name=got[pod.uid].node) for pod in gang.waiting if pod.uid in got)
            yield from self._decide_gang(replace(gang, waiting=left, placed=(*gang.placed, *placed)))

    def _take(self, pod: Pod, placed: Placed) -> OfflineDecision:
        """Count a decision from now on."""
        claims = []
        for claim, result in placed.allocated:
            named = replace(name_special_claim(reserve_claim(claim, pod, placed.group), pod), allocation=result)
            claims.append(named)
            self._cache.see_claim(None, named)
            self._allocated[named.ref] = placed.node
        for claim in placed.reserved:
            known = self._cache.claims.find(claim.ref) or claim
            reserved = reserve_claim(known, pod, placed.group)
            if reserved is not known:
                self._cache.see_claim(known, reserved)
        self._cache.see_pod(pod, replace(pod, node_name=placed.node))
        self._placed.add(pod.ref)
        own = {claim.ref: claim for claim in (*self._claims_of(pod), *claims)}
        return tell_allocated(f"pod/{pod.ref}", placed.node, own.values())

    def _decide_claim(self, claim: ResourceClaim) -> OfflineDecision:
        target, nodes = f"claim/{claim.ref}", tuple(self._cache.nodes.values())
        self._cluster.update(self._cache.snapshot())
        refused = False
        for decision in allocate_on_nodes(self._cluster, (claim,), nodes=nodes, share_ids=make_share_id):
            if isinstance(decision, Allocation):
                allocated = replace(claim, allocation=decision.results[0])
                self._cache.see_claim(claim, allocated)
                self._allocated[claim.ref] = decision.node
                return tell_allocated(target, decision.node, [allocated])
            refused = refused or isinstance(decision, Refused)
        explanation = explain_pending(self._cluster, (claim,), nodes=nodes, limits=self._decider.limits)
        return replace(tell_pending(target, explanation), outcome="refused" if refused else "pending")

    def _lone_claims(self) -> list[ResourceClaim]:
        """Return waiting claims that no pod names."""
        used = {
            ClaimRef(pod.ref.namespace, entry.claim_name or "")
            for pod in self._cache.pods.values()
            for entry in pod.claims
        }
        claims = self._cache.snapshot().claims.values()
        return [
            claim
            for claim in claims
            if claim.allocation is None and claim.ref not in used and not claim.metadata.owner_references
        ]


def _name_gang(gang: Gang) -> tuple[str, ...]:
    """Return what a gang can be asked for by: its own name, and those of its pods."""
    return (f"podgroup/{gang.ref}", *(f"pod/{pod.ref}" for pod in gang.waiting))
