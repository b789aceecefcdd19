"""Small traces replayed as claims."""

from __future__ import annotations

import pytest

from claimsmith.allocate.policy.objective import FGD, FRAGMENTATION, PACK
from claimsmith.errors import ReplayError
from claimsmith.replay.batches import replay_batches
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.experiment import Experiment, run_experiment
from claimsmith.replay.migrate import migrate
from claimsmith.replay.offline import replay_offline
from claimsmith.replay.online import replay_online
from claimsmith.replay.plot import draw_plot
from claimsmith.replay.report import summarize
from claimsmith.replay.trace import TracePod
from tests.unit.replay.small_trace import make_trace, trace_node, trace_pod

NODES = [trace_node("n0"), trace_node("n1", gpus=1, cpu=8_000, model="B")]


def cluster_of(*pods: TracePod) -> ReplayCluster:
    return ReplayCluster(make_trace(NODES, pods or [trace_pod()]), PACK)


def test_a_pod_takes_its_part_of_gpus_processors_and_memory() -> None:
    cluster = cluster_of()
    placed = cluster.place(trace_pod(400, cpu=2_000, memory=512, models="B"))

    assert placed is not None
    assert placed.node == "n1"
    assert cluster.free_milli("n1") == {"gpu-0": 600}
    assert cluster.free_share("n1") == (6_000, 65_024)
    assert cluster.allocated_milli == 400


def test_a_pod_fits_nowhere_when_gpus_processors_or_models_are_missing() -> None:
    pods = (trace_pod(gpus=3), trace_pod(cpu=33_000), trace_pod(models="C"), trace_pod(memory=65_537))

    assert [cluster_of().place(pod) for pod in pods] == [None] * 4


def test_a_pod_that_is_removed_leaves_what_it_held_and_can_be_restored() -> None:
    cluster = cluster_of()
    placed = cluster.place(trace_pod(400))
    assert placed is not None
    before = (cluster.free_milli(placed.node), cluster.free_share(placed.node), cluster.allocated_milli)
    cluster.remove(placed)
    between = (cluster.free_milli(placed.node), cluster.allocated_milli)
    cluster.restore(placed)

    assert between == (dict.fromkeys(before[0], 1000), 0)
    assert (cluster.free_milli(placed.node), cluster.free_share(placed.node), cluster.allocated_milli) == before


def test_an_allocation_that_breaks_a_rule_ends_the_replay() -> None:
    cluster = cluster_of()
    placed = cluster.place(trace_pod(600, models="B"))
    assert placed is not None

    with pytest.raises(ReplayError, match=r"its allocation breaks a rule: .*capacity: milli"):
        cluster.restore(placed)


def test_the_run_counts_what_was_placed_refused_and_verified() -> None:
    pods = (trace_pod(), trace_pod(gpus=2), trace_pod(600), trace_pod(600), trace_pod(0))
    run = replay_online(cluster_of(*pods), pods)

    assert (run.placed, run.refused, run.verified) == (4, 1, 4)
    assert run.final == pytest.approx(100 * 2_200 / 3_000)
    assert run.final_bound is not None
    assert run.final <= run.final_bound


def test_a_batch_is_placed_in_the_order_that_leaves_most() -> None:
    pods = (trace_pod(400), trace_pod(400), trace_pod(600), trace_pod(600), trace_pod(1_000), trace_pod(300))
    trace = make_trace(NODES, pods)
    run = replay_batches(ReplayCluster(trace, FRAGMENTATION, knows_trace=True), pods, size=6, seed=1)

    assert run.final == pytest.approx(100)
    assert run.placed == 5


def test_one_move_makes_room_for_a_whole_gpu() -> None:
    cluster = cluster_of()
    for pod in (trace_pod(300), trace_pod(300, models="B"), trace_pod(700)):
        assert cluster.place(pod) is not None
    stray = cluster.place(trace_pod(400, cpu=1_000), on=cluster.snapshot.nodes["n0"])
    assert stray is not None
    refused = [pod for pod in (trace_pod(models="A"), trace_pod(models="A")) if cluster.place(pod) is None]

    moves = migrate(cluster, refused, most=5)
    assert (len(refused), moves, cluster.allocated_milli) == (2, 1, 2_700)


def test_no_more_is_moved_than_is_allowed() -> None:
    cluster = cluster_of()
    for pod in (trace_pod(300), trace_pod(300, models="B"), trace_pod(700)):
        cluster.place(pod)
    cluster.place(trace_pod(400, cpu=1_000), on=cluster.snapshot.nodes["n0"])
    before = cluster.allocated_milli

    assert migrate(cluster, [trace_pod(models="A")], most=0) == 0
    assert cluster.allocated_milli == before


def test_two_pods_change_places_to_leave_processors() -> None:
    nodes = [trace_node("n0", cpu=16_000), trace_node("n1", gpus=1, cpu=16_000)]
    cluster = ReplayCluster(make_trace(nodes, [trace_pod()]), PACK)
    cluster.place(trace_pod(cpu=14_000), on=cluster.snapshot.nodes["n0"])
    cluster.place(trace_pod(cpu=4_000), on=cluster.snapshot.nodes["n1"])

    moves = migrate(cluster, [trace_pod(cpu=8_000)], most=2)
    assert (moves, cluster.allocated_milli) == (2, 3_000)


def test_offline_refuses_what_spoils_the_packing() -> None:
    pods = (*[trace_pod(600)] * 3, *[trace_pod(500)] * 6)
    cluster = ReplayCluster(make_trace(NODES, pods), FRAGMENTATION, knows_trace=True)

    found = replay_offline(cluster, seed=1)
    assert found is not None
    assert found.rate == pytest.approx(100)
    assert found.bound == pytest.approx(100)
    assert found.refused == 3


def test_an_experiment_gives_a_series_for_each_profile_and_one_for_fgd() -> None:
    trace = make_trace(NODES, [trace_pod(400), trace_pod(600), trace_pod(), trace_pod(500)])
    told: list[str] = []
    series = run_experiment(Experiment(trace=trace, seeds=(1, 2)), tell=told.append)

    assert [item.name for item in series] == ["fragmentation, learned", "fragmentation, trace", "fgd, trace"]
    assert [len(item.runs) for item in series] == [2, 2, 2]
    assert told[0] == "fragmentation, learned: seed 1"


def test_a_permuted_order_of_nodes_still_places_everything_that_fits() -> None:
    trace = make_trace(NODES, [trace_pod()] * 3)
    (series,) = run_experiment(
        Experiment(trace=trace, policy=FGD, profiles=("trace",), permuted=True, to_percent=100), with_fgd=False
    )

    assert series.runs[0].final == pytest.approx(100)


def test_the_picture_has_a_line_for_each_series_and_one_for_the_bound() -> None:
    series = run_experiment(Experiment(trace=make_trace(NODES, [trace_pod()] * 3)), with_fgd=True)

    picture = draw_plot(series, title="a < b")
    assert picture.count("<polyline") == 4
    assert "a &lt; b" in picture
    assert "fgd, trace" in picture


def test_the_summary_has_the_marks_that_all_runs_have_reached() -> None:
    pods = [trace_pod()] * 3
    runs = [replay_online(cluster_of(*pods), tuple(pods[:count])) for count in (3, 3)]

    ((mark, (middle, deviation)),) = summarize(runs).items()
    assert (mark, deviation) == (100, 0.0)
    assert middle == pytest.approx(100)
