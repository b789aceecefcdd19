"""Tables for people, JSON and YAML for machines."""

from __future__ import annotations

import json

import pytest
import yaml

from claimsmith.cli.output import Format, print_table, print_value

VALUE = {"devices": [{"name": "gpu-0", "attributes": {"model": "A100 [x]", "numaNode": 0, "rdma": False}}]}


def test_json_is_indented_and_ends_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_value(VALUE, Format.JSON)

    text = capsys.readouterr().out
    assert json.loads(text) == VALUE
    assert text.startswith('{\n  "devices": [')
    assert text.endswith("}\n")


def test_yaml_keeps_the_order_of_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    print_value({"z": "ü", "a": VALUE}, Format.YAML)

    text = capsys.readouterr().out
    assert yaml.safe_load(text) == {"z": "ü", "a": VALUE}
    assert text.startswith("z: ü\na:\n")


def test_a_table_shows_cells_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "WHY"), [("gpu[0]", "[bold]not markup[/bold] :100:"), ("b", "two\nlines")])

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1].split() == ["NAME", "WHY"]
    assert lines[3:6] == ["gpu[0]   [bold]not markup[/bold] :100:", "b        two", "lines"]


def test_a_table_in_a_file_is_wide_and_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "WHY"), [("a", "x" * 150)])

    text = capsys.readouterr().out
    assert "x" * 150 in text
    assert "\x1b" not in text
