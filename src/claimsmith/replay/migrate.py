"""Moves pods that run, so that pods which were refused fit: few moves, nothing is evicted.

A plan is found on plain numbers; each step of it is then decided by the allocator and verified like any other
placement. Plans are tried from the cheapest on: no move, one pod that makes room, two pods of one node, or a pod whose
new place has to be made by another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from claimsmith.replay.cluster import Placed, ReplayCluster
from claimsmith.replay.trace import TraceNode, TracePod

__all__ = ["migrate"]

SINGLE_MAX: Final = 32
"""Plans with one move that are kept for a kind of pods, to be parts of longer plans."""
EXCHANGES_MAX: Final = 3
"""Pairs of pods that change places for one refused pod."""
FAILURES_MAX: Final = 3
"""Plans of one way for one kind of pods that the allocator may refuse before the next way is tried."""
QUICK_ROUNDS_MAX: Final = 3
"""How often the quick ways are gone through after all of them."""


def migrate(cluster: ReplayCluster, refused: Sequence[TracePod], *, most: int) -> int:
    """Place refused pods by moving others; return the number of moves.

    Args:
        refused: Pods that did not fit; those that fit now are placed.
        most: Moves at most.

    Raises:
        ReplayError: An allocation breaks a rule.
    """
    return _Mover(cluster, refused).run(most)


@dataclass(slots=True, eq=False)
class _Runner:
    """A pod that runs, and the GPUs that it is on."""

    placed: Placed
    gpus: tuple[str, ...]

    @property
    def pod(self) -> TracePod:
        """What it asks for."""
        return self.placed.pod


@dataclass(slots=True, eq=False)
class _Site:
    """A node in plain numbers.

    Args:
        different: Its runners, of those that are alike one.
    """

    node: TraceNode
    cpu_milli: int = 0
    memory_mib: int = 0
    free: dict[str, int] = field(default_factory=dict)
    runners: dict[int, _Runner] = field(default_factory=dict)
    different: list[_Runner] = field(default_factory=list)

    def find_different(self) -> None:
        """List the runners, of those that are alike and leave the same room one; those with the least GPUs first."""
        found: dict[object, _Runner] = {}
        for runner in self.runners.values():
            found.setdefault((runner.pod, *[self.free[gpu] for gpu in runner.gpus]), runner)
        self.different = sorted(found.values(), key=lambda runner: (runner.pod.total_milli, runner.pod.cpu_milli))

    def accepts(self, pod: TracePod) -> bool:
        """Tell whether the node is of a kind that suits the pod."""
        return not pod.models or self.node.model in pod.models

    def has_gpus(self, pod: TracePod) -> bool:
        """Tell whether there are GPUs enough for the pod, whatever else it needs."""
        return sum([milli >= pod.gpu_milli for milli in self.free.values()]) >= pod.gpus

    def fits(self, pod: TracePod, without: Sequence[_Runner] = (), beside: Sequence[TracePod] = ()) -> bool:
        """Tell whether the pod fits when some runners are gone and other pods are there."""
        cpu, memory = self.cpu_milli - pod.cpu_milli, self.memory_mib - pod.memory_mib
        for runner in without:
            cpu, memory = cpu + runner.pod.cpu_milli, memory + runner.pod.memory_mib
        for other in beside:
            cpu, memory = cpu - other.cpu_milli, memory - other.memory_mib
        if cpu < 0 or memory < 0 or not self.accepts(pod):
            return False
        free = self.free
        if without and (pod.gpus or beside):
            free = dict(free)
            for runner in without:
                for gpu in runner.gpus:
                    free[gpu] += runner.pod.gpu_milli
        if beside:
            free = dict(free)
            if not all(_take(free, other) for other in beside):
                return False
        return not pod.gpus or sum([milli >= pod.gpu_milli for milli in free.values()]) >= pod.gpus


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the refused pod goes, and where the pods go that make room for it, in this order."""

    site: _Site
    moves: tuple[tuple[_Runner, _Site], ...] = ()

    def touches(self, sites: Collection[int]) -> bool:
        """Tell whether it has to do with one of the nodes, which are named by identity."""
        return id(self.site) in sites or any(id(target) in sites for _, target in self.moves)


