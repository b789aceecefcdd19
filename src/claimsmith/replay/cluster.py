"""The cluster that a trace is replayed on: every pod is a claim that the scheduler's own entry point decides.

Each allocation is checked by `claimsmith.allocate.verify` against uses that are counted here, apart from the
allocator's own books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_up

from claimsmith.allocate.policy.demand import DemandCounter, DemandProfile
from claimsmith.allocate.policy.objective import Policy
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.plan import PodPlan
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.errors import ReplayError
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending
from claimsmith.model.features import Features
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node
from claimsmith.replay.objects import build_claim, build_snapshot
from claimsmith.replay.trace import Trace, TracePod

__all__ = ["Placed", "ReplayCluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod that runs: its node and its allocated claim."""

    number: int
    pod: TracePod
    node: str
    claim: ResourceClaim


class ReplayCluster:
    """Nodes of a trace with the pods that run on them.

    Args:
        policy: Where pods go.
        knows_trace: The policy knows the demand of the whole trace; otherwise it learns it from the pods that arrive.
        nodes: Names in the order in which equal nodes are taken; None for the order of names.
    """

    def __init__(
        self, trace: Trace, policy: Policy, *, knows_trace: bool = False, nodes: tuple[str, ...] | None = None
    ) -> None:
        self.trace = trace
        self.snapshot = build_snapshot(trace)
        self._slices = {slice.pool: slice for slice in self.snapshot.slices}
        self._features = Features()
        self._cluster = PreparedCluster.from_snapshot(self.snapshot, self._features)
        self._plans: dict[TracePod, PodPlan] = {}
        names = nodes or tuple(self.snapshot.nodes)
        self.nodes: tuple[Node, ...] = tuple(self.snapshot.nodes[name] for name in names)
        self.profile = self._read_demand() if knows_trace else None
        self.placer = Placer(self._cluster, policy, profile=self.profile)
        self._shares = count_up(1)
        self._numbers = count_up(1)
        self._uses: dict[str, dict[DeviceId, dict[str, int]]] = {name: {} for name in names}
        self.placed: dict[int, Placed] = {}
        self.allocated_milli = 0
        self.verified = 0
        """Number of allocations that were checked."""

    def observe(self, pod: TracePod) -> None:
        """Let the policy learn that such a pod has arrived."""
        self.placer.observe((build_claim(pod, 0),))

    def place(self, pod: TracePod, *, on: Node | None = None) -> Placed | None:
        """Place a pod; None when it fits nowhere.

        Args:
            on: The only node to look at; None for all.

        Raises:
            ReplayError: The allocation breaks a rule, or no decision was made.
        """
        number = next(self._numbers)
        claim = build_claim(pod, number)
        decision = self.placer.place(
            (claim,), nodes=self.nodes if on is None else (on,), share_ids=lambda: f"share-{next(self._shares)}"
        )
        return self._settle(number, pod, claim, decision)

    def foresee(self, pods: Sequence[TracePod]) -> tuple[int, int, int]:
        """Return what would come of placing the pods in this order, the more the better; nothing changes.

        Returns:
            Thousandths of GPUs that are allocated, what the nodes are worth then, and what lies in fragments, negative.
        """
        outlook = self.placer.foresee([self._plan(pod) for pod in pods], nodes=self.nodes)
        milli = sum(pod.total_milli for pod, is_placed in zip(pods, outlook.placed, strict=True) if is_placed)
        return milli, outlook.value, -outlook.fragments

    def remove(self, placed: Placed) -> None:
        """Take a pod away, with what it holds."""
        del self.placed[placed.number]
        self._cluster.release(placed.claim)
        for device, amounts in _read_amounts(placed.claim):
            shares = self._uses[placed.node][device]
            for name, nanos in amounts.items():
                shares[name] -= nanos
            if not any(shares.values()):
                del self._uses[placed.node][device]
        self.allocated_milli -= placed.pod.total_milli

    def restore(self, placed: Placed) -> None:
        """Give a pod back what it held when it was removed, which must still be free."""
        allocation = placed.claim.allocation or AllocationResult()
        self._check(placed.node, placed.claim, allocation)
        self._count(placed)

    def free_milli(self, node: str) -> dict[str, int]:
        """Return what is left of each GPU of a node, in thousandths, by the name of the device."""
        uses = self._uses[node]
        return {
            device.name: 1_000 - uses.get(DeviceId(slice.driver, slice.pool, device.name), {}).get("milli", 0) // 10**9
            for slice in (self._slices[node],)
            for device in slice.devices
            if "milli" in device.capacity
        }

    def free_share(self, node: str) -> tuple[int, int]:
        """Return what is left of a node's processors, in thousandths of a core, and of its memory, in MiB."""
        slice, allocatable = self._slices[node], self.snapshot.nodes[node].allocatable
        used = self._uses[node].get(DeviceId(slice.driver, slice.pool, "node"), {})
        cpu = (allocatable["cpu"].nanos - used.get("cpu", 0)) // 10**6
        return cpu, (allocatable["memory"].nanos - used.get("memory", 0)) // (2**20 * 10**9)

    def _plan(self, pod: TracePod) -> PodPlan:
        """What such a pod asks for; nothing of the cluster's classes changes."""
        plan = self._plans.get(pod)
        if plan is None:
            plan = self._plans[pod] = self._cluster.plan((build_claim(pod, 0),))
        return plan

    def _settle(self, number: int, pod: TracePod, claim: ResourceClaim, decision: Decision) -> Placed | None:
        if isinstance(decision, Pending):
            return None
        if not isinstance(decision, Allocation):
            raise ReplayError(f"pod {number} of trace {self.trace.name}: no decision: {decision}")
        (result,) = decision.results
        self._check(decision.node, claim, result)
        placed = Placed(number=number, pod=pod, node=decision.node, claim=replace(claim, allocation=result))
        self._count(placed)
        return placed

    def _count(self, placed: Placed) -> None:
        self._cluster.hold(placed.claim)
        for device, amounts in _read_amounts(placed.claim):
            shares = self._uses[placed.node].setdefault(device, {})
            for name, nanos in amounts.items():
                shares[name] = shares.get(name, 0) + nanos
        self.placed[placed.number] = placed
        self.allocated_milli += placed.pod.total_milli

    def _check(self, node: str, claim: ResourceClaim, result: AllocationResult) -> None:
        shared: Mapping[DeviceId, Mapping[str, int]] = self._uses[node]
        case = VerifyCase(
            node=self.snapshot.nodes[node],
            claims=(replace(claim, allocation=None),),
            slices=(self._slices[node],),
            classes=self.snapshot.classes,
            shared=shared,
            features=self._features,
        )
        violations = verify_allocation(case, (result,))
        self.verified += 1
        if violations:
            raise ReplayError(f"claim {claim.ref}: its allocation breaks a rule: {violations[0]}")

    def _read_demand(self) -> DemandProfile:
        counter = DemandCounter()
        for pod, count in Counter(self.trace.pods).items():
            counter.add(self._plan(pod), count)
        return counter.profile()


def _read_amounts(claim: ResourceClaim) -> list[tuple[DeviceId, dict[str, int]]]:
    results = claim.allocation.results if claim.allocation else ()
    return [
        (result.device_id, {name: amount.nanos for name, amount in (result.consumed_capacity or {}).items()})
        for result in results
    ]
