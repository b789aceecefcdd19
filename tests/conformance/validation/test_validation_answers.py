"""The rules of `validate` say what the API server's own validation said about the same objects."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from claimsmith.api.kinds import (
    DEVICE_TAINT_RULE,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_POOL_STATUS_REQUEST,
    RESOURCE_SLICE,
    WORKLOAD,
    Kind,
)
from claimsmith.validate import FieldIssue, validate_create, validate_status_update, validate_update
from tests.conformance.validation.full_groups import (
    full_composite,
    full_group,
    full_pool_request,
    full_rule,
    full_workload,
)
from tests.conformance.validation.full_objects import full_claim, full_slice
from tests.conformance.validation.record import ANSWERS, KINDS

LINES = 5856


def judge(question: dict[str, Any]) -> tuple[FieldIssue, ...]:
    kind, obj = KINDS[question["kind"]], question["obj"]
    if question["kind"].endswith("-update"):
        return validate_update(kind, question["old"], obj)
    if question["kind"].endswith("-status"):
        return validate_status_update(kind, question["old"], obj)
    return validate_create(kind, obj)


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


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        (DEVICE_TAINT_RULE, full_rule()),
        (RESOURCE_POOL_STATUS_REQUEST, full_pool_request()),
        (POD_GROUP, full_group()),
        (WORKLOAD, full_workload()),
        (WORKLOAD, full_composite()),
    ],
    ids=["rule", "pool", "group", "workload", "composite"],
)
def test_whole_objects_of_other_kinds_are_allowed(kind: Kind, obj: dict[str, Any]) -> None:
    bare = {name: value for name, value in obj.items() if name != "status"}

    assert validate_create(kind, bare) == ()
    assert validate_update(kind, bare, bare) == ()
    assert validate_status_update(kind, bare, obj) == ()


def test_an_answer_about_pools_stays() -> None:
    answered = full_pool_request()
    changed = {**answered, "status": {"poolCount": 7}}

    assert validate_status_update(RESOURCE_POOL_STATUS_REQUEST, answered, answered) == ()
    assert [issue.path for issue in validate_status_update(RESOURCE_POOL_STATUS_REQUEST, answered, changed)] == [
        "status"
    ]
