"""The rules of `validate` say what the API server's own validation said about the same objects."""

from __future__ import annotations

import gzip
import json
from typing import Any

from claimsmith.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.validate import FieldIssue, validate_create, validate_status_update, validate_update
from tests.conformance.validation.full_objects import full_claim, full_slice
from tests.conformance.validation.record import ANSWERS

LINES = 2926


def judge(question: dict[str, Any]) -> tuple[FieldIssue, ...]:
    kind, obj = question["kind"], question["obj"]
    if kind == "slice-update":
        return validate_update(RESOURCE_SLICE, question["old"], obj)
    if kind == "claim-status":
        return validate_status_update(RESOURCE_CLAIM, question["old"], obj)
    return validate_create({"slice": RESOURCE_SLICE, "claim": RESOURCE_CLAIM, "class": DEVICE_CLASS}[kind], obj)


def test_every_recorded_answer_is_given_here_too() -> None:
    with gzip.open(ANSWERS, "rt") as lines:
        questions = [json.loads(line) for line in lines]
    differing = []
    for number, question in enumerate(questions, 1):
        ours = {(issue.type, issue.path) for issue in judge(question)}
        theirs = {(type, field) for type, field in question["errors"]}
        if ours != theirs:
            differing.append((number, sorted(ours - theirs), sorted(theirs - ours)))

    assert differing == []
    assert len(questions) == LINES


def test_the_objects_that_the_questions_change_are_allowed() -> None:
    claim = full_claim()
    status = claim.pop("status")

    assert validate_create(RESOURCE_SLICE, full_slice()) == ()
    assert validate_create(RESOURCE_CLAIM, claim) == ()
    assert validate_status_update(RESOURCE_CLAIM, claim, {**claim, "status": status}) == ()
