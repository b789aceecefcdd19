"""The recorded choice of drawn questions: small, of one seed, and made of what comes together in them."""

from __future__ import annotations

import json
from collections import Counter

from tests.conformance.fuzz.record import SEED, TARGET, tag_question
from tests.conformance.recorded import read_lines

BYTES_MAX = 200_000


def test_the_choice_is_small_and_of_one_seed() -> None:
    kinds = Counter(json.loads(line)["name"].rpartition("-")[0] for line in read_lines("drawn"))

    assert set(kinds) == {f"problems-{SEED}", f"expressions-{SEED}"}
    assert min(kinds.values()) >= 200
    assert TARGET.stat().st_size < BYTES_MAX


def test_a_problem_is_tagged_with_what_it_asks_for_and_what_it_gets() -> None:
    question = {"slices": [{"taints": []}], "claims": [{"allocationMode": "All", "selectors": []}], "name": "x"}
    results = [{"verdict": "feasible", "steps": 12, "allocation": [{"devices": {"shareID": "1", "pool": "p"}}]}]

    tags = tag_question(question, {"impl": "stable", "results": results})
    assert tags == {"stable", "taints", "All", "selectors", "answer feasible  2", "given shareID"}


def test_an_expression_is_tagged_with_its_functions_and_its_verdict() -> None:
    question = {"expression": 'size("a") == 1 && device.driver.startsWith("x")'}

    tags = tag_question(question, {"verdict": "false", "outputType": "bool"})
    assert tags == {"false", "bool", "size", "==", "&&", "startsWith"}
