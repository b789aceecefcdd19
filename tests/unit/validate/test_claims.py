from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from claimsmith.validate import validate_create, validate_status_update, validate_update
from tests.unit.validate.objects import Json, claim, created, edited, request, short

UID = "11111111-0000-4000-8000-000000000001"
OPAQUE = {"driver": "gpu.example.test", "parameters": {"a": 1}}


def alternatives(*names: str) -> Json:
    return {"name": "gpu", "firstAvailable": [{"name": name, "deviceClassName": "gpu"} for name in names]}


def test_a_plain_claim_is_allowed() -> None:
    assert created(RESOURCE_CLAIM, claim()) == []


def test_the_server_does_not_look_at_the_names_of_requested_capacities() -> None:
    assert created(RESOURCE_CLAIM, claim(request(capacity={"requests": {"not-c": "1"}}))) == []


def test_a_claim_that_asks_for_nothing_is_allowed() -> None:
    assert created(RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "n"}, "spec": {}}) == []


@pytest.mark.parametrize(
    ("requests", "issue"),
    [
        ([request(f"r{i}") for i in range(33)], ("TooMany", "")),
        ([request(), request()], ("Duplicate", "[1]")),
        ([request("Not-dns")], ("Invalid", "[0].name")),
        ([{"name": "r"}], ("Required", "[0]")),
        ([{**request(), **alternatives("a")}], ("Invalid", "[0]")),
        ([request(deviceClassName="")], ("Required", "[0].exactly.deviceClassName")),
        ([request(count=-1)], ("Invalid", "[0].exactly.count")),
        ([request(allocationMode="All", count=1)], ("Invalid", "[0].exactly.count")),
        ([request(allocationMode="Some")], ("NotSupported", "[0].exactly.allocationMode")),
        ([request(selectors=[{}])], ("Required", "[0].exactly.selectors[0].cel")),
        ([request(selectors=[{}] * 33)], ("TooMany", "[0].exactly.selectors")),
        ([request(tolerations=[{"operator": "Like"}])], ("NotSupported", "[0].exactly.tolerations[0].operator")),
        (
            [request(tolerations=[{"operator": "Exists", "value": "v"}])],
            ("Invalid", "[0].exactly.tolerations[0].value"),
        ),
        ([request(tolerations=[{"key": "k", "effect": "X"}])], ("NotSupported", "[0].exactly.tolerations[0].effect")),
        ([alternatives(*(f"a{i}" for i in range(9)))], ("TooMany", "[0].firstAvailable")),
        ([alternatives("a", "a")], ("Duplicate", "[0].firstAvailable[1]")),
    ],
)
def test_a_rule_of_requests_is_kept(requests: list[Json], issue: tuple[str, str]) -> None:
    kind, path = issue

    assert created(RESOURCE_CLAIM, claim(*requests)) == [(kind, f"spec.devices.requests{path}")]


@pytest.mark.parametrize(
    ("constraint", "issue"),
    [
        ({}, ("Required", "")),
        ({"matchAttribute": "bare"}, ("Invalid", ".matchAttribute")),
        ({"distinctAttribute": "a.b/not-c"}, ("Invalid", ".distinctAttribute")),
        ({"matchAttribute": "a.b/c", "distinctAttribute": "a.b/c"}, ("Invalid", "")),
        ({"matchAttribute": "a.b/c", "requests": ["other"]}, ("Invalid", ".requests[0]")),
        ({"matchAttribute": "a.b/c", "requests": ["gpu", "gpu"]}, ("Duplicate", ".requests[1]")),
        ({"matchAttribute": "a.b/c", "requests": ["gpu/sub"]}, ("Invalid", ".requests[0]")),
        ({"matchAttribute": "a.b/c", "requests": ["gpu/a/b"]}, ("Invalid", ".requests[0]")),
    ],
)
def test_a_rule_of_constraints_is_kept(constraint: Json, issue: tuple[str, str]) -> None:
    kind, path = issue

    assert created(RESOURCE_CLAIM, claim(constraints=[constraint])) == [(kind, f"spec.devices.constraints[0]{path}")]


