"""Parts of boards that come and go: ours refuses no more than first fit, whatever is asked for."""

from __future__ import annotations

from functools import lru_cache

import pytest

from claimsmith.replay.mig import MigOptions, MigResult, replay_mig
from claimsmith.replay.mig_arrivals import MIXES, get_mix

BOARDS = 20
EVENTS = 350


@lru_cache
def refused(mix: str) -> dict[str, int]:
    """Lost requests by rule, in a run that is short for its means to say much; the same in every run."""
    moves = int(mix == "large")
    options = MigOptions(mix=get_mix(mix), events=EVENTS, boards=BOARDS, moves=moves)
    results: tuple[MigResult, ...] = replay_mig(options, rules=("first fit", "claimsmith"))
    return {item.rule: item.total for item in results}


@pytest.mark.parametrize("mix", sorted(MIXES))
def test_ours_refuses_no_more_than_first_fit(mix: str) -> None:
    found = refused(mix)

    assert found["claimsmith"] <= found["first fit"]


@pytest.mark.parametrize("mix", ["uniform", "large"])
def test_ours_refuses_fewer_of_large_requests(mix: str) -> None:
    found = refused(mix)

    assert found["claimsmith"] < found["first fit"]


def test_one_move_a_refusal_saves_more() -> None:
    found = refused("large")

    assert found["claimsmith, one move"] < found["claimsmith"]
