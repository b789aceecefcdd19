"""The sources as they are obey the rules."""

from __future__ import annotations

import pytest

from tests.architecture.rules import SOURCE_RULES, Rule, find_foreign_places, find_test_habits
from tests.architecture.tree import ROOT, walk_text

TIERS = ("unit", "property", "scenarios", "conformance", "cases", "architecture", "cluster")


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_sources_obey(rule: Rule) -> None:
    findings = [finding for path, text in walk_text("src", suffix=".py") for finding in rule(path, text)]

    assert not findings, "\n".join(findings)


def test_every_folder_of_modules_is_a_package() -> None:
    # The import graph leaves out a folder without __init__.py, so no contract would see it.
    folders = {(ROOT / path).parent for path, _ in walk_text("src/claimsmith", suffix=".py")}

    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_no_test_sleeps_or_mocks() -> None:
    findings = [finding for path, text in walk_text("tests", suffix=".py") for finding in find_test_habits(path, text)]

    assert not findings, "\n".join(findings)


def test_no_file_names_a_machine_or_a_registry() -> None:
    findings = [finding for path, text in walk_text() for finding in find_foreign_places(path, text)]

    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_has_tests(tier: str) -> None:
    assert list((ROOT / "tests" / tier).rglob("test_*.py"))