def test_constraints_may_name_an_alternative() -> None:
    constraint = {"matchAttribute": "a.b/c", "requests": ["gpu/small", "gpu"]}

    assert created(RESOURCE_CLAIM, claim(alternatives("small"), constraints=[constraint])) == []


@pytest.mark.parametrize(
    ("config", "issue"),
    [
        ({}, ("Required", ".opaque")),
        ({"opaque": {**OPAQUE, "driver": ""}}, ("Required", ".opaque.driver")),
        ({"opaque": {"driver": "d"}}, ("Required", ".opaque.parameters")),
        ({"opaque": {"driver": "d", "parameters": [1]}}, ("Invalid", ".opaque.parameters")),
        ({"opaque": {"driver": "d", "parameters": {"a": "x" * 10_240}}}, ("TooLong", ".opaque.parameters")),
        ({"opaque": OPAQUE, "requests": ["nobody"]}, ("Invalid", ".requests[0]")),
    ],
)
def test_a_rule_of_configuration_is_kept(config: Json, issue: tuple[str, str]) -> None:
    kind, path = issue

    assert created(RESOURCE_CLAIM, claim(config=[config])) == [(kind, f"spec.devices.config[0]{path}")]


def test_a_selector_of_more_than_10_kib_is_refused_unread() -> None:
    selectors = [{"cel": {"expression": "x" * 10_241}}]
    (issue,) = validate_create(RESOURCE_CLAIM, claim(request(selectors=selectors)))

    assert issue.cause == (
        "FieldValueTooLong",
        "Too long: may not be more than 10240 bytes",
        "spec.devices.requests[0].exactly.selectors[0].cel.expression",
    )


def test_the_spec_of_a_claim_stays() -> None:
    new = claim(request(count=2))

    assert short(validate_update(RESOURCE_CLAIM, claim(), new)) == [("Invalid", "spec")]


def test_defaults_and_other_spellings_are_no_change_of_a_spec() -> None:
    old = claim(request(count=1, allocationMode="ExactCount", capacity={"requests": {"memory": "1Gi"}}))
    new = claim(request(capacity={"requests": {"memory": "1024Mi"}}), constraints=[])

    assert validate_update(RESOURCE_CLAIM, old, new) == ()


def allocated(**status: Any) -> Json:
    """A claim with an allocation of one device."""
    result = {"request": "gpu", "driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0"}
    return {**claim(), "status": {"allocation": {"devices": {"results": [result]}}, **status}}


def status_issues(new: Json, *, old: Json | None = None) -> list[tuple[str, str]]:
    return short(validate_status_update(RESOURCE_CLAIM, old or claim(), new))


def test_an_allocation_is_allowed() -> None:
    assert status_issues(allocated()) == []


@pytest.mark.parametrize(
    ("change", "issue"),
    [
        ({"request": "other"}, ("Invalid", "request")),
        ({"driver": ""}, ("Required", "driver")),
        ({"pool": ""}, ("Required", "pool")),
        ({"device": "A"}, ("Invalid", "device")),
        ({"shareID": "not-a-uid"}, ("Invalid", "shareID")),
        ({"bindingConditions": ["a"]}, ("Invalid", "bindingFailureConditions")),
    ],
)
def test_a_rule_of_results_is_kept(change: Json, issue: tuple[str, str]) -> None:
    new = edited(allocated(), lambda obj: obj["status"]["allocation"]["devices"]["results"][0].update(change))
    kind, path = issue

    assert status_issues(new) == [(kind, f"status.allocation.devices.results[0].{path}")]


def test_a_claim_gets_at_most_32_devices() -> None:
    new = allocated()
    new["status"]["allocation"]["devices"]["results"] *= 33

    assert status_issues(new) == [("TooMany", "status.allocation.devices.results")]


