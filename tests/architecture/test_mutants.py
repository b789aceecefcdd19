"""The list of mutants fits the sources as they are, and covers what it has to cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, Verdict, find_faults, judge, mutate, read_mutants

CHECKS = set(range(1, 19))
CEL_RULES = 12


def test_every_mutant_can_be_made_and_has_tests_that_exist() -> None:
    faults = [fault for mutant in read_mutants() for fault in find_faults(mutant)]

    assert not faults, "\n".join(faults)


def test_no_two_mutants_have_one_title() -> None:
    titles = [mutant.title for mutant in read_mutants()]

    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("name", ["search", "verify"])
def test_every_check_of_an_allocation_is_broken(name: str) -> None:
    assert {mutant.check for mutant in read_mutants([name])} == CHECKS


def test_enough_rules_of_the_selector_language_are_broken() -> None:
    assert len(read_mutants(["cel"])) >= CEL_RULES


MUTANT = Mutant(list_name="cel", rule="r", file="f.py", old="x = 1\n", new="x = 2\n", tests=("t.py::test_x",))


@pytest.mark.parametrize(
    ("text", "tests", "fault"),
    [
        ("y = 1\n", "def test_x() -> None: ...\n", "found its old text 0 times"),
        ("x = 1\nx = 1\n", "def test_x() -> None: ...\n", "found its old text 2 times"),
        ("x = 1\n", "def test_xy() -> None: ...\n", "no test t.py::test_x"),
        ("x = 1\n", "", "no test t.py::test_x"),
    ],
)
def test_a_stale_mutant_is_a_fault(tmp_path: Path, text: str, tests: str, fault: str) -> None:
    (tmp_path / "f.py").write_text(text)
    (tmp_path / "t.py").write_text(tests)

    assert [fault in found for found in find_faults(MUTANT, tmp_path)] == [True]


def test_a_mutant_changes_the_one_place() -> None:
    assert mutate(MUTANT, "a\nx = 1\nb\n") == "a\nx = 2\nb\n"


@pytest.mark.parametrize(
    ("status", "output", "verdict"),
    [
        (0, "", Verdict.SURVIVED),
        (1, "FAILED t.py::test_x - AssertionError", Verdict.CAUGHT),
        (1, "FAILED t.py::test_x[a] - AssertionError", Verdict.CAUGHT),
        (1, "FAILED t.py::test_x", Verdict.CAUGHT),
        (1, "FAILED t.py::test_xy - AssertionError", Verdict.SURVIVED),
        (1, "FAILED t.py::test_x - NameError: name 'y' is not defined", Verdict.BROKEN),
        (2, "ERROR t.py", Verdict.BROKEN),
        (4, "", Verdict.BROKEN),
    ],
)
def test_a_mutant_is_caught_only_by_a_failure_of_its_tests(status: int, output: str, verdict: Verdict) -> None:
    assert judge(MUTANT, status, output)[0] is verdict


def test_each_of_its_tests_must_catch_a_mutant() -> None:
    both = replace(MUTANT, tests=("t.py::test_x", "t.py::test_y"))

    assert judge(both, 1, "FAILED t.py::test_x - why") == (Verdict.SURVIVED, ("t.py::test_y",))
