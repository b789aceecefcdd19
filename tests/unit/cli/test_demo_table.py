"""The final table of the demo."""

from __future__ import annotations

from claimsmith.cli.demo_table import find_rows
from claimsmith.daemons.onlooker import SeenPod
from claimsmith.model.names import PodRef

UUID = "GPU-36f8951f-ac29-57a5-8246-aee52501bce6"


def seen(name: str, *, device: str = "net/nic-0", env: tuple[str, ...] = ("CLAIMSMITH_NIC_0=eth0",)) -> SeenPod:
    return SeenPod(pod=PodRef("default", name), node="net", devices=(device,), env=env)


def test_numbered_pods_that_got_the_same_share_a_row() -> None:
    rows = find_rows([seen(f"stream-{number:02d}") for number in range(20)])

    assert rows == (("stream-00…19", "net", "nic-0", "NIC_0=eth0"),)


def test_pods_that_came_out_of_order_are_named_in_order() -> None:
    assert find_rows([seen("s-2"), seen("s-0"), seen("s-1")])[0][0] == "s-0…2"


def test_two_pods_have_a_row_each() -> None:
    assert [row[0] for row in find_rows([seen("train-0"), seen("train-1")])] == ["train-0", "train-1"]


def test_pods_without_numbers_have_a_row_each() -> None:
    assert [row[0] for row in find_rows([seen("left"), seen("right"), seen("middle")])] == ["left", "right", "middle"]


def test_pods_that_got_something_else_have_a_row_of_their_own() -> None:
    rows = find_rows([seen("s-0"), seen("s-1", device="net/nic-1"), seen("s-2")])

    assert [(row[0], row[2]) for row in rows] == [("s-0", "nic-0"), ("s-1", "nic-1"), ("s-2", "nic-0")]


def test_a_pool_is_shown_when_it_is_not_the_nodes_own() -> None:
    assert find_rows([seen("a", device="rack/nic-0")])[0][2] == "rack/nic-0"


def test_uuids_are_cut_and_the_list_of_all_is_left_out_beside_single_ones() -> None:
    env = (f"CLAIMSMITH_VISIBLE_DEVICES={UUID}", f"CLAIMSMITH_GPU_12={UUID}")

    assert find_rows([seen("a", env=env)])[0][3] == "GPU_12=GPU-36f8951f…"


def test_the_list_of_all_is_shown_when_there_is_nothing_else() -> None:
    env = (f"CLAIMSMITH_VISIBLE_DEVICES={UUID}",)

    assert find_rows([seen("a", env=env)])[0][3] == "VISIBLE_DEVICES=GPU-36f8951f…"