def test_the_source_of_a_configuration_is_class_or_claim() -> None:
    new = allocated()
    new["status"]["allocation"]["devices"]["config"] = [{"source": "FromUser", "opaque": OPAQUE}, {"opaque": OPAQUE}]

    assert status_issues(new) == [
        ("NotSupported", "status.allocation.devices.config[0].source"),
        ("Required", "status.allocation.devices.config[1].source"),
    ]


def test_an_allocation_stays_once_it_is_set() -> None:
    new = edited(allocated(), lambda obj: obj["status"]["allocation"]["devices"]["results"][0].update(device="gpu-1"))

    assert status_issues(new, old=allocated()) == [("Invalid", "status.allocation")]


def test_an_allocation_may_go() -> None:
    assert status_issues({**claim(), "status": {}}, old=allocated()) == []


def test_nobody_can_reserve_a_claim_without_an_allocation() -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "u"}

    assert status_issues({**claim(), "status": {"reservedFor": [consumer]}}) == [("Forbidden", "status.reservedFor")]


def test_a_claim_has_at_most_256_consumers_and_each_once() -> None:
    consumers = [{"resource": "pods", "name": "p", "uid": f"u{i}"} for i in range(257)]

    assert status_issues(allocated(reservedFor=consumers)) == [("TooMany", "status.reservedFor")]
    assert status_issues(allocated(reservedFor=consumers[:1] * 2)) == [("Duplicate", "status.reservedFor[1]")]
    assert status_issues(allocated(reservedFor=consumers[:256])) == []


def test_a_consumer_has_resource_name_and_uid() -> None:
    assert status_issues(allocated(reservedFor=[{}])) == [
        ("Required", f"status.reservedFor[0].{name}") for name in ("resource", "name", "uid")
    ]


def test_consumers_of_a_deleted_claim_go_but_do_not_come() -> None:
    old = allocated(reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
    old["metadata"]["deletionTimestamp"] = "2024-05-01T00:00:00Z"
    more = edited(old, lambda obj: obj["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": "v"}))
    less = edited(old, lambda obj: obj["status"]["reservedFor"].clear())

    assert status_issues(more, old=old) == [("Forbidden", "status.reservedFor")]
    assert status_issues(less, old=old) == []


@pytest.mark.parametrize(
    ("change", "issue"),
    [
        ({"device": "gpu-9"}, ("Invalid", "")),
        ({"shareID": UID}, ("Invalid", "")),
        ({"data": [1]}, ("Invalid", ".data")),
        ({"data": {"a": "x" * 10_240}}, ("TooLong", ".data")),
        ({"networkData": {"ips": ["10.0.0.1"]}}, ("Invalid", ".networkData.ips[0]")),
        ({"networkData": {"ips": ["10.0.0.1/33"]}}, ("Invalid", ".networkData.ips[0]")),
        ({"networkData": {"ips": ["10.0.0.1/24"] * 2}}, ("Duplicate", ".networkData.ips[1]")),
        ({"networkData": {"ips": [f"10.0.0.{i}/24" for i in range(17)]}}, ("TooMany", ".networkData.ips")),
        ({"networkData": {"interfaceName": "x" * 257}}, ("TooLong", ".networkData.interfaceName")),
        ({"networkData": {"hardwareAddress": "x" * 129}}, ("TooLong", ".networkData.hardwareAddress")),
        ({"conditions": [{"type": "A"}]}, ("Required", ".conditions[0].status")),
    ],
)
def test_a_rule_of_device_status_is_kept(change: Json, issue: tuple[str, str]) -> None:
    entry = {"driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0", **change}
    kind, path = issue

    assert (kind, f"status.devices[0]{path}") in status_issues(allocated(devices=[entry]))


def test_device_status_of_an_allocated_device_is_allowed() -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2024-05-01T00:00:00Z",
    }
    network = {"interfaceName": "net1", "ips": ["10.0.0.1/24", "2001:db8::1/64"]}
    entry = {
        "driver": "gpu.example.test",
        "pool": "node-a",
        "device": "gpu-0",
        "conditions": [condition],
        "networkData": network,
        "data": {},
    }

    assert status_issues(allocated(devices=[entry])) == []


