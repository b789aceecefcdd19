"""The pods and nodes of a replay in plain numbers: what is free where, and what would fit in whose place.

Every question is answered from an index by kind of pod, which is kept up to date node by node: a search for moves asks
far more often than something changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from claimsmith.replay.cluster import Placed, ReplayCluster
from claimsmith.replay.trace import TraceNode, TracePod

__all__ = ["Kind", "Left", "Rooms", "Runner", "Site"]


@dataclass(slots=True, eq=False)
class Kind:
    """Pods that ask for the same. Compared by identity.

    Args:
        number: Order in which kinds were met.
    """

    number: int
    pod: TracePod
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    total_milli: int


@dataclass(slots=True, eq=False)
class Runner:
    """A pod that runs, and the GPUs that it is on."""

    placed: Placed
    kind: Kind
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What would be left of a node.

    Args:
        gpus: Thousandths of each GPU.
        largest: The most of them.
    """

    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...]
    largest: int

    def fits(self, kind: Kind) -> bool:
        """Tell whether a pod would fit there."""
        if kind.cpu_milli > self.cpu_milli or kind.memory_mib > self.memory_mib or kind.gpu_milli > self.largest:
            return False
        return kind.gpus <= 1 or sum([milli >= kind.gpu_milli for milli in self.gpus]) >= kind.gpus


@dataclass(slots=True, eq=False)
class Site:
    """A node in plain numbers. Compared by identity.

    Args:
        free: Thousandths that are left of each GPU.
        largest, total: The most of them, and their sum.
        runners: By the number of the placement.
        different: Of the runners that are alike and leave the same room one, those with the least GPUs first.
    """

    node: TraceNode
    cpu_milli: int = 0
    memory_mib: int = 0
    free: dict[str, int] = field(default_factory=dict)
    largest: int = 0
    total: int = 0
    runners: dict[int, Runner] = field(default_factory=dict)
    different: tuple[Runner, ...] = ()

    def accepts(self, kind: Kind) -> bool:
        """Tell whether the node is of a kind that suits the pod."""
        return kind.gpus <= self.node.gpus and (not kind.pod.models or self.node.model in kind.pod.models)

    def has_gpus(self, kind: Kind) -> bool:
        """Tell whether there are GPUs enough for the pod, whatever else it needs."""
        if kind.gpus <= 1:
            return self.largest >= kind.gpu_milli
        return sum([milli >= kind.gpu_milli for milli in self.free.values()]) >= kind.gpus

    def has_share(self, kind: Kind) -> bool:
        """Tell whether there are processors and memory enough for the pod."""
        return kind.cpu_milli <= self.cpu_milli and kind.memory_mib <= self.memory_mib

    def fits(self, kind: Kind) -> bool:
        """Tell whether the pod fits as things are."""
        return self.has_share(kind) and self.has_gpus(kind) and self.accepts(kind)

    def fits_without(self, kind: Kind, gone: Sequence[Runner], beside: Kind | None = None) -> bool:
        """Tell whether the pod fits when some runners are gone and then another one has come."""
        cpu, memory = self.cpu_milli - kind.cpu_milli, self.memory_mib - kind.memory_mib
        for runner in gone:
            cpu, memory = cpu + runner.kind.cpu_milli, memory + runner.kind.memory_mib
        if beside is not None:
            cpu, memory = cpu - beside.cpu_milli, memory - beside.memory_mib
        if cpu < 0 or memory < 0 or not self.accepts(kind):
            return False
        free = self._free_without(gone)
        return (beside is None or _take(free, beside)) and _take(free, kind)

    def find_left(self, gone: Runner, kind: Kind) -> Left | None:
        """Return what would be left when a runner is gone and a pod has come; None when it does not fit."""
        free = self._free_without((gone,))
        if not _take(free, kind):
            return None
        return Left(
            self.cpu_milli + gone.kind.cpu_milli - kind.cpu_milli,
            self.memory_mib + gone.kind.memory_mib - kind.memory_mib,
            tuple(free.values()),
            max(free.values(), default=0),
        )

    def _free_without(self, gone: Sequence[Runner]) -> dict[str, int]:
        free = dict(self.free)
        for runner in gone:
            for gpu in runner.gpus:
                free[gpu] += runner.kind.gpu_milli
        return free

    def find_replaceable(self, kind: Kind) -> dict[Kind, Runner]:
        """Return for each other kind of runners one without which the pod would fit."""
        found: dict[Kind, Runner] = {}
        if not self.accepts(kind):
            return found
        cpu, memory = kind.cpu_milli - self.cpu_milli, kind.memory_mib - self.memory_mib
        has_gpus = self.has_gpus(kind)
        for runner in self.different:
            other = runner.kind
            if other.cpu_milli < cpu or other.memory_mib < memory or other is kind or other in found:
                continue
            if has_gpus or self._leaves_gpus(runner, kind):
                found[other] = runner
        return found

    def _leaves_gpus(self, runner: Runner, kind: Kind) -> bool:
        """Whether there are GPUs enough for the pod without the runner."""
        free, milli = self.free, runner.kind.gpu_milli
        if kind.gpus == 1:
            return any(free[gpu] + milli >= kind.gpu_milli for gpu in runner.gpus)
        room = {**free, **{gpu: free[gpu] + milli for gpu in runner.gpus}}
        return sum([left >= kind.gpu_milli for left in room.values()]) >= kind.gpus