class _Mover:
    def __init__(self, cluster: ReplayCluster, refused: Sequence[TracePod]) -> None:
        self._cluster = cluster
        self._waiting = Counter(refused)
        self._sites = {node.name: _Site(node) for node in cluster.trace.nodes}
        for placed in cluster.placed.values():
            self._sites[placed.node].runners[placed.number] = _Runner(placed, _list_gpus(placed))
        for site in self._sites.values():
            self._read(site)
        self._fitting: dict[TracePod, list[_Site]] = {}
        self._single: dict[TracePod, list[_Plan]] = {}
        self._partners: dict[TracePod, list[tuple[_Site, _Runner]]] = {}
        self._failed: set[tuple[object, ...]] = set()

    def run(self, most: int) -> int:
        """Carry out plans, the cheapest first and for the largest pods first, until none is left; return the moves."""
        quick = (self._plan_none, self._plan_one, self._plan_swaps, self._plan_exchanges)
        thorough = (*quick, self._plan_pairs, self._plan_chains)
        moves = 0
        for finders in (thorough, *[quick] * QUICK_ROUNDS_MAX):
            waiting = self._waiting.total()
            for finder in finders:
                for pod in sorted(self._waiting, key=lambda pod: (-pod.total_milli, pod.cpu_milli, pod.models)):
                    moves += self._place(pod, finder, most - moves)
            if waiting == self._waiting.total():
                break
            self._single.clear()
        return moves

    def _place(self, pod: TracePod, finder: Callable[[TracePod], Iterator[_Plan]], most: int) -> int:
        """Carry out one way's plans for pods of a kind while there are any; return the moves."""
        moves, failures = 0, 0
        while self._waiting[pod] and failures < FAILURES_MAX:
            waiting, plan = self._waiting[pod], self._find_plan(finder, pod)
            if plan is None or moves + len(plan.moves) > most:
                break
            moves += self._carry_out(pod, plan)
            failures += waiting == self._waiting[pod]
        return moves

    def _find_plan(self, finder: Callable[[TracePod], Iterator[_Plan]], pod: TracePod) -> _Plan | None:
        """The first plan that was not tried in vain before."""
        return next((plan for plan in finder(pod) if self._describe(pod, plan) not in self._failed), None)

    def _plan_none(self, pod: TracePod) -> Iterator[_Plan]:
        yield from (_Plan(site) for site in self._find_fitting(pod)[:1])

    def _plan_one(self, pod: TracePod) -> Iterator[_Plan]:
        """One runner makes room."""
        for site, runner in self._find_blockers(pod):
            target = self._find_target(runner, site, gone=(runner,), beside=(pod,))
            if target is not None:
                yield _Plan(site, ((runner, target),))

    def _plan_exchanges(self, pod: TracePod) -> Iterator[_Plan]:
        """Several runners change places with smaller ones, where only processors are missing."""
        sites = [site for site in self._sites.values() if site.accepts(pod) and site.has_gpus(pod)]
        for site in sorted(sites, key=lambda site: -site.cpu_milli):
            gone: list[_Runner] = []
            moves: list[tuple[_Runner, _Site]] = []
            used = {id(site)}
            for runner in sorted(site.runners.values(), key=lambda runner: -runner.pod.cpu_milli):
                partner = self._find_smallest_partner(runner, used)
                if partner is None:
                    continue
                middle, other = partner
                used.add(id(middle))
                gone.append(runner)
                moves += ((other, site), (runner, middle))
                if site.fits(pod, gone, [other.pod for other, target in moves if target is site]):
                    yield _Plan(site, tuple(moves))
                    break
                if len(gone) == EXCHANGES_MAX:
                    break

    def _find_smallest_partner(self, runner: _Runner, used: Collection[int]) -> tuple[_Site, _Runner] | None:
        """Whom a runner should change places with: the one with the fewest processors, on a node not used yet."""
        least = (
            (other.pod.cpu_milli, place)
            for place, (middle, other) in enumerate(self._find_partners(runner.pod))
            if id(middle) not in used and other.pod.cpu_milli < runner.pod.cpu_milli
        )
        best = min(least, default=None)
        return None if best is None else self._find_partners(runner.pod)[best[1]]

    def _plan_pairs(self, pod: TracePod) -> Iterator[_Plan]:
        """Two runners of one node make room."""
        for site in self._sites.values():
            if not site.accepts(pod) or not site.runners:
                continue
            runners = site.different
            for place, first in enumerate(runners):
                for second in runners[place + 1 :]:
                    if not site.fits(pod, (first, second)):
                        continue
                    target = self._find_target(first, site, gone=(first, second), beside=(pod,))
                    if target is None:
                        continue
                    more = (pod, first.pod) if target is site else (pod,)
                    other = self._find_target(
                        second, site, gone=(first, second), beside=more, taken=(target, first.pod)
                    )
                    if other is not None:
                        yield _Plan(site, ((first, target), (second, other)))

    def _plan_swaps(self, pod: TracePod) -> Iterator[_Plan]:
        """A runner makes room by changing places with a smaller one."""
        for site, runner in self._find_blockers(pod):
            room = site.cpu_milli + runner.pod.cpu_milli - pod.cpu_milli
            for middle, other in self._find_partners(runner.pod):
                if other.pod.cpu_milli > room:
                    break
                if middle is not site and site.fits(other.pod, (runner,), (pod,)):
                    yield _Plan(site, ((other, site), (runner, middle)))
                    break

    def _plan_chains(self, pod: TracePod) -> Iterator[_Plan]:
        """A runner makes room whose new place another one leaves for a third node."""
        for site, runner in self._find_blockers(pod):
            for step in self._find_single(runner.pod):
                middle, (other, end) = step.site, step.moves[0]
                if site not in (middle, end) and end is not middle:
                    yield _Plan(site, ((other, end), (runner, middle)))
                    break

    def _find_blockers(self, pod: TracePod) -> Iterator[tuple[_Site, _Runner]]:
        """Runners without which the pod would fit; of equal ones of a node one."""
        for site in self._sites.values():
            if not site.accepts(pod):
                continue
            for runner in site.different:
                if site.fits(pod, (runner,)):
                    yield site, runner

    def _find_target(
        self,
        runner: _Runner,
        site: _Site,
        *,
        gone: tuple[_Runner, ...],
        beside: tuple[TracePod, ...],
        taken: tuple[_Site, TracePod] | None = None,
    ) -> _Site | None:
        """Where a runner can go; its own node when it fits there beside the pod that comes."""
        if site.fits(runner.pod, gone, beside):
            return site
        for target in self._find_fitting(runner.pod):
            if target is site:
                continue
            if taken is None or target is not taken[0] or target.fits(runner.pod, (), (taken[1],)):
                return target
        return None

    def _find_fitting(self, pod: TracePod) -> list[_Site]:
        """Nodes on which the pod fits as things stand, those with the least room first."""
        found = self._fitting.get(pod)
        if found is None:
            found = [site for site in self._sites.values() if site.fits(pod)]
            found.sort(key=lambda site: (sum(site.free.values()), site.cpu_milli))
            self._fitting[pod] = found
        return found

    def _find_single(self, pod: TracePod) -> list[_Plan]:
        """Plans with one move for a pod of a kind."""
        found = self._single.get(pod)
        if found is None:
            found = self._single[pod] = list(islice(self._plan_one(pod), SINGLE_MAX))
        return found

    def _find_partners(self, pod: TracePod) -> list[tuple[_Site, _Runner]]:
        """Runners that are no larger than the pod and in whose place it would fit; those with few processors first."""
        found = self._partners.get(pod)
        if found is None:
            found = self._partners[pod] = sorted(self._list_partners(pod, self._sites.values()), key=_count_cpu)
        return found

    def _list_partners(self, pod: TracePod, sites: Iterable[_Site]) -> list[tuple[_Site, _Runner]]:
        return [
            (site, runner)
            for site in sites
            if site.accepts(pod)
            for runner in site.different
            if runner.pod.cpu_milli <= pod.cpu_milli
            and runner.pod.total_milli <= pod.total_milli
            and runner.pod != pod
            and site.fits(pod, (runner,))
        ]

    def _carry_out(self, pod: TracePod, plan: _Plan) -> int:
        """Do what the plan says, each step by the allocator; when one is refused, everything is as before."""
        cluster, nodes = self._cluster, self._cluster.snapshot.nodes
        for runner, _ in plan.moves:
            cluster.remove(runner.placed)
        done: list[tuple[Placed, _Site]] = []
        for other, target in ((pod, plan.site), *((runner.pod, target) for runner, target in plan.moves)):
            placed = cluster.place(other, on=nodes[target.node.name])
            if placed is None:
                break
            done.append((placed, target))
        if len(done) <= len(plan.moves):
            for placed, _ in done:
                cluster.remove(placed)
            for runner, _ in plan.moves:
                cluster.restore(runner.placed)
            self._failed.add(self._describe(pod, plan))
            return 0
        self._note(pod, plan, done)
        return len(plan.moves)

    def _note(self, pod: TracePod, plan: _Plan, done: list[tuple[Placed, _Site]]) -> None:
        """Follow what was done."""
        self._waiting -= Counter((pod,))
        changed = {id(site): site for _, site in done}
        for runner, _ in plan.moves:
            left = self._sites[runner.placed.node]
            del left.runners[runner.placed.number]
            changed[id(left)] = left
        for placed, site in done:
            site.runners[placed.number] = _Runner(placed, _list_gpus(placed))
        for site in changed.values():
            self._read(site)
        for kind, fitting in self._fitting.items():
            kept = [site for site in fitting if id(site) not in changed]
            added = [site for site in changed.values() if site.fits(kind)]
            self._fitting[kind] = [*kept, *added]
        for kind, partners in self._partners.items():
            kept_partners = [entry for entry in partners if id(entry[0]) not in changed]
            added_partners = self._list_partners(kind, changed.values())
            self._partners[kind] = sorted([*kept_partners, *added_partners], key=_count_cpu)
        for kind, plans in self._single.items():
            self._single[kind] = [plan for plan in plans if not plan.touches(changed)]
        self._failed.clear()

    def _read(self, site: _Site) -> None:
        """Take over what the cluster has left of the node."""
        site.cpu_milli, site.memory_mib = self._cluster.free_share(site.node.name)
        site.free = self._cluster.free_milli(site.node.name)
        site.find_different()

    def _describe(self, pod: TracePod, plan: _Plan) -> tuple[object, ...]:
        moves = tuple((runner.placed.number, site.node.name) for runner, site in plan.moves)
        return (pod, plan.site.node.name, moves)


def _take(free: dict[str, int], pod: TracePod) -> bool:
    """Take the pod's GPUs, those with the least room that suffices; False when they are not there."""
    for _ in range(pod.gpus):
        fitting = [gpu for gpu, milli in free.items() if milli >= pod.gpu_milli]
        if not fitting:
            return False
        free[min(fitting, key=lambda gpu: free[gpu])] -= pod.gpu_milli
    return True


def _count_cpu(partner: tuple[_Site, _Runner]) -> int:
    return partner[1].pod.cpu_milli


def _list_gpus(placed: Placed) -> tuple[str, ...]:
    results = placed.claim.allocation.results if placed.claim.allocation else ()
    return tuple(result.device for result in results if "milli" in (result.consumed_capacity or {}))
