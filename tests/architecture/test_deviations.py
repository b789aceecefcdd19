"""docs/deviations.md: every entry has an id of its own and a test that is there; code and text name the same ids."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from claimsmith.model.deviations import Deviation
from claimsmith.testing.conformance.deviations import HEADINGS

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src" / "claimsmith"
PAGE: Final = ROOT / "docs" / "deviations.md"
_DEVIATES: Final = re.compile(r"^Deviates: (.+)\.$", re.MULTILINE)
_LAST_LINE: Final = re.compile(r"  `(?P<id>[a-z0-9]+(?:-[a-z0-9]+)*)`: `(?P<test>\S+)`")


class Entry(NamedTuple):
    """One entry of the page; id and test are empty where its last line does not name them."""

    heading: str
    id: str
    test: str


def parse_entries(text: str) -> list[Entry]:
    """Return the entries of a page."""
    found = []
    for item in re.findall(r"^- \*\*.*(?:\n  .*)*", text, re.MULTILINE):
        lines = item.splitlines()
        named = _LAST_LINE.fullmatch(lines[-1])
        heading = lines[0].removeprefix("- **").partition("**")[0]
        found.append(Entry(heading, named["id"] if named else "", named["test"] if named else ""))
    return found


ENTRIES: Final = parse_entries(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.heading for entry in ENTRIES])
def test_an_entry_ends_with_its_id_and_a_test_that_is_there(entry: Entry) -> None:
    file, _, function = entry.test.partition("::")

    assert entry.id, "the last line of an entry is  `id`: `tests/….py::test_…`"
    assert (ROOT / file).is_file()
    assert not function or re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.M)


def test_every_id_is_given_once() -> None:
    ids = [entry.id for entry in ENTRIES]

    assert sorted(set(ids)) == sorted(ids)


def test_every_deviation_of_the_allocator_has_its_entry() -> None:
    headings = {entry.id: entry.heading for entry in ENTRIES}

    assert set(Deviation) <= set(HEADINGS)
    assert {id: headings.get(id) for id in HEADINGS} == dict(HEADINGS)


def test_the_code_that_deviates_names_the_id() -> None:
    """The allocator by values, other modules by `Deviates: id, id.` at the end of their docstring."""
    docstrings = [ast.get_docstring(ast.parse(file.read_bytes())) or "" for file in SOURCE.rglob("*.py")]
    named = [id for text in docstrings for line in _DEVIATES.findall(text) for id in line.split(", ")]

    assert sorted(set(named)) == sorted(named)
    assert {*named, *Deviation} == {entry.id for entry in ENTRIES}


def test_an_entry_without_a_last_line_is_seen() -> None:
    text = "# Page\n\n- **A thing** is so.\n  `a-thing`: `tests/a.py::test_a`\n- **Another**: is\n  otherwise.\n"

    assert parse_entries(text) == [Entry("A thing", "a-thing", "tests/a.py::test_a"), Entry("Another", "", "")]
