"""A trace of the kind that is seen in large clusters, replayed by several policies, and the command that does it."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from claimsmith.allocate.policy.objective import FGD, FIRST, FRAGMENTATION, Policy
from claimsmith.replay.arrivals import draw_arrivals
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.migrate import migrate
from claimsmith.replay.online import replay_online
from claimsmith.replay.trace import Trace, TracePod
from tests.scenarios.cli_process import call_claimsmith
from tests.unit.replay.small_trace import make_trace, trace_node, trace_pod, write_trace

KINDS = {
    trace_pod(810, cpu=3_152): 26,
    trace_pod(470, cpu=3_152): 18,
    trace_pod(650, cpu=11_908): 6,
    trace_pod(320, cpu=8_000): 8,
    trace_pod(230, cpu=4_000): 4,
    trace_pod(1_000, cpu=11_300): 60,
    trace_pod(1_000, cpu=18_708): 10,
    trace_pod(1_000, gpus=4, cpu=32_000): 1,
    trace_pod(0, cpu=8_000): 20,
}
SEEDS = (1, 2)


def make_busy_trace() -> Trace:
    """Nodes with eight GPUs and few processors beside nodes with two and many, and as many pods as fill them."""
    nodes = [trace_node(f"g{n:02}", cpu=96_000, memory=400_000, gpus=8, model="G2") for n in range(14)]
    nodes += [trace_node(f"t{n:02}", cpu=104_000, memory=400_000, gpus=2, model="T4") for n in range(10)]
    drawn = random.Random(7).choices(list(KINDS), weights=list(KINDS.values()), k=170)
    return make_trace(nodes, drawn)


def replay(policy: Policy, seed: int) -> tuple[ReplayCluster, list[TracePod]]:
    """Replay one seed; return the cluster, and the pods that were refused though some node had room."""
    trace = make_busy_trace()
    cluster = ReplayCluster(trace, policy, knows_trace=True)
    wrongly = []
    for pod in draw_arrivals(trace, seed=seed, to_percent=130):
        if cluster.place(pod) is None and any(has_room(cluster, node.name, pod) for node in trace.nodes):
            wrongly.append(pod)
    return cluster, wrongly


def has_room(cluster: ReplayCluster, node: str, pod: TracePod) -> bool:
    cpu_milli, memory_mib = cluster.free_share(node)
    fitting = [milli for milli in cluster.free_milli(node).values() if milli >= pod.gpu_milli]
    return pod.cpu_milli <= cpu_milli and pod.memory_mib <= memory_mib and len(fitting) >= pod.gpus


@pytest.mark.parametrize("policy", [FRAGMENTATION, FGD, FIRST], ids=lambda policy: policy.name)
def test_a_pod_that_fits_is_never_refused(policy: Policy) -> None:
    cluster, wrongly = replay(policy, 1)

    assert wrongly == []
    assert cluster.verified == len(cluster.placed)


def test_the_default_policy_allocates_more_than_first_fit_and_fgd() -> None:
    totals = {
        policy.name: sum(replay(policy, seed)[0].allocated_milli for seed in SEEDS)
        for policy in (FRAGMENTATION, FGD, FIRST)
    }

    assert totals["fragmentation"] > totals["fgd"]
    assert totals["fragmentation"] > totals["first"]


def test_the_same_seed_gives_the_same_run_and_no_run_exceeds_its_bound() -> None:
    trace = make_busy_trace()
    arrivals = draw_arrivals(trace, seed=1, to_percent=110)
    runs = [replay_online(ReplayCluster(trace, FRAGMENTATION), arrivals) for _ in range(2)]

    assert runs[0].rates == runs[1].rates
    assert runs[0].final_bound is not None
    assert runs[0].final <= runs[0].final_bound


def test_moves_place_refused_pods_and_evict_nobody() -> None:
    trace = make_busy_trace()
    cluster = ReplayCluster(trace, FGD, knows_trace=True)
    refused = [pod for pod in draw_arrivals(trace, seed=1, to_percent=130) if cluster.place(pod) is None]
    before = Counter(placed.pod for placed in cluster.placed.values())
    moves = migrate(cluster, refused, most=20)
    placed = Counter(placed.pod for placed in cluster.placed.values()) - before
    waiting = Counter(refused) - placed

    assert 0 < moves <= 20
    assert placed
    assert before <= Counter(placed.pod for placed in cluster.placed.values())
    assert [pod for pod in waiting if any(has_room(cluster, node.name, pod) for node in trace.nodes)] == []


def test_the_command_prints_both_profiles_fgd_and_the_bound(tmp_path: Path) -> None:
    pods = "\n".join(f"p{n},4000,1024,1,{milli}," for n, milli in enumerate([600, 400, 1000, 700, 300] * 4))
    folder = write_trace(tmp_path, nodes="a,96000,65536,8,G2\nb,32000,65536,4,T4", pods=pods)
    picture = tmp_path / "rates.svg"

    found = call_claimsmith("replay", str(folder), "--seeds", "42-43", "--plot", str(picture), "-o", "json")
    value = json.loads(found.out)
    assert [item["name"] for item in value["series"]] == [
        "fragmentation, learned",
        "fragmentation, trace",
        "fgd, trace",
    ]
    assert [run["seed"] for run in value["series"][0]["runs"]] == [42, 43]
    assert all(run["final"] <= run["finalBound"] for item in value["series"] for run in item["runs"])
    assert value["publishedFgd"]["100"] == 95.23
    assert picture.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "best"), "--policy: found 'best', allowed first, pack, spread, fragmentation, fgd"),
        (("--profile", "none"), "--profile: found 'none', allowed learned, trace, both"),
        (("--seeds", "4-x"), "--seeds: found '4-x'"),
        (("--trace", "other"), "found no trace 'other', allowed default"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    folder = write_trace(tmp_path, nodes="a,96000,65536,8,G2", pods="p,1000,512,1,500,")

    found = call_claimsmith("replay", str(folder), *arguments)
    assert found.code == 2
    assert message in found.err
