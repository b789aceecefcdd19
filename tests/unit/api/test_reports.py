"""Device reports: what is written is read back, and the definition of the kind allows just that."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from claimsmith.api.kinds import DEVICE_REPORT
from claimsmith.api.reports import build_device_report_crd, encode_device_report, parse_device_report
from claimsmith.errors import FieldError
from claimsmith.model.device import Capacity, CounterConsumption, Device, DeviceAttribute
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.metadata import Metadata
from claimsmith.model.pool import CounterSet
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.report import DeviceHolder, DeviceReport, ReportedDevice, ReportedPool


def gpu(name: str, *, model: str = "A100-80", memory: str = "80Gi") -> Device:
    return Device(
        name=name,
        attributes={"model": DeviceAttribute.of(model)},
        capacity={"memory": Capacity(value=parse_quantity(memory))},
        consumes_counters=(CounterConsumption(counter_set="card", counters={"memory": parse_quantity(memory)}),),
    )


def health(name: str, healthy: bool | None, *, cause: str = "", message: str = "") -> DeviceHealth:
    return DeviceHealth(device=name, pool="node-a", healthy=healthy, cause=cause, message=message)


CLAIM = DeviceHolder(kind="ResourceClaim", namespace="team", name="train-gpu", uid="uid-1")
POD = DeviceHolder(kind="Pod", namespace="team", name="train", uid="uid-2", container="main", resource="nvidia.com/gpu")
REPORT = DeviceReport(
    metadata=Metadata(name="node-a.gpu.example.com"),
    node_name="node-a",
    driver="gpu.example.com",
    devices=(
        ReportedDevice(pool="node-a", device=gpu("gpu-0"), health=health("gpu-0", True), holders=(CLAIM, POD)),
        ReportedDevice(
            pool="node-a",
            device=gpu("gpu-1"),
            health=health("gpu-1", False, cause="xid-79", message="fell off the bus"),
        ),
        ReportedDevice(pool="node-a", device=gpu("gpu-2", model="T4", memory="16Gi"), health=health("gpu-2", None)),
    ),
    pools=(
        ReportedPool(
            pool="node-a", counter_sets=(CounterSet(name="card", counters={"memory": parse_quantity("80Gi")}),)
        ),
    ),
)


def schema() -> dict[str, Any]:
    found: dict[str, Any] = build_device_report_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_a_report_that_is_written_is_read_back() -> None:
    assert parse_device_report(encode_device_report(REPORT)) == REPORT


def test_people_see_models_and_what_is_free_and_broken() -> None:
    status = encode_device_report(REPORT)["status"]

    assert {name: status[name] for name in ("models", "total", "free", "unhealthy")} == {
        "models": "2 A100-80, 1 T4",
        "total": 3,
        "free": 1,
        "unhealthy": 1,
    }


def test_many_models_are_cut_where_a_column_ends() -> None:
    devices = tuple(ReportedDevice(pool="p", device=gpu(f"gpu-{n}", model=f"model-{n}")) for n in range(40))
    report = DeviceReport(metadata=Metadata(name="n"), node_name="n", driver="d", devices=devices)
    models = encode_device_report(report)["status"]["models"]

    assert len(models) == 200
    assert models.endswith("…")


def test_the_definition_takes_what_is_written() -> None:
    jsonschema.validate(encode_device_report(REPORT), schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("health", "state"), "Fine"),
        (("holders",), [{"kind": "Job", "name": "x"}]),
        (("device",), {"attributes": {}}),
        (("pool",), 1),
    ],
)
def test_the_definition_refuses_anything_else(path: tuple[str, ...], value: object) -> None:
    report = encode_device_report(REPORT)
    target = report["status"]["devices"][0]
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema())


def test_the_definition_names_the_kind_as_the_registry_does() -> None:
    definition = build_device_report_crd()

    assert definition["metadata"]["name"] == f"{DEVICE_REPORT.plural}.{DEVICE_REPORT.group}"
    assert definition["spec"]["names"] == {
        "kind": "DeviceReport", "listKind": "DeviceReportList", "plural": "devicereports", "singular": "devicereport",
        "shortNames": ["drep"],
    }  # fmt: skip
    assert definition["spec"]["scope"] == "Cluster"


def test_a_report_of_another_version_is_refused() -> None:
    with pytest.raises(FieldError, match=r"claimsmith\.dev/v1alpha1"):
        parse_device_report({**encode_device_report(REPORT), "apiVersion": "claimsmith.dev/v9"})
