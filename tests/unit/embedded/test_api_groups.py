"""Pod groups and workloads over the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from claimsmith.embedded.api.tables import row_of
from tests.unit.embedded.asgi import Api, open_api
from tests.unit.embedded.stored import NOON, NOON_TEXT

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


def group(name: str = "train", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


async def test_a_new_group_gets_its_defaults_and_loses_its_status(api: Api) -> None:
    reply = await api.post(GROUPS, {**group(), "status": {"conditions": []}})

    assert (reply.status, reply.json["status"]) == (201, {})
    assert reply.json["spec"]["disruptionMode"] == {"single": {}}
    assert reply.json["spec"]["priority"] == 0


async def test_a_group_gets_the_priority_of_its_class(api: Api) -> None:
    await api.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    reply = await api.post(GROUPS, group(priorityClassName="high"))
    other = await api.post(GROUPS, group("other", priorityClassName="high", priority=7))
    unknown = await api.post(GROUPS, group("third", priorityClassName="none"))

    assert reply.json["spec"]["priority"] == 1000
    assert (other.status, "(7) must match the priority computed (1000)" in other.message) == (403, True)
    assert unknown.status == 403


async def test_only_the_least_number_of_a_group_may_change(api: Api) -> None:
    await api.post(GROUPS, group())
    more = await api.patch(f"{GROUPS}/train", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    frozen = await api.patch(f"{GROUPS}/train", {"spec": {"disruptionMode": {"single": None, "all": {}}}})

    assert (more.status, frozen.status) == (200, 422)
    assert frozen.json["details"]["causes"][0]["field"] == "spec.disruptionMode"


async def test_the_status_of_a_group_names_claims_of_its_spec(api: Api) -> None:
    await api.post(GROUPS, group(resourceClaims=[{"name": "own", "resourceClaimTemplateName": "t"}]))
    status = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "train-own"}]}
    good = await api.patch(f"{GROUPS}/train/status", {"status": status})
    bad = await api.patch(f"{GROUPS}/train/status", {"status": {"resourceClaimStatuses": [{"name": "other"}]}})

    assert (good.json["status"], bad.status) == (status, 422)


async def test_a_workload_is_kept_and_its_templates_stay(api: Api) -> None:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    await api.post(WORKLOADS, {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}})
    templates = [template, {**template, "name": "more"}]
    reply = await api.patch(f"{WORKLOADS}/w", {"spec": {"podGroupTemplates": templates}})

    assert reply.status == 422
    assert reply.json["details"]["causes"][0]["field"] == "spec.podGroupTemplates[1]"


@pytest.mark.parametrize(
    ("spec", "conditions", "cells"),
    [
        ({"schedulingPolicy": {"basic": {}}}, [], ["Basic", "<none>", "Pending"]),
        (
            {"schedulingPolicy": {"gang": {"minCount": 1}}, "workloadRef": {"workloadName": "w"}},
            [{"type": "PodGroupInitiallyScheduled", "status": "True"}],
            ["Gang", "w", "Scheduled"],
        ),
        ({}, [{"type": "PodGroupInitiallyScheduled", "status": "False"}], ["Basic", "<none>", "Unschedulable"]),
        (
            {},
            [
                {"type": "PodGroupInitiallyScheduled", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": "Preempted"},
            ],
            ["Basic", "<none>", "Preempted"],
        ),
    ],
)
def test_a_row_of_a_group_shows_policy_workload_and_state(spec: Any, conditions: Any, cells: list[str]) -> None:
    metadata = {"name": "g", "creationTimestamp": NOON_TEXT}
    row = row_of("podgroups", {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, now=NOON)

    assert row["cells"] == ["g", *cells, "0s"]
