"""Requests for parts of boards, drawn at random."""

from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.replay.mig_arrivals import BOARD_SLICES, MIXES, PROFILES, draw_arrivals, get_mix

EVENTS = 8_000
BOARDS = 100


def test_a_seed_gives_the_same_requests_again() -> None:
    first, second, other = (
        draw_arrivals(get_mix("small"), load=0.9, boards=BOARDS, events=50, seed=seed) for seed in (1, 1, 2)
    )

    assert first == second != other


@pytest.mark.parametrize("name", sorted(MIXES))
def test_what_is_offered_is_the_load(name: str) -> None:
    arrivals = draw_arrivals(get_mix(name), load=0.9, boards=BOARDS, events=EVENTS, seed=1)
    offered = sum(item.slices * (item.until - item.at) for item in arrivals) / arrivals[-1].at

    assert offered / (BOARD_SLICES * BOARDS) == pytest.approx(0.9, rel=0.05)


@pytest.mark.parametrize("name", sorted(MIXES))
def test_sizes_come_as_often_as_the_mix_says(name: str) -> None:
    mix = get_mix(name)
    arrivals = draw_arrivals(mix, load=0.9, boards=BOARDS, events=EVENTS, seed=1)
    shares = [sum(item.profile == size for item in arrivals) / EVENTS for size in PROFILES]

    assert shares == pytest.approx([share / sum(mix.shares) for share in mix.shares], abs=0.02)


def test_requests_come_in_order_and_go_after_they_came() -> None:
    arrivals = draw_arrivals(get_mix("uniform"), load=0.9, boards=BOARDS, events=500, seed=1)

    assert [item.at for item in arrivals] == sorted(item.at for item in arrivals)
    assert all(item.at < item.until for item in arrivals)


def test_a_mix_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(FieldError, match=r"mix: found 'odd', allowed uniform, small, .*, no-7g, five-sizes"):
        get_mix("odd")


@pytest.mark.parametrize(("field", "value"), [("load", 0.0), ("boards", 0), ("events", 0)])
def test_numbers_out_of_bounds_are_refused(field: str, value: float) -> None:
    numbers = {"load": 0.9, "boards": BOARDS, "events": 10, field: value}

    with pytest.raises(FieldError, match=rf"{field}: found {value}, allowed > 0"):
        draw_arrivals(get_mix("uniform"), seed=1, **numbers)  # type: ignore[arg-type]
