"""The gates of a release are those that upstream's scheduler has when it emulates the release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from claimsmith.model.features import Features, find_release_features

RECORDED: Final[dict[str, dict[str, bool]]] = json.loads(Path(__file__).with_name("features.json").read_text())
RELEASES: Final = ("1.34", "1.35", "1.36", "1.37")


@pytest.mark.parametrize("release", RELEASES)
def test_gates_of_a_release_are_upstreams(release: str) -> None:
    found = find_release_features(release)

    assert found is not None
    assert found.gates() == RECORDED[release]


def test_gates_that_nobody_names_are_those_of_the_newest_release() -> None:
    assert Features().gates() == RECORDED[RELEASES[-1]]


def test_a_cluster_that_cant_be_rolled_back_has_fractional_ranges_too() -> None:
    without_rollback = Features.parse(RECORDED["1.37 without rollback"])

    assert without_rollback == replace(Features(), fractional_capacity_range=True)


def test_a_release_that_is_not_known_has_no_gates() -> None:
    assert find_release_features("1.33") is None
