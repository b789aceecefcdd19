"""The figures of an agent on a node: goals, the file and the table."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.node_figures import NodeFigure, is_met, print_node_figures, write_node_figures


def figure(ours: float, *, goal: float | None = 1.0) -> NodeFigure:
    return NodeFigure(
        name="start", ours=ours, worst=ours * 2, goal=goal, go_here=1.5, go="1.03", unit="s", work="from start to end"
    )


@pytest.mark.parametrize(
    ("ours", "goal", "met"), [(0.9, 1.0, True), (1.0, 1.0, True), (1.1, 1.0, False), (9, None, True)]
)
def test_less_than_the_goal_meets_it(ours: float, goal: float | None, met: bool) -> None:
    assert is_met(figure(ours, goal=goal)) is met


def test_all_figures_are_in_one_file_with_their_peers(tmp_path: Path) -> None:
    write_node_figures([figure(0.5), figure(2.0)], tmp_path / "bench", machine="a machine")
    found = json.loads((tmp_path / "bench" / "node.json").read_text())

    assert [item["met"] for item in found["figures"]] == [True, False]
    assert (found["machine"], found["figures"][0]["go"]) == ("a machine", "1.03")
    assert set(found["peers"]) == {"go_here", "go", "pydra"}


def test_the_table_shows_ours_goal_and_peers_and_what_was_done() -> None:
    out = io.StringIO()
    print_node_figures([figure(2.0)], Console(file=out, width=120), machine="a machine")
    row = next(line.split() for line in out.getvalue().splitlines() if line.startswith(" start"))

    assert row == ["start", "2", "4", "1", "1.5", "s", "1.03", "–", "NO"]
    assert "start: from start to end" in out.getvalue()
