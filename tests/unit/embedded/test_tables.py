"""Rows of tables for people, kind by kind.

Source of the expectations: k8s.io/kubernetes v1.37.2 pkg/printers/internalversion/printers_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import KINDS
from claimsmith.embedded.api.ages import age_of, human_duration
from claimsmith.embedded.api.tables import columns_of, row_of
from tests.unit.embedded.stored import NOON, NOON_TEXT


def cells(plural: str, **value: Any) -> list[Any]:
    value["metadata"] = {"name": "x", "creationTimestamp": NOON_TEXT, **value.get("metadata", {})}
    found: list[Any] = row_of(plural, value, now=NOON + 61)["cells"]
    return found


def pod_cells(*, spec: dict[str, Any] | None = None, status: dict[str, Any], **metadata: Any) -> list[Any]:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})}
    return cells("pods", metadata=metadata, spec=spec, status=status)[1:4]


def container(name: str = "a", **status: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": 0, **status}


RUNNING: dict[str, Any] = {"ready": True, "state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_listable], ids=lambda kind: kind.kind)
def test_every_kind_has_as_many_cells_as_columns(kind: Any) -> None:
    value = {"metadata": {"name": "x", "creationTimestamp": NOON_TEXT}}

    assert len(row_of(kind.plural, value, now=NOON)["cells"]) == len(columns_of(kind.plural))


@pytest.mark.parametrize(
    ("status", "row"),
    [
        ({"phase": "Pending"}, ["0/2", "Pending", "0"]),
        ({"phase": "Running", "containerStatuses": [container(**RUNNING)]}, ["1/2", "Running", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/2", "Evicted", "0"]),
        (
            {"phase": "Pending", "containerStatuses": [container(state={"waiting": {"reason": "ContainerCreating"}})]},
            ["0/2", "ContainerCreating", "0"],
        ),
        (
            {"phase": "Running", "containerStatuses": [container(state={"terminated": {"exitCode": 3}})]},
            ["0/2", "ExitCode:3", "0"],
        ),
        (
            {"phase": "Running", "containerStatuses": [container(state={"terminated": {"signal": 9}})]},
            ["0/2", "Signal:9", "0"],
        ),
        (
            {
                "phase": "Running",
                "conditions": READY,
                "containerStatuses": [
                    container(state={"terminated": {"reason": "Completed", "exitCode": 0}}),
                    container("b", **RUNNING),
                ],
            },
            ["1/2", "Running", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container(state={"terminated": {"reason": "Completed", "exitCode": 0}}),
                    container("b", **RUNNING),
                ],
            },
            ["1/2", "NotReady", "0"],
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    container(state={"terminated": {"reason": "Completed", "exitCode": 0}}),
                    container("b", state={"terminated": {"reason": "Error", "exitCode": 1}}),
                ],
            },
            ["0/2", "Error", "0"],
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ["0/2", "SchedulingGated", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container(restartCount=3, lastState={"terminated": {"finishedAt": NOON_TEXT}}, **RUNNING)
                ],
            },
            ["1/2", "Running", "3 (61s ago)"],
        ),
    ],
)
def test_a_pod_shows_what_its_containers_do(status: dict[str, Any], row: list[str]) -> None:
    assert pod_cells(status=status) == row


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"terminated": {"exitCode": 2}}, "Init:ExitCode:2"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Init:Error"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "Init:ImagePullBackOff"),
        ({"waiting": {"reason": "PodInitializing"}}, "Init:0/1"),
        ({"running": {}}, "Init:0/1"),
    ],
)
def test_a_pod_that_initializes_shows_how_far_it_is(state: dict[str, Any], shown: str) -> None:
    status = {"phase": "Pending", "initContainerStatuses": [container("i", state=state)]}

    assert pod_cells(spec={"initContainers": [{"name": "i"}]}, status=status)[1] == shown


def test_a_sidecar_counts_among_the_containers() -> None:
    spec = {"initContainers": [{"name": "i", "restartPolicy": "Always"}]}
    status = {
        "phase": "Running",
        "initContainerStatuses": [container("i", started=True, ready=True, state={"running": {}})],
        "containerStatuses": [container(**RUNNING), container("b", **RUNNING)],
    }

    assert pod_cells(spec=spec, status=status)[:2] == ["3/3", "Running"]


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    assert pod_cells(status={"phase": "Running"}, deletionTimestamp=NOON_TEXT)[1] == "Terminating"
    assert pod_cells(status={"phase": "Succeeded"}, deletionTimestamp=NOON_TEXT)[1] == "Succeeded"


def test_a_pod_that_has_ended_says_so_in_its_row() -> None:
    value = {"metadata": {"name": "x"}, "spec": {}, "status": {"phase": "Succeeded"}}

    assert row_of("pods", value, now=NOON)["conditions"][0]["type"] == "Completed"


@pytest.mark.parametrize(
    ("metadata", "status", "state"),
    [
        ({}, {}, "pending"),
        ({}, {"allocation": {"devices": {}}}, "allocated"),
        ({}, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "allocated,reserved"),
        ({"deletionTimestamp": NOON_TEXT}, {}, "deleted"),
        ({"deletionTimestamp": NOON_TEXT}, {"allocation": {"devices": {}}}, "deleted,allocated"),
    ],
)
def test_a_claim_shows_its_state(metadata: dict[str, Any], status: dict[str, Any], state: str) -> None:
    assert cells("resourceclaims", metadata=metadata, status=status) == ["x", state, "61s"]


def test_a_node_shows_readiness_roles_and_addresses() -> None:
    value = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "kernelVersion": "6.1", "architecture": "amd64"},
        },
    }

    assert cells("nodes", **value) == [
        "x",
        "Ready,SchedulingDisabled",
        "gpu,worker",
        "61s",
        "v1.37.2",
        "10.0.0.1",
        "<none>",
        "<unknown>",
        "6.1 (amd64)",
        "<unknown>",
    ]


def test_a_slice_shows_node_driver_and_pool() -> None:
    spec = {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": "p"}}

    assert cells("resourceslices", spec=spec) == ["x", "n1", "gpu.example.com", "p", "61s"]


def test_a_taint_rule_shows_its_taint() -> None:
    spec = {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": NOON_TEXT}}

    assert cells("devicetaintrules", spec=spec) == ["x", "k", "v", "NoExecute", "61s", "61s"]


def test_an_event_shows_when_what_and_about_whom() -> None:
    value = {
        "type": "Warning",
        "reason": "Failed",
        "message": " no device \n",
        "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec"},
        "source": {"component": "scheduler", "host": "n1"},
        "firstTimestamp": NOON_TEXT,
        "series": {"count": 4, "lastObservedTime": "2030-01-01T12:01:00.000000Z"},
    }

    assert cells("events", **value) == [
        "1s",
        "Warning",
        "Failed",
        "pod/web",
        "spec",
        "scheduler, n1",
        "no device",
        "61s",
        4,
        "x",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86_400, "8d"),
        (729 * 86_400, "729d"),
        (730 * 86_400, "2y"),
        (731 * 86_400, "2y1d"),
        (8 * 365 * 86_400, "8y"),
    ],
)
def test_durations_are_shown_in_at_most_two_units(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "soon"])
def test_an_unknown_time_has_an_unknown_age(timestamp: str | None) -> None:
    assert age_of(timestamp, NOON) == "<unknown>"


def test_a_report_of_devices_shows_what_is_free() -> None:
    report = {
        "metadata": {"name": "node-a.gpu.example.com", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "node-a", "driver": "gpu.example.com"},
        "status": {"models": "8 A100-80", "total": 8, "free": 5, "unhealthy": 1},
    }
    titles = [column["name"] for column in columns_of("devicereports")]
    cells = row_of("devicereports", report, now=1767225600 + 60)["cells"]

    assert dict(zip(titles, cells, strict=True)) == {
        "Name": "node-a.gpu.example.com", "Node": "node-a", "Driver": "gpu.example.com", "Models": "8 A100-80",
        "Devices": 8, "Free": 5, "Unhealthy": 1, "Age": "60s",
    }  # fmt: skip
