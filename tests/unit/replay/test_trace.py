"""Reading traces, and the order in which their pods arrive."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from claimsmith.errors import TraceError
from claimsmith.replay.arrivals import draw_arrivals, permute, read_curve
from claimsmith.replay.trace import find_trace_names, read_trace
from tests.unit.replay.small_trace import make_trace, trace_node, trace_pod, write_trace

SMALL = make_trace([trace_node()], [trace_pod(), trace_pod(400), trace_pod(0)])


def test_nodes_come_by_name_and_pods_in_their_order(tmp_path: Path) -> None:
    write_trace(tmp_path, nodes="b,8000,1024,2,T4\na,16000,2048,8,G2", pods="p,4000,512,1,460,T4|G2\nq,1000,256,0,0,")

    trace = read_trace(tmp_path)
    assert [(node.name, node.gpus, node.model) for node in trace.nodes] == [("a", 8, "G2"), ("b", 2, "T4")]
    assert [(pod.gpus, pod.gpu_milli, pod.models) for pod in trace.pods] == [(1, 460, ("G2", "T4")), (0, 0, ())]
    assert trace.capacity_milli == 10_000


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("a,8000,1024,2,T4", "p,4000,512,1,1460,", r"line 2: column gpu_milli: found '1460', allowed a whole number"),
        ("a,8000,1024,2,T4", "p,-1,512,1,460,", r"column cpu_milli: found '-1'"),
        ("a,8000,1024,2,T4", "p,1,512,2,0,", r"found gpu_milli 0 for 2 GPUs, allowed 1 to 1000"),
        ("a,8000,1024,99,T4", "p,1,512,1,500,", r"column gpu: found '99'"),
        (",8000,1024,2,T4", "p,1,512,1,500,", r"found no sn or no model"),
    ],
)
def test_a_line_that_can_not_be_read_is_named(tmp_path: Path, nodes: str, pods: str, message: str) -> None:
    write_trace(tmp_path, nodes=nodes, pods=pods)

    with pytest.raises(TraceError, match=message):
        read_trace(tmp_path)


def test_a_trace_that_is_not_there_is_told_beside_those_that_are(tmp_path: Path) -> None:
    write_trace(tmp_path, nodes="", pods="", name="other")

    with pytest.raises(TraceError, match=r"found no trace 'default', allowed other"):
        read_trace(tmp_path)
    assert find_trace_names(tmp_path) == ("other",)


def test_a_trace_without_nodes_file_can_not_be_read(tmp_path: Path) -> None:
    (write_trace(tmp_path, nodes="", pods="") / "openb_node_list_gpu_node.csv").unlink()

    with pytest.raises(TraceError, match=r"openb_node_list_gpu_node\.csv: can't be read"):
        read_trace(tmp_path)


def test_the_whole_trace_arrives_then_pods_of_it_again_up_to_the_limit() -> None:
    arrivals = draw_arrivals(SMALL, seed=1, to_percent=300)

    assert Counter(arrivals[:3]) == Counter(SMALL.pods)
    assert 5_000 < sum(pod.total_milli for pod in arrivals) <= 6_000


def test_equal_seeds_give_equal_arrivals_and_others_do_not() -> None:
    first, again, other = (draw_arrivals(SMALL, seed=seed, to_percent=2_000) for seed in (1, 1, 2))

    assert first == again != other


def test_pods_without_gpu_alone_arrive_once() -> None:
    trace = make_trace([trace_node()], [trace_pod(0)] * 3)

    assert len(draw_arrivals(trace, seed=1)) == 3


def test_a_permutation_has_the_same_items() -> None:
    items = tuple(range(20))

    assert sorted(permute(items, 1)) == list(items) != list(permute(items, 1))


def test_the_rate_at_a_mark_is_the_mean_over_its_arrivals() -> None:
    curve = read_curve([996, 1_000, 1_004, 1_010], [990, 990, 996, 996], 1_000)

    assert curve == {100: pytest.approx(99.2), 101: pytest.approx(99.6)}