def template(**spec: Any) -> Json:
    return {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": claim()["spec"], **spec}}


def test_a_template_is_checked_like_its_claims_and_keeps_its_spec() -> None:
    assert created(RESOURCE_CLAIM_TEMPLATE, template()) == []
    assert created(RESOURCE_CLAIM_TEMPLATE, template(spec=claim(request("A"))["spec"])) == [
        ("Invalid", "spec.spec.devices.requests[0].name")
    ]
    assert created(RESOURCE_CLAIM_TEMPLATE, template(metadata={"name": "x"})) == [("Forbidden", "spec.metadata.name")]
    assert short(validate_update(RESOURCE_CLAIM_TEMPLATE, template(), template(metadata={"labels": {"a": "b"}}))) == [
        ("Invalid", "spec")
    ]


def test_the_metadata_of_a_template_may_change() -> None:
    new = edited(template(), lambda obj: obj["metadata"].update(labels={"a": "b"}))

    assert validate_update(RESOURCE_CLAIM_TEMPLATE, template(), new) == ()


def device_class(**spec: Any) -> Json:
    return {"metadata": {"name": "gpu"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "issues"),
    [
        ({}, []),
        ({"extendedResourceName": "example.com/gpu"}, []),
        ({"extendedResourceName": "gpu"}, [("Invalid", "spec.extendedResourceName")]),
        ({"extendedResourceName": "kubernetes.io/gpu"}, [("Invalid", "spec.extendedResourceName")]),
        ({"extendedResourceName": "requests.a/b"}, [("Invalid", "spec.extendedResourceName")]),
        ({"selectors": [{}]}, [("Required", "spec.selectors[0].cel")]),
        ({"config": [{"opaque": OPAQUE}] * 33}, [("TooMany", "spec.config")]),
    ],
)
def test_a_rule_of_classes_is_kept(spec: Json, issues: list[tuple[str, str]]) -> None:
    assert created(DEVICE_CLASS, device_class(**spec)) == issues


def test_a_class_has_no_namespace() -> None:
    obj = edited(device_class(), lambda entry: entry["metadata"].update(namespace="x"))

    assert created(DEVICE_CLASS, obj) == [("Forbidden", "metadata.namespace")]


def test_long_parameters_that_stay_are_allowed() -> None:
    long = [{"opaque": {"driver": "d", "parameters": {"a": "x" * 10_240}}}]
    old, new = device_class(config=long), device_class(config=long, extendedResourceName="example.com/gpu")

    assert validate_update(DEVICE_CLASS, old, new) == ()


def taint_rule(effect: str = "NoExecute", **selector: str) -> Json:
    spec: Json = {"taint": {"key": "k", "effect": effect}}
    return {"metadata": {"name": "r"}, "spec": {**spec, "deviceSelector": selector}}


def test_a_rule_of_taint_rules_is_kept() -> None:
    assert created(DEVICE_TAINT_RULE, taint_rule()) == []
    assert created(DEVICE_TAINT_RULE, taint_rule(driver="", pool="", device="A")) == [
        ("Required", "spec.deviceSelector.driver"),
        ("Required", "spec.deviceSelector.pool"),
        ("Invalid", "spec.deviceSelector.device"),
    ]
    assert created(DEVICE_TAINT_RULE, taint_rule("Later")) == [("NotSupported", "spec.taint.effect")]


def test_an_unknown_effect_that_stays_is_allowed() -> None:
    assert validate_update(DEVICE_TAINT_RULE, taint_rule("Later"), taint_rule("Later", device="x")) == ()


def test_a_taint_rule_has_at_most_8_conditions() -> None:
    conditions = [
        {"type": f"T{i}", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-05-01T00:00:00Z"}
        for i in range(9)
    ]
    new = {**taint_rule(), "status": {"conditions": conditions}}

    assert short(validate_status_update(DEVICE_TAINT_RULE, taint_rule(), new)) == [("TooMany", "status.conditions")]
