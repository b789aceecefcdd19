"""What docs/agent.md says of the agent is what the agent knows: each field, each flag, and the example."""

from __future__ import annotations

import argparse
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec

from claimsmith.cli.agent import build_agent_parser
from claimsmith.daemons.agent_config import create_configured, read_agent_config
from claimsmith.daemons.agent_sections import ConfigContent

PAGE = (Path(__file__).parents[3] / "docs" / "agent.md").read_text(encoding="utf-8")
_UNSAID = {"--help", "--config", "--plugin", "--settings", "--print-manifests", "--namespace", "--image"}
"""Flags that the text shows in its commands."""


def fields_of(section: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """Yield the paths of all fields; a section whose only field is `enabled` is told by that one."""
    for field in msgspec.structs.fields(section):
        inner, is_list = inner_section(field.type)
        name = f"{path}{field.encode_name}"
        if inner is None or is_list or field.default is None:
            yield name
        if inner is not None:
            yield from fields_of(inner, f"{name}{'[]' if is_list else ''}.")


def inner_section(annotation: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """Return the section that a field holds, if it does, and whether it is a list of them."""
    if typing.get_origin(annotation) is list:
        (item,) = typing.get_args(annotation)
        return (item, True) if isinstance(item, type) and issubclass(item, msgspec.Struct) else (None, False)
    options = [option for option in typing.get_args(annotation) or (annotation,) if option is not NoneType]
    found = [option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct)]
    return (found[0], False) if found else (None, False)


def first_cells(*, heading: str) -> list[str]:
    """Return the first cells of the table with a heading, without the marks around code."""
    rows = PAGE[PAGE.index(heading) :].split("\n\n", 1)[0].splitlines()[2:]
    return [row.split("|")[1].strip() for row in rows]


def test_the_table_has_every_field_and_no_other() -> None:
    told = [cell.strip("`") for cell in first_cells(heading="| field below `spec`")]

    assert sorted(told) == sorted(fields_of(ConfigContent))


def test_the_page_has_every_flag_and_no_other() -> None:
    told = set(re.findall(r"`(--?[a-z-]+)`", " ".join(first_cells(heading="| flag | meaning"))))
    known = {
        action.option_strings[-1] if action.option_strings[-1] != "--verbose" else "-v"
        for action in build_agent_parser()._actions
        if not isinstance(action, argparse._SubParsersAction)
    }

    assert told == known - _UNSAID


def test_the_example_is_taken(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml file=agent\.yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "agent.yaml").write_text(text)
    (made,) = create_configured(read_agent_config(tmp_path / "agent.yaml"), node_name="node-a")

    assert made.fronts.device_plugin is not None
    assert made.fronts.report is not None