class Rooms:
    """All nodes of a cluster with an index by kind of pod.

    Args:
        cluster: Whoever changes it says so by `follow`.
    """

    def __init__(self, cluster: ReplayCluster) -> None:
        self._cluster = cluster
        self._kinds: dict[TracePod, Kind] = {}
        self._by_name = {node.name: Site(node) for node in cluster.trace.nodes}
        self.sites: tuple[Site, ...] = tuple(self._by_name.values())
        self._fitting: dict[Kind, dict[Site, None]] = {}
        self._replaceable: dict[Kind, dict[Kind, dict[Site, Runner]]] = {}
        for placed in cluster.placed.values():
            self.get_site(placed.node).runners[placed.number] = self._read_runner(placed)
        for site in self.sites:
            self._read(site)

    def get_kind(self, pod: TracePod) -> Kind:
        """Return the kind of a pod."""
        kind = self._kinds.get(pod)
        if kind is None:
            kind = self._kinds[pod] = Kind(
                number=len(self._kinds),
                pod=pod,
                cpu_milli=pod.cpu_milli,
                memory_mib=pod.memory_mib,
                gpus=pod.gpus,
                gpu_milli=pod.gpu_milli,
                total_milli=pod.total_milli,
            )
        return kind

    def get_site(self, name: str) -> Site:
        """Return the node of that name."""
        return self._by_name[name]

    def find_fitting(self, kind: Kind) -> dict[Site, None]:
        """Return the nodes on which a pod fits as things are."""
        found = self._fitting.get(kind)
        if found is None:
            found = self._fitting[kind] = {site: None for site in self.sites if site.fits(kind)}
        return found

    def find_replaceable(self, kind: Kind) -> dict[Kind, dict[Site, Runner]]:
        """Return in whose place a pod would fit: by the kind of the runner, one on each node."""
        found = self._replaceable.get(kind)
        if found is None:
            found = self._replaceable[kind] = {}
            for site in self.sites:
                for other, runner in site.find_replaceable(kind).items():
                    found.setdefault(other, {})[site] = runner
        return found

    def find_target(self, kind: Kind, apart: Sequence[Site] = ()) -> Site | None:
        """Return the node on which a pod fits that loses least by it: the one with the least room for GPUs.

        Args:
            apart: Nodes that don't count.
        """
        options = [site for site in self.find_fitting(kind) if site not in apart]
        return min(options, key=lambda site: (site.total, site.cpu_milli, site.node.name), default=None)

    def follow(self, gone: Iterable[Placed], come: Iterable[Placed]) -> None:
        """Take in what has changed in the cluster."""
        changed: dict[Site, None] = {}
        for placed in gone:
            site = self.get_site(placed.node)
            del site.runners[placed.number]
            changed[site] = None
        for placed in come:
            site = self.get_site(placed.node)
            site.runners[placed.number] = self._read_runner(placed)
            changed[site] = None
        for site in changed:
            self._read(site)
            self._index(site)

    def _index(self, site: Site) -> None:
        for kind, fitting in self._fitting.items():
            if site.fits(kind):
                fitting[site] = None
            else:
                fitting.pop(site, None)
        for kind, replaceable in self._replaceable.items():
            found = site.find_replaceable(kind)
            for other, places in replaceable.items():
                if other not in found:
                    places.pop(site, None)
            for other, runner in found.items():
                replaceable.setdefault(other, {})[site] = runner

    def _read(self, site: Site) -> None:
        """Take over what the cluster has left of the node."""
        site.cpu_milli, site.memory_mib = self._cluster.free_share(site.node.name)
        site.free = self._cluster.free_milli(site.node.name)
        site.largest, site.total = max(site.free.values(), default=0), sum(site.free.values())
        found: dict[object, Runner] = {}
        for runner in site.runners.values():
            found.setdefault((runner.kind, *[site.free[gpu] for gpu in runner.gpus]), runner)
        alike = sorted(found.values(), key=lambda runner: (runner.kind.total_milli, runner.kind.cpu_milli))
        site.different = tuple(alike)

    def _read_runner(self, placed: Placed) -> Runner:
        results = placed.claim.allocation.results if placed.claim.allocation else ()
        gpus = tuple(result.device for result in results if "milli" in (result.consumed_capacity or {}))
        return Runner(placed, self.get_kind(placed.pod), gpus)


def _take(free: dict[str, int], kind: Kind) -> bool:
    """Take the pod's GPUs, those with the least room that suffices; False when they are not there."""
    fitting = sorted([(milli, gpu) for gpu, milli in free.items() if milli >= kind.gpu_milli])
    if kind.gpus > len(fitting):
        return False
    for _, gpu in fitting[: kind.gpus]:
        free[gpu] -= kind.gpu_milli
    return True
