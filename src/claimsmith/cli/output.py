"""Printing: tables for people, JSON and YAML for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum

__all__ = ["Format", "print_table", "print_value"]


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def print_value(value: object, output: Format) -> None:
    """Print a JSON value as JSON (indented, one final newline) or YAML."""
    if output is Format.YAML:
        import yaml

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True, width=120)
        return
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print a table that also reads well when it goes to a file."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
