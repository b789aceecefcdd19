"""Decisions on manifests and snapshots, without any cluster: the scheduler's own, one pod or gang after the other."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from claimsmith.allocate.explain.context import ExplainContext
from claimsmith.allocate.explain.pending import explain_pending
from claimsmith.allocate.explain.quota import add_quotas
from claimsmith.allocate.explain.report import format_note
from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.joint import JointDecision
from claimsmith.allocate.lint.slices import find_missing_node
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.api.kinds import Kind
from claimsmith.api.manifests import Manifest
from claimsmith.api.objects import ModelObject, parse_manifest
from claimsmith.api.snapshotfile import iter_objects
from claimsmith.api.workload_pods import expand_workloads
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.claim_origins import find_origins
from claimsmith.daemons.clusterplan import ONLY_NODE
from claimsmith.daemons.gang_trial import GangTrial
from claimsmith.daemons.made_claims import name_special_claim
from claimsmith.daemons.offline_claims import ClaimMaker, MadeClaims
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.daemons.scheduler_gang import GangDecider, GangPlaced
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.daemons.scheduler_reasons import IN_FULL, IN_SHORT
from claimsmith.daemons.sorted_manifests import SortedManifests, sort_manifests
from claimsmith.errors import InputError
from claimsmith.model.claim import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
from claimsmith.model.decision import Allocation, Reason, Refused
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.policy import SYSTEM_PRIORITIES, DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.publish.content import DeviceNotes
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.plan import preview_slices
from claimsmith.schedule.claims import make_share_id
from claimsmith.schedule.gangs import Gang, GangDirectory, find_group_ref
from claimsmith.schedule.groupclaims import reserve_claim
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.settings import find_named_nodes

__all__ = ["OfflineCluster", "OfflineDecision"]

_PLUGIN: Final = "simulated"
_USUAL: Final = {"cpu": parse_quantity("32"), "memory": parse_quantity("128Gi"), "pods": parse_quantity("110")}
"""What a node offers that is named, but not described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineDecision:
    """What a pod, or a claim that no pod uses, gets.

    Args:
        target: `pod/NAMESPACE/NAME` or `claim/NAMESPACE/NAME`.
        group: The gang that the pod is a part of, as `podgroup/NAMESPACE/NAME`; empty for none.
        node: The node; empty when there is none.
        allocations: What each claim has or gets.
        message: Why there is no node, in one text.
        reasons: The same for machines.
        explanation: Why, in sets of reasons, and what would help; None when it is no matter of nodes.
        was_there: What is told was so before anything was decided: a pod that runs, a claim that has its devices.
        members: What each pod gets, where the target is a pod group.
        joint: The decision for the whole gang, with what is proven of it; None where its pods were tried in turn.
    """

    target: str
    outcome: Literal["allocated", "pending", "refused"]
    node: str = ""
    allocations: tuple[tuple[ClaimRef, AllocationResult], ...] = ()
    message: str = ""
    reasons: tuple[Reason, ...] = ()
    explanation: Explanation | None = None
    group: str = ""
    was_there: bool = False
    members: tuple[OfflineDecision, ...] = ()
    joint: JointDecision | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What it can be asked for by."""
        return (self.target, self.group) if self.group else (self.target,)


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
        self.left_out: tuple[str, ...] = found.left_out
        """One sentence for each manifest of a kind that claimsmith does not know, and for each field of that sort."""
        self.out_of_reach: tuple[str, ...] = ()
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
        self._pods: list[Pod] = []
        self._load(found, node, () if base is None else tuple(iter_objects(base)))

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
                return replace(members[0], target=f"podgroup/{ref}", members=members)
        for claim in self._cache.snapshot().claims.values():
            if f"claim/{claim.ref}" in names:
                decided = claim.allocation is not None
                told = replace(_decided(f"claim/{claim.ref}", "", [claim]), was_there=True)
                return told if decided else self._decide_claim(claim)
        claims = self._cache.snapshot().claims.values()
        known = [f"podgroup/{ref}" for ref in self._cache.groups if target.startswith("podgroup/")]
        known += [f"pod/{pod.ref}" for pod in self._cache.pods.values()]
        known += [f"claim/{claim.ref}" for claim in claims if not claim.metadata.owner_references]
        allowed = ", ".join(known[:10]) + (" …" if len(known) > 10 else "") or "pod/NAME or claim/NAME"
        raise InputError(f"target {target!r}: found no such pod or claim, allowed {allowed}; correct it")

    def _tell_running(self, pod: Pod) -> OfflineDecision:
        """Return what a pod has that has its node already."""
        return replace(_decided(f"pod/{pod.ref}", pod.node_name, self._claims_of(pod)), was_there=True)

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return the claims that a pod uses."""
        claims = self._cache.snapshot().claims
        names = [entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims]
        refs = [ClaimRef(pod.ref.namespace, name) for name in (*names, pod.extended_claim_name) if name]
        return [claims[ref] for ref in refs if ref in claims]

    # --- loading ------------------------------------------------------------------------------------------------------

    def _load(self, found: SortedManifests, only: str, base: tuple[ModelObject, ...]) -> None:
        settings = found.settings
        parsed = [value for item in _named(found.objects) if (value := parse_manifest(item)) is not None]
        objects = list({_key_of(value): value for value in (*base, *parsed)}.values())
        priorities = {value.name: value for value in objects if isinstance(value, PriorityClass)}
        objects = [self._give_priority(value, priorities) for value in objects]
        nodes = {value.name: value for value in objects if isinstance(value, Node)}
        slices = [value for value in objects if isinstance(value, ResourceSlice)]
        named = [name for item in settings for name in find_named_nodes(item)]
        named += [] if nodes else [value.node_name or "" for value in slices]
        for name in (name for name in named if name and name not in nodes):
            nodes[name] = _usual_node(name)
        self.out_of_reach = tuple(_tell_missing_nodes(slices, nodes))
        self.left_out = (*self.left_out, *self.out_of_reach)
        if settings and not nodes:
            nodes[ONLY_NODE] = _usual_node(ONLY_NODE)
        if only and only not in nodes:
            raise InputError(
                f"node {only!r}: not in the manifests, allowed {', '.join(nodes) or 'none'}; name one of them"
            )
        for node in nodes.values():
            if not only or node.name == only:
                self._cache.see_node(None, node)
            objects += _simulate(node.name, settings)
        for value in objects:
            self._see(value)
        self._pods.sort(key=lambda pod: -pod.priority)

    def _see(self, value: ModelObject) -> None:
        match value:
            case ResourceSlice():
                self._cache.see_slice(None, value)
            case DeviceClass():
                self._cache.see_class(None, value)
            case DeviceTaintRule():
                self._cache.see_taint_rule(None, value)
            case ResourceClaim():
                self._cache.see_claim(None, value)
            case ResourceClaimTemplate():
                self._cache.see_template(None, value)
            case Namespace():
                self._cache.see_namespace(None, value)
            case DisruptionBudget():
                self._cache.see_budget(None, value)
            case ResourceQuota():
                self._cache.see_quota(None, value)
            case PriorityClass():
                self._cache.see_priority_class(None, value)
            case PodGroup():
                uid = value.uid or f"podgroup/{value.ref}"
                self._cache.see_group(None, replace(value, metadata=replace(value.metadata, uid=uid)))
            case Pod():
                self._see_pod(value)

    def _give_priority(self, value: ModelObject, classes: Mapping[str, PriorityClass]) -> ModelObject:
        """Return a pod of a manifest with the priority that a server would give it; other objects as they are."""
        if not isinstance(value, Pod) or value.uid or value.priority:
            return value
        if not value.priority_class:
            usual = next((item for item in classes.values() if item.global_default), None)
            return value if usual is None else _prioritize(value, usual)
        if value.priority_class in SYSTEM_PRIORITIES:
            return replace(value, priority=SYSTEM_PRIORITIES[value.priority_class])
        if value.priority_class in classes:
            return _prioritize(value, classes[value.priority_class])
        missing = f"pod {value.ref}: priority class {value.priority_class!r} is not there, priority 0 is taken; add it"
        self.left_out = (*self.left_out, missing)
        return value

    def _see_pod(self, pod: Pod) -> None:
        if not pod.uid:
            pod = replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.ref}"))
        self._cache.see_pod(None, pod)
        if not pod.node_name and not pod.finished:
            self._pods.append(pod)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide_pod(self, pod: Pod) -> OfflineDecision:
        made = self._maker.make(pod)
        missing = self._maker.find_missing_template(made.pod)
        if missing:
            return OfflineDecision(target=f"pod/{pod.ref}", outcome="pending", message=missing)
        if made.gaps:
            return self._explain_gaps(made)
        outcome = self._decider.decide(made.pod)
        return self._take(made.pod, outcome) if isinstance(outcome, Placed) else _refused(made.pod, outcome)

    def _explain_gaps(self, made: MadeClaims) -> OfflineDecision:
        """Return why a pod waits whose claims quotas keep from being made."""
        with self._maker.as_if_made(made.claims):
            self._cluster.update(self._cache.snapshot())
            nodes = tuple(self._cache.nodes.values())
            wanted = [claim for claim in self._claims_of(made.pod) if claim.allocation is None]
            context = ExplainContext(origins=find_origins(made.pod, ()))
            limits = self._decider.limits
            device = explain_pending(self._cluster, wanted, nodes=nodes, limits=limits, context=context)
        return _pending(f"pod/{made.pod.ref}", add_quotas(device, made.gaps))

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
                yield replace(_refused(pod, replace(outcome, message=missing or outcome.message)), group=name)
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
            decision = _pending(f"pod/{pod.ref}", explanation)
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
        for claim in placed.reserved:
            known = self._cache.claims.find(claim.ref) or claim
            reserved = reserve_claim(known, pod, placed.group)
            if reserved is not known:
                self._cache.see_claim(known, reserved)
        self._cache.see_pod(pod, replace(pod, node_name=placed.node))
        own = {claim.ref: claim for claim in (*self._claims_of(pod), *claims)}
        return _decided(f"pod/{pod.ref}", placed.node, own.values())

    def _decide_claim(self, claim: ResourceClaim) -> OfflineDecision:
        target, nodes = f"claim/{claim.ref}", tuple(self._cache.nodes.values())
        self._cluster.update(self._cache.snapshot())
        refused = False
        for decision in allocate_on_nodes(self._cluster, (claim,), nodes=nodes, share_ids=make_share_id):
            if isinstance(decision, Allocation):
                allocated = replace(claim, allocation=decision.results[0])
                self._cache.see_claim(claim, allocated)
                return _decided(target, decision.node, [allocated])
            refused = refused or isinstance(decision, Refused)
        explanation = explain_pending(self._cluster, (claim,), nodes=nodes, limits=self._decider.limits)
        return replace(_pending(target, explanation), outcome="refused" if refused else "pending")

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


