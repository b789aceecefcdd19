"""What each rule refuses of parts of boards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.errors import FieldError, ReplayError
from claimsmith.model.decision import Allocation
from claimsmith.replay.mig import EXPECTED, REPACKED, RULES, MigOptions, MigResult, replay_mig
from claimsmith.replay.mig_arrivals import Arrival, Mix, get_mix
from claimsmith.replay.mig_boards import build_board_claim, build_boards
from claimsmith.replay.mig_books import Books
from claimsmith.replay.mig_rules import decide_picked

EVENTS = 60
OPTIONS = MigOptions(mix=get_mix("large"), load=1.5, events=EVENTS, boards=2, moves=1)


@pytest.fixture(scope="module")
def results() -> tuple[MigResult, ...]:
    return replay_mig(OPTIONS)


def start(books: Books, number: int, profile: str, device: str) -> Allocation:
    """Decide for a request on the only board, with one device tried first."""
    claim = build_board_claim(Arrival(number=number, at=0.0, until=1.0, profile=profile))
    cluster = PreparedCluster.from_snapshot(build_boards(1))
    decision = decide_picked(cluster, claim, books.nodes["node-000"], device)
    assert isinstance(decision, Allocation)
    books.add(claim, decision)
    return decision


def test_each_rule_has_a_result_then_ours_with_moves_then_repacking(results: tuple[MigResult, ...]) -> None:
    assert [item.rule for item in results] == [*RULES, "claimsmith, one move", REPACKED, EXPECTED]


def test_repacking_on_average_is_the_same_for_every_run() -> None:
    options = replace(OPTIONS, boards=1, events=10_000, seeds=(1, 2), moves=0)
    options = replace(options, mix=Mix(name="whole boards", shares=(0, 0, 0, 0, 0, 1)), load=1.0)
    drawn, expected = replay_mig(options, rules=())

    assert expected.refused == (4000, 4000)
    assert drawn.refused != expected.refused
    assert expected.refused_slices == 7 * 8000


def test_the_first_fifth_is_not_counted(results: tuple[MigResult, ...]) -> None:
    assert {item.requests for item in results} == {EVENTS - EVENTS // 5}


def test_every_allocation_is_checked(results: tuple[MigResult, ...]) -> None:
    whole = replay_mig(replace(OPTIONS, events=10, load=0.1), rules=("claimsmith",))[0]

    assert whole.verified == 10
    assert all(
        EVENTS // 5 < item.verified <= EVENTS + item.moved for item in results if item.rule not in (REPACKED, EXPECTED)
    )


def test_moves_make_room(results: tuple[MigResult, ...]) -> None:
    ours, moving = results[-4], results[-3]

    assert moving.moved > 0
    assert moving.refused_slices < ours.refused_slices


def test_a_run_can_be_repeated(results: tuple[MigResult, ...]) -> None:
    assert replay_mig(OPTIONS, rules=("first fit", "claimsmith"))[:2] == (results[0], results[3])


def test_each_seed_is_a_run_of_its_own() -> None:
    both = replay_mig(replace(OPTIONS, seeds=(1, 2), moves=0), rules=("first fit",))[0]
    second = replay_mig(replace(OPTIONS, seeds=(2,), moves=0), rules=("first fit",))[0]

    assert both.refused[1:] == second.refused


def test_one_move_is_the_most() -> None:
    with pytest.raises(FieldError, match="moves: found 2, allowed 0 or 1"):
        replace(OPTIONS, moves=2)


def test_no_seed_is_no_run() -> None:
    with pytest.raises(FieldError, match="seeds: found"):
        replace(OPTIONS, seeds=())


def test_the_device_that_a_rule_names_is_tried_first() -> None:
    decision = start(Books(build_boards(1)), 0, "1g.10gb", "gpu-0-mig-1g10gb-5")

    assert decision.results[0].results[0].device == "gpu-0-mig-1g10gb-5"


def test_books_refuse_an_allocation_that_breaks_a_rule() -> None:
    books = Books(build_boards(1))
    start(books, 0, "3g.40gb", "gpu-0-mig-3g40gb-4")

    with pytest.raises(ReplayError, match="request-1: its allocation breaks a rule"):
        start(books, 1, "2g.20gb", "gpu-0-mig-2g20gb-4")


def test_what_is_given_back_is_free_again() -> None:
    books = Books(build_boards(1))
    start(books, 0, "3g.40gb", "gpu-0-mig-3g40gb-4")
    (holder,) = books.list_holders()
    books.remove(holder.claim.ref)
    start(books, 1, "2g.20gb", "gpu-0-mig-2g20gb-4")

    assert books.held == {"node-000": {"gpu-0-mig-2g20gb-4"}}
