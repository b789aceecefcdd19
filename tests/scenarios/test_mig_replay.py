"""Parts of boards that come and go: ours refuses no more than first fit, whatever is asked for; and the command."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest

from claimsmith.replay.mig import EXPECTED, REPACKED, RULES, MigOptions, MigResult, replay_mig
from claimsmith.replay.mig_arrivals import MIXES, get_mix
from tests.scenarios.cli_process import call_claimsmith

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


def test_the_command_prints_what_each_rule_refuses() -> None:
    ran = call_claimsmith("replay", "--mig", "large", "--events", "20", "--seeds", "1-2", "-o", "json")
    (mix,) = json.loads(ran.out)

    assert (ran.code, mix["mix"], mix["seeds"]) == (0, "large", [1, 2])
    assert [item["rule"] for item in mix["results"]] == [*RULES, REPACKED, EXPECTED]
    assert [item["requests"] for item in mix["results"]] == [32] * 6


def test_a_run_in_which_the_boards_never_fill_says_so() -> None:
    ran = call_claimsmith("replay", "--mig", "small", "--events", "20")

    assert "small: the boards never fill, so that nothing is refused; ask for more --events" in ran.err


def test_the_command_prints_a_table() -> None:
    ran = call_claimsmith("replay", "--mig", "small", "--events", "20", "--moves", "1")

    assert ran.code == 0
    assert "claimsmith, one move" in ran.out
    assert "small: first fit" in ran.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--mig", "odd"),
            "claimsmith: --mig: found 'odd', allowed uniform, small, bimodal, large, no-7g, five-sizes, all;",
        ),
        (("--mig", "large", "folder"), "claimsmith: --mig: found 'large', allowed either a mix or a folder;"),
        ((), "claimsmith: replay: found neither TRACE_FOLDER nor --mig, allowed one of them; name the folder or a mix"),
        (("--mig", "small", "--policy", "pack"), "claimsmith: replay: found --policy, which counts for nothing here,"),
        (("--mig", "small", "--offline"), "claimsmith: replay: found --offline, which counts for nothing here,"),
        (("openb", "--moves", "1"), "claimsmith: replay: found --moves, which counts for nothing here,"),
    ],
)
def test_the_command_refuses_what_it_can_not_replay(arguments: tuple[str, ...], complaint: str) -> None:
    ran = call_claimsmith("replay", *arguments)

    assert (ran.code, ran.err.startswith(complaint)) == (2, True)
