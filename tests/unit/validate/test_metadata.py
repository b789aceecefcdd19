from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import LEASE, NAMESPACE, SERVICE_ACCOUNT
from claimsmith.validate import validate_create, validate_update
from tests.unit.validate.objects import Json, created, short

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def account(**metadata: Any) -> Json:
    return {"metadata": {"name": "x", "namespace": "default", **metadata}}


def test_a_kind_without_rules_of_its_own_has_those_of_metadata() -> None:
    assert created(LEASE, account()) == []


@pytest.mark.parametrize(
    ("metadata", "issue"),
    [
        ({"name": None}, ("Required", "metadata.name")),
        ({"name": "UPPER"}, ("Invalid", "metadata.name")),
        ({"name": "x" * 254}, ("Invalid", "metadata.name")),
        ({"generateName": "UPPER-"}, ("Invalid", "metadata.generateName")),
        ({"namespace": None}, ("Required", "metadata.namespace")),
        ({"namespace": "a.b"}, ("Invalid", "metadata.namespace")),
        ({"generation": -1}, ("Invalid", "metadata.generation")),
        ({"labels": {"a/b/c": "x"}}, ("Invalid", "metadata.labels")),
        ({"labels": {"/b": "x"}}, ("Invalid", "metadata.labels")),
        ({"labels": {"a": "x" * 64}}, ("Invalid", "metadata.labels")),
        ({"labels": {"a": "-"}}, ("Invalid", "metadata.labels")),
        ({"annotations": {"a": "x" * 262_144}}, ("TooLong", "metadata.annotations")),
        ({"finalizers": ["a b/c"]}, ("Invalid", "metadata.finalizers")),
        ({"finalizers": ["plain"]}, ("Invalid", "metadata.finalizers[0]")),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ("Invalid", "metadata.finalizers")),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, ("Required", "metadata.ownerReferences[0].uid")),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
            ("Invalid", "metadata.ownerReferences[0].apiVersion"),
        ),
        ({"ownerReferences": [{**OWNER, "controller": True}] * 2}, ("Invalid", "metadata.ownerReferences")),
    ],
)  # fmt: skip
def test_a_rule_of_metadata_is_kept(metadata: Json, issue: tuple[str, str]) -> None:
    assert created(SERVICE_ACCOUNT, account(**metadata)) == [issue]


@pytest.mark.parametrize("prefix", ["job-", "a.b-", "x" * 252 + "-", "plain"])
def test_a_generated_name_may_begin_with_anything_that_can_become_one(prefix: str) -> None:
    assert created(SERVICE_ACCOUNT, account(generateName=prefix)) == []


def test_annotation_keys_may_be_upper_case() -> None:
    assert created(SERVICE_ACCOUNT, account(annotations={"Example.COM/Key": "anything at all"})) == []


def test_the_name_of_a_namespace_has_no_dots() -> None:
    (issue,) = validate_create(NAMESPACE, {"metadata": {"name": "a.b"}})

    assert str(issue) == 'metadata.name: Invalid value: "a.b": must not contain dots'


@pytest.mark.parametrize("name", ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"])
def test_identity_and_times_stay(name: str) -> None:
    old = account(uid="u", creationTimestamp="2024-05-01T00:00:00Z", deletionTimestamp="2024-05-01T00:00:00Z")
    value = "2024-05-02T00:00:00Z" if name.endswith("Timestamp") else "other"
    new = account(**{**old["metadata"], name: value})

    assert short(validate_update(SERVICE_ACCOUNT, old, new)) == [("Invalid", f"metadata.{name}")]


def test_an_object_that_is_being_deleted_gets_no_new_finalizers() -> None:
    old = account(deletionTimestamp="2024-05-01T00:00:00Z", finalizers=["example.com/a"])
    new = account(deletionTimestamp="2024-05-01T00:00:00Z", finalizers=["example.com/b"])
    (issue,) = validate_update(SERVICE_ACCOUNT, old, new)

    assert issue.cause == (
        "FieldValueForbidden",
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers example.com/b",
        "metadata.finalizers",
    )


def test_a_generation_does_not_fall() -> None:
    old, new = account(generation=3), account(generation=2)

    assert short(validate_update(SERVICE_ACCOUNT, old, new)) == [("Invalid", "metadata.generation")]
