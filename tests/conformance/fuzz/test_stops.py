"""What upstream does instead of answering is named, and the question is asked without what stops it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from claimsmith.cel import Program
from tests.conformance.fuzz import session as sessions
from tests.conformance.fuzz.engines import compare_engines
from tests.conformance.fuzz.session import Session
from tests.conformance.fuzz.stops import find_odd_keys, find_stops, without_stops

Json = dict[str, Any]

ZERO_STEP: Json = {
    "name": "step",
    "slices": [
        {
            "spec": {
                "devices": [
                    {
                        "name": "d",
                        "capacity": {
                            "memory": {
                                "value": "8Gi",
                                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "0"}},
                            },
                            "cores": {"value": "4", "requestPolicy": {"validRange": {"min": "1", "step": "1"}}},
                        },
                    },
                    {"name": "plain"},
                ]
            }
        },
        {"spec": {"sharedCounters": []}},
    ],
}
BYTES_KEY = 'size({b"a": {b"c": 2}}) == 1'


class Panicking:
    """Stands in for upstream: panics on expressions with bytes as keys, calls others false at no cost."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, question: Json) -> Json:
        text = question["expression"]
        self.asked.append(text)
        if "{b" in text:
            return {
                "verdict": "panic",
                "compileError": "panic: hash of unhashable type types.Bytes",
                "estimatedCost": 0,
            }
        return {"verdict": "false", "estimatedCost": 0, "outputType": "bool"}


def test_panics_are_named_without_what_is_particular_to_one() -> None:
    answers = [
        {"results": [{"verdict": "error", "errorKind": "panic", "error": f"panic: bad index {number} at 0x4f\ntrace"}]}
        for number in (3, 14)
    ]

    assert [find_stops(answer) for answer in answers] == [("panic: bad index N at N",)] * 2


def test_a_panic_of_any_phase_of_an_expression_is_found() -> None:
    answers: list[Json] = [
        {"verdict": "false", key: "panic: x"} for key in ("newCompileError", "compileError", "runtimeError")
    ]

    assert [find_stops(answer) for answer in answers] == [("panic: x",)] * 3


def test_a_search_out_of_time_is_a_stop() -> None:
    answer = {"results": [{"verdict": "feasible"}, {"verdict": "timeout"}]}

    assert find_stops(answer) == ("timeout",)


def test_an_error_is_an_answer() -> None:
    assert find_stops({"verdict": "compile-error", "compileError": "undeclared reference"}) == ()


def test_steps_of_zero_are_taken_away_and_no_others() -> None:
    before = deepcopy(ZERO_STEP)
    changed = without_stops(ZERO_STEP)

    assert changed is not None
    capacity = changed["slices"][0]["spec"]["devices"][0]["capacity"]
    assert capacity["memory"]["requestPolicy"]["validRange"] == {"min": "1Gi"}
    assert capacity["cores"]["requestPolicy"]["validRange"] == {"min": "1", "step": "1"}
    assert before == ZERO_STEP


def test_odd_keys_become_texts_and_an_inner_one_too() -> None:
    question = {"name": "keys", "expression": BYTES_KEY}

    assert len(find_odd_keys(BYTES_KEY)) == 2
    assert without_stops(question) == {"name": "keys", "expression": 'size({"key 1": {"key 0": 2}}) == 1'}


def test_an_expression_without_odd_keys_cannot_be_asked_otherwise() -> None:
    assert without_stops({"name": "plain", "expression": '{"a": 1u}["a"] == 1u'}) is None


def test_what_stops_upstream_is_asked_again_without_it_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    upstream = Panicking()
    question = {"name": "keys", "features": "all", "driver": "d", "device": {"name": "d"}, "expression": BYTES_KEY}

    judgement = Session("expressions", 1, upstream).judge(question)
    assert upstream.asked[:2] == [BYTES_KEY, 'size({"key 1": {"key 0": 2}}) == 1']
    assert judgement.stops == ("panic: hash of unhashable type types.Bytes, answers when asked otherwise",)
    assert [text for text in judgement.differences if text.startswith("asked otherwise: true (), upstream: false")]


def test_an_expression_with_a_time_zone_is_asked_again_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    upstream = Panicking()
    text = 'timestamp(0).getHours("Europe/Berlin") == 1'
    question = {"name": "zone", "features": "all", "driver": "d", "device": {"name": "d"}, "expression": text}

    judgement = Session("expressions", 1, upstream).judge(question)
    assert upstream.asked == [text, 'timestamp(0).getHours("UTC") == 1']
    assert judgement.deviations == ("time-zone",)
    assert [found for found in judgement.differences if found.startswith("asked otherwise: estimated cost")]


def test_engines_that_agree_show_no_difference() -> None:
    texts = ["device.driver == 'd'", "[3, 1].sort() == [1, 3]", '1 / int(device.driver) == 2 || device.driver == "d"']
    questions = [
        {"name": text, "features": "all", "driver": "d", "device": {"name": "d"}, "expression": text} for text in texts
    ]

    assert [compare_engines(question) for question in questions] == [[], [], []]


def test_a_compiled_expression_that_says_otherwise_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "evaluate_value", lambda program, device: "x")
    question = {"name": "c", "features": "all", "driver": "d", "device": {"name": "d"}, "expression": "1 < 2"}

    assert compare_engines(question) == ["compiled, device 0: 'x', interpreted True"]
