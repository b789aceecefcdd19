"""Reasons in tables: short, and with the command that tells the rest."""

from __future__ import annotations

from claimsmith.cli.short_reasons import shorten_reason


def test_a_short_reason_stays_as_it_is() -> None:
    text = "0/1 nodes can serve the claims; gpu-0 in use by default/held"

    assert shorten_reason(text, "pod/default/p") == text


def test_a_long_reason_is_cut_between_pieces_and_points_to_explain() -> None:
    text = "; ".join(f"node n{number} has too little cpu left" for number in range(40))
    short = shorten_reason(text, "pod/default/p")

    assert len(short) < 470
    assert short.endswith("has too little cpu left … (in full: claimsmith explain pod/default/p)")


def test_a_piece_that_is_too_long_is_cut_between_words() -> None:
    short = shorten_reason("word " * 200, "pod/default/p")

    assert short.endswith("word word … (in full: claimsmith explain pod/default/p)")


def test_a_reason_that_was_cut_before_points_to_explain_too() -> None:
    short = shorten_reason("0/9 nodes can serve the claims; a: gpu-0 in use …", "claim/default/c", when="once it waits")

    assert short.endswith("gpu-0 in use … (in full: claimsmith explain claim/default/c once it waits)")


def test_where_explain_would_see_another_cluster_json_tells_the_rest() -> None:
    assert shorten_reason("a; b …", "") == "a; b … (in full: -o json)"
