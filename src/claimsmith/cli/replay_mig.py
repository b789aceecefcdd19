"""`claimsmith replay --mig`: parts of boards that come and go, refused by one rule and by another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from claimsmith.cli.exits import tell
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.errors import FieldError

if TYPE_CHECKING:
    from claimsmith.replay.mig import MigOptions, MigResult

__all__ = ["ALL_MIXES", "replay_mixes"]

ALL_MIXES = "all"
"""Stands for every mix, one after the other."""


def replay_mixes(name: str, output: Format, *, load: float, events: int, seeds: tuple[int, ...], moves: int) -> None:
    """Replay a mix, or all of them, and print what each rule refuses.

    Raises:
        FieldError: There is no such mix, or a number is out of its bounds.
        ReplayError: An allocation breaks a rule, or no decision was made.
    """
    from claimsmith.replay.mig import MigOptions, replay_mig
    from claimsmith.replay.mig_arrivals import MIXES, get_mix

    if name not in (*MIXES, ALL_MIXES):
        raise FieldError("--mig", name, allowed=", ".join((*MIXES, ALL_MIXES)), hint="correct the name")
    names = tuple(MIXES) if name == ALL_MIXES else (name,)
    options = [MigOptions(mix=get_mix(mix), load=load, events=events, seeds=seeds, moves=moves) for mix in names]
    replayed = [(item, replay_mig(item, tell=tell)) for item in options]
    for item, results in replayed:
        if not results[0].total:
            tell(f"{item.mix.name}: the boards never fill, so that nothing is refused; ask for more --events")
    if output is not Format.TABLE:
        print_value([_describe(item, results) for item, results in replayed], output)
        return
    title = f"100 boards, load {load:g}, {events} requests, seeds {', '.join(map(str, seeds))}"
    columns = (
        "MIX",
        "RULE",
        "REFUSED",
        "OF",
        "%",
        "TO FIRST FIT",
        "SLICES LOST %",
        "TO FIRST FIT",
        "EACH SEED",
        "MOVES",
    )
    print_table(columns, [row for item, results in replayed for row in _list_rows(item, results)], title=title)


def _list_rows(options: MigOptions, results: Sequence[MigResult]) -> list[tuple[str, ...]]:
    base = results[0]
    return [
        (
            options.mix.name,
            item.rule,
            str(item.total),
            str(item.requests),
            _percent(item.total, item.requests),
            _change(item.total, base.total),
            _percent(item.refused_slices, item.slices),
            _change(item.refused_slices, base.refused_slices),
            _each_seed(item, base),
            str(item.moved) if item.moved else "",
        )
        for item in results
    ]


def _describe(options: MigOptions, results: Sequence[MigResult]) -> dict[str, Any]:
    return {
        "mix": options.mix.name,
        "boards": options.boards,
        "load": options.load,
        "events": options.events,
        "seeds": list(options.seeds),
        "results": [
            {
                "rule": item.rule,
                "requests": item.requests,
                "refused": item.total,
                "refusedBySeed": list(item.refused),
                "slices": item.slices,
                "refusedSlices": item.refused_slices,
                "moves": item.moved,
                "verifiedAllocations": item.verified,
            }
            for item in results
        ],
    }


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}" if whole else ""


def _change(found: int, base: int) -> str:
    return f"{100 * found / base - 100:+.0f} %" if base else ""


def _each_seed(item: MigResult, base: MigResult) -> str:
    return ", ".join(_change(found, first) for found, first in zip(item.refused, base.refused, strict=True))
