"""The comparison: questions come from their seed; a difference is found, shrunk, written down and asked again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.testing.conformance.deviations import HEADINGS
from claimsmith.testing.conformance.records import parse_problem
from tests.conformance.fuzz import session as sessions
from tests.conformance.fuzz.__main__ import print_summary
from tests.conformance.fuzz.expressions import draw_question
from tests.conformance.fuzz.judging import OF_SELECTORS, Judgement, judge_answer
from tests.conformance.fuzz.manifest import write_manifest
from tests.conformance.fuzz.mutations import split_words
from tests.conformance.fuzz.problems import draw_near_border, draw_problem
from tests.conformance.fuzz.session import Progress, Session
from tests.conformance.fuzz.shrink import shrink_expression, shrink_problem
from tests.conformance.fuzz.words import Chance

Json = dict[str, Any]

PROBLEMS = 60
EXPRESSIONS = 200


class Contrary:
    """Stands in for upstream: refuses every problem, and calls every expression true at no cost."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, question: Json) -> Json:
        self.asked.append(question["name"])
        if "expression" in question:
            return {"verdict": "true", "cost": 0, "estimatedCost": 0, "outputType": "bool"}
        nodes = [{"node": node["metadata"]["name"], "verdict": "infeasible", "steps": 1} for node in question["nodes"]]
        return {"impl": "incubating", "results": nodes}


