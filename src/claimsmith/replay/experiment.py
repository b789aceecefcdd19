"""Several runs of one trace: seeds, demand profiles, orders of nodes, batches, migrations; and FGD beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from claimsmith.allocate.policy.objective import FGD, FRAGMENTATION, Policy
from claimsmith.replay.arrivals import draw_arrivals, permute
from claimsmith.replay.batches import replay_batches
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.migrate import migrate
from claimsmith.replay.online import Journal, Run, replay_online
from claimsmith.replay.trace import Trace

__all__ = ["Experiment", "Series", "run_experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What to run.

    Args:
        policy: Where pods go.
        profiles: `trace`, `learned`, or both.
        batch: Pods that are decided together, in the best of some random orders; 1 for one by one.
        migrate: Most pods that may be moved after the trace has arrived once; 0 for none. The run ends there.
        to_percent: Arrivals, in percent of the cluster's GPUs.
        permuted: Nodes are ordered at random, by the seed, instead of by name.
    """

    trace: Trace
    policy: Policy = FRAGMENTATION
    profiles: tuple[str, ...] = ("learned", "trace")
    seeds: tuple[int, ...] = (42,)
    batch: int = 1
    migrate: int = 0
    to_percent: int = 130
    permuted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Runs that differ in their seed alone."""

    name: str
    runs: tuple[Run, ...]


def run_experiment(
    experiment: Experiment, *, with_fgd: bool = True, tell: Callable[[str], None] = lambda _: None
) -> list[Series]:
    """Return a series for each profile, and one for FGD, which knows the trace.

    Args:
        tell: Told what runs next.
    """
    kinds = [(f"{experiment.policy.name}, {profile}", experiment, profile) for profile in experiment.profiles]
    if with_fgd and experiment.policy != FGD:
        kinds.append(("fgd, trace", replace(experiment, policy=FGD, batch=1), "trace"))
    found = []
    for name, chosen, profile in kinds:
        runs = []
        for seed in chosen.seeds:
            tell(f"{name}: seed {seed}")
            runs.append(run_once(chosen, seed=seed, profile=profile))
        found.append(Series(name=name, runs=tuple(runs)))
    return found


def run_once(experiment: Experiment, *, seed: int, profile: str) -> Run:
    """Return one run."""
    names: Sequence[str] | None = None
    if experiment.permuted:
        names = permute([node.name for node in experiment.trace.nodes], seed)
    cluster = ReplayCluster(
        experiment.trace,
        experiment.policy,
        knows_trace=profile == "trace",
        nodes=None if names is None else tuple(names),
    )
    arrivals = draw_arrivals(experiment.trace, seed=seed, to_percent=experiment.to_percent)
    if experiment.migrate:
        return _run_with_moves(experiment, cluster, seed)
    if experiment.batch > 1:
        return replay_batches(cluster, arrivals, size=experiment.batch, seed=seed)
    return replay_online(cluster, arrivals)


def _run_with_moves(experiment: Experiment, cluster: ReplayCluster, seed: int) -> Run:
    """The trace once, then moves that make room for what was refused."""
    arrivals = draw_arrivals(experiment.trace, seed=seed)[: len(experiment.trace.pods)]
    journal = Journal(cluster)
    refused = []
    for pod in arrivals:
        cluster.observe(pod)
        if cluster.place(pod) is None:
            refused.append(pod)
        journal.add(pod)
    moves = migrate(cluster, refused, most=experiment.migrate)
    return journal.finish(moves=moves)