def _named(objects: Iterable[tuple[Kind, Manifest]]) -> Iterator[Manifest]:
    """Yield objects; those whose name a server would make up are numbered."""
    for number, (_, manifest) in enumerate(objects):
        metadata = manifest.object.get("metadata") or {}
        if not metadata.get("name"):
            name = f"{metadata.get('generateName') or ''}{number}"
            manifest = replace(manifest, object={**manifest.object, "metadata": {**metadata, "name": name}})
        yield manifest


def _key_of(value: ModelObject) -> tuple[type, str, str]:
    return type(value), value.metadata.namespace, value.metadata.name


def _prioritize(pod: Pod, priority: PriorityClass) -> Pod:
    policy = pod.preemption_policy or priority.preemption_policy
    return replace(pod, priority=priority.value, preemption_policy=policy)


def _decided(target: str, node: str, claims: Iterable[ResourceClaim]) -> OfflineDecision:
    return OfflineDecision(target=target, outcome="allocated", node=node, allocations=tuple(_allocations(claims)))


def _pending(target: str, explanation: Explanation) -> OfflineDecision:
    return OfflineDecision(
        target=target,
        outcome="pending",
        message=format_note(explanation),
        reasons=explanation.reasons,
        explanation=explanation,
    )


def _refused(pod: Pod, unplaced: Unplaced) -> OfflineDecision:
    outcome: Literal["pending", "refused"] = "refused" if unplaced.reason == "SchedulerError" else "pending"
    return OfflineDecision(
        target=f"pod/{pod.ref}",
        outcome=outcome,
        message=unplaced.message,
        reasons=unplaced.reasons,
        explanation=unplaced.explanation,
    )