def small_problem() -> Json:
    """One device, and one claim for it, among things that don't matter."""
    request = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    spare = {"name": "spare", "attributes": {"model": {"string": "A100"}}}
    return {
        "name": "small",
        "features": "default",
        "nodes": [{"metadata": {"name": "node-0"}}],
        "classes": [{"metadata": {"name": "any"}, "spec": {}}, {"metadata": {"name": "unused"}, "spec": {}}],
        "slices": [
            {"metadata": {"name": name},
             "spec": {"driver": "d.example", "pool": pool, "allNodes": True, "devices": devices}}
            for name, devices in (("a", [{"name": "wanted"}, spare]), ("b", [spare | {"name": "other"}]))
        ],
        "allocatedClaims": [],
        "claims": [
            {"metadata": {"name": "c", "namespace": "default"},
             "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("number", range(3))
def test_a_seed_always_gives_the_same_questions(number: int) -> None:
    name = f"test-{number}"

    assert draw_near_border(name, Contrary().ask) == draw_near_border(name, Contrary().ask)
    assert draw_question(name) == draw_question(name)


def test_a_pool_whose_only_devices_are_lost_repeats_none_of_them() -> None:
    problem, _ = draw_problem(Chance("problems-1-16053"), "lost")

    assert parse_problem(problem).slices


def test_every_problem_is_understood() -> None:
    problems = [draw_near_border(f"test-{number}", Contrary().ask) for number in range(PROBLEMS)]

    assert all(parse_problem(problem).claims for problem in problems)


def test_words_of_an_expression_are_its_text() -> None:
    texts = [draw_question(f"test-{number}")["expression"] for number in range(EXPRESSIONS)]

    assert ["".join(split_words(text)) for text in texts] == texts


def test_an_answer_that_is_not_ours_is_a_difference_in_both_modes() -> None:
    problem = small_problem()
    judgement = judge_answer(problem, Contrary().ask(problem))

    assert judgement.differences == (
        "node-0, like upstream: feasible, upstream: infeasible",
        "node-0, by default: feasible, upstream: infeasible",
    )


def test_an_error_that_need_not_end_an_allocation_is_a_named_deviation() -> None:
    problem = small_problem()
    problem["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": 'device.attributes["d.example"].model == "A100"'}}
    ]
    answer = Contrary().ask(problem)
    answer["results"][0] |= {"verdict": "error", "errorKind": "cel-runtime"}

    judgement = judge_answer(problem, answer)
    assert (judgement.differences, judgement.deviations) == ((), ("selector-error",))


def test_an_error_that_we_do_not_find_is_a_difference() -> None:
    problem = small_problem()
    answer = Contrary().ask(problem)
    answer["results"][0] |= {"verdict": "error", "errorKind": "no-class"}

    assert len(judge_answer(problem, answer).differences) == 2


def test_the_documentation_explains_what_random_expressions_deviate_in() -> None:
    text = (Path(__file__).parents[3] / "docs" / "deviations.md").read_text(encoding="utf-8")

    assert [heading for heading in OF_SELECTORS.values() if f"- **{heading}" not in text] == []
    assert [name for name in OF_SELECTORS if f"`{name}`" not in text] == []


def test_a_summary_names_every_deviation(capsys: pytest.CaptureFixture[str]) -> None:
    names = [*HEADINGS, *OF_SELECTORS]
    print_summary("problems", Progress(done=3, deviations=Counter(names), stops=Counter(["timeout, still stops"])))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "problems: 3 asked, 0 differ without an explanation"
    assert [line.split()[1].rstrip(":") for line in lines[1:-1]] == names
    assert not any(line.endswith(": None") for line in lines)
    assert lines[-1] == "       1 not compared at once: timeout, still stops"


def test_a_problem_shrinks_to_what_shows_the_difference() -> None:
    def still(problem: Json) -> bool:
        wanted = [request for claim in problem["claims"] for request in claim["spec"]["devices"]["requests"]]
        found = judge_answer(problem, Contrary().ask(problem)).differences
        return bool(wanted) and any(text.endswith(": feasible, upstream: infeasible") for text in found)

    smallest = shrink_problem(small_problem(), still)
    devices = [device for made in smallest["slices"] for device in made["spec"]["devices"]]
    assert len(devices) == 1
    assert "attributes" not in devices[0]
    assert [item["metadata"]["name"] for item in smallest["classes"]] == ["any"]


def test_an_expression_shrinks_to_the_part_that_shows_the_difference() -> None:
    question = {
        "name": "x", "features": "all", "driver": "d.example",
        "expression": '"a" == "b" || [1, 2].exists(v, v + 1 == 7)',
        "device": {"name": "device", "attributes": {"model": {"string": "A100"}}},
    }  # fmt: skip
    smallest = shrink_expression(question, lambda smaller: "exists" in smaller["expression"])

    assert len(smallest["expression"]) < len("[1, 2].exists(v, v + 1 == 7)")
    assert smallest["device"]["attributes"] == {}


def test_a_manifest_holds_all_objects_and_the_difference() -> None:
    text = write_manifest(small_problem(), {"impl": "stable"}, ["they differ"], seed=7)

    kinds = [document["kind"] for document in yaml.safe_load_all(text)]
    assert kinds == ["Node", "DeviceClass", "DeviceClass", "ResourceSlice", "ResourceSlice", "ResourceClaim"]
    assert text.startswith('# small, seed 7, features "default"\n# difference: they differ\n')


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    monkeypatch.setattr(sessions, "judge_answer", lambda question, answer: Judgement(verdict="true"))
    first = Contrary()
    list(Session("expressions", 1, first).run(5))
    second = Contrary()
    list(Session("expressions", 1, second).run(8))

    assert first.asked == [f"expressions-1-{number}" for number in range(5)]
    assert second.asked == [f"expressions-1-{number}" for number in range(5, 8)]


class Wavering:
    """Stands in for an upstream that walks pools at random: it refuses a problem twice before it allocates."""

    def __init__(self, impl: str) -> None:
        self.impl, self.asked = impl, 0

    def ask(self, question: Json) -> Json:
        self.asked += 1
        result: Json = {"node": "node-0", "verdict": "infeasible", "steps": 1}
        if self.asked > 2:
            result |= {"verdict": "feasible"}
        return {"impl": self.impl, "results": [result]}


def test_one_of_the_answers_of_a_random_walk_must_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    judgement = Session("problems", 1, Wavering("stable")).judge(small_problem())

    assert (judgement.differences, judgement.stops) == ((), (sessions.VARIES,))


def test_an_ordered_walk_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    upstream = Wavering("incubating")
    judgement = Session("problems", 1, upstream).judge(small_problem())

    assert len(judgement.differences) == 2
    assert upstream.asked == 1


def test_a_question_that_differed_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FOLDER", tmp_path)
    before = Session("expressions", 1, Contrary())
    written = "".join(before.run(3))
    monkeypatch.setattr(sessions, "judge_answer", lambda question, answer: Judgement(verdict="true"))
    after = Session("expressions", 1, Contrary())
    list(after.run(3))

    assert before.progress.open
    assert "kind: DeviceClass" in written
    assert (after.progress.done, after.progress.open) == (3, [])
    assert list((tmp_path / "differences").glob("*.yaml"))