def _name_gang(gang: Gang) -> tuple[str, ...]:
    """Return what a gang can be asked for by: its own name, and those of its pods."""
    return (f"podgroup/{gang.ref}", *(f"pod/{pod.ref}" for pod in gang.waiting))


def _allocations(claims: Iterable[ResourceClaim]) -> Iterator[tuple[ClaimRef, AllocationResult]]:
    for claim in claims:
        if claim.allocation is not None:
            yield claim.ref, claim.allocation


def _tell_missing_nodes(slices: Iterable[ResourceSlice], nodes: Collection[str]) -> Iterator[str]:
    """Yield a sentence for the first slice of each node that is named, but not there."""
    told: set[str | None] = set()
    for item in slices:
        fault = find_missing_node(item, nodes)
        if fault is not None and item.node_name not in told:
            told.add(item.node_name)
            yield f"ResourceSlice {item.name}: {fault.text}"


def _usual_node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    return Node(metadata=Metadata(name=name, labels=labels), capacity=_USUAL, allocatable=_USUAL)


def _simulate(node: str, settings: tuple[Manifest, ...]) -> tuple[ResourceSlice, ...]:
    """Return the slices that simulated drivers would publish for a node."""
    if not settings:
        return ()
    drivers = create_drivers(_PLUGIN, DriverContext(node_name=node, documents=settings))
    return tuple(
        item
        for driver in drivers
        for item in preview_slices(driver.name, node, driver.discover(), notes=_note_health(driver, node))
    )


def _note_health(driver: Driver, node: str) -> DeviceNotes:
    """Return the taints of the devices that the driver says have failed, before any time has passed."""
    taints = HealthTaints(driver=driver.name, node=node)

    def report(*devices: DeviceHealth) -> None:
        for health in devices:
            taints.note(health, now_s=0.0)

    ended = threading.Event()
    ended.set()
    driver.watch_health(report, ended)
    return DeviceNotes(taints=taints.taints(now_s=0.0))
