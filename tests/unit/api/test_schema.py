from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.api.schema import MAX_DEPTH, MAX_ISSUES, SchemaIssue, check_object, find_nearest, prune_object


def check(kind: Kind, obj: object) -> tuple[SchemaIssue, ...]:
    return check_object(obj, kind.wire_type)


def claim(**request: object) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}}


def test_a_sound_object_has_no_issues() -> None:
    assert check(RESOURCE_CLAIM, claim(deviceClassName="gpu", count=2)) == ()


def test_null_means_absent_everywhere() -> None:
    obj = {"metadata": {"creationTimestamp": None}, "spec": {"devices": {"requests": None}}, "status": None}

    assert check(RESOURCE_CLAIM, obj) == ()


@pytest.mark.parametrize(
    ("found", "path", "allowed"),
    [
        ({"count": "2"}, "spec.devices.requests[0].exactly.count", "a whole number"),
        ({"count": True}, "spec.devices.requests[0].exactly.count", "a whole number"),
        ({"count": 1.5}, "spec.devices.requests[0].exactly.count", "a whole number"),
        ({"count": 2**63}, "spec.devices.requests[0].exactly.count", str(2**63 - 1)),
        ({"deviceClassName": 7}, "spec.devices.requests[0].exactly.deviceClassName", "a string"),
        ({"adminAccess": "yes"}, "spec.devices.requests[0].exactly.adminAccess", "true or false"),
        ({"selectors": {"cel": {}}}, "spec.devices.requests[0].exactly.selectors", "a list"),
        ({"selectors": ["x"]}, "spec.devices.requests[0].exactly.selectors[0]", "an object"),
        ({"capacity": {"requests": []}}, "spec.devices.requests[0].exactly.capacity.requests", "a map"),
        (
            {"capacity": {"requests": {"memory": "10 GiB"}}},
            "spec.devices.requests[0].exactly.capacity.requests.memory",
            "a quantity",
        ),
        (
            {"capacity": {"requests": {"nic.example/bw": True}}},
            "spec.devices.requests[0].exactly.capacity.requests[nic.example/bw]",
            "a quantity",
        ),
    ],
)
def test_a_wrong_value_is_named_by_path_and_rule(found: dict[str, Any], path: str, allowed: str) -> None:
    (issue,) = check(RESOURCE_CLAIM, claim(**found))

    assert issue.path == path
    assert allowed in issue.allowed


def test_the_root_must_be_an_object() -> None:
    (issue,) = check(POD, ["x"])

    assert (issue.path, issue.allowed) == ("", "an object")


@pytest.mark.parametrize("quantity", ["4", "500m", 4, 1.5, "1e3"])
def test_quantities_may_be_bare_numbers(quantity: object) -> None:
    assert check(NODE, {"status": {"capacity": {"cpu": quantity}}}) == ()


@pytest.mark.parametrize("port", [80, "http"])
def test_ports_may_be_numbers_or_names(port: object) -> None:
    probe = {"httpGet": {"port": port}}

    assert check(POD, {"spec": {"containers": [{"name": "c", "livenessProbe": probe}]}}) == ()


@pytest.mark.parametrize("time", ["yesterday", "2024-13-01T00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00"])
def test_a_time_must_be_rfc_3339(time: str) -> None:
    (issue,) = check(POD, {"metadata": {"creationTimestamp": time}})

    assert (issue.kind, issue.path) == ("value", "metadata.creationTimestamp")


@pytest.mark.parametrize("time", ["2024-05-01T12:00:00Z", "2024-05-01T12:00:00.123456Z", "2024-05-01T12:00:00+02:00"])
def test_times_with_fractions_and_zones_are_read(time: str) -> None:
    assert check(POD, {"metadata": {"creationTimestamp": time}}) == ()


def test_a_misspelt_field_is_answered_with_the_nearest_name() -> None:
    (issue,) = check(RESOURCE_CLAIM, claim(deviceClasName="gpu"))

    assert (issue.kind, issue.path) == ("unknown", "spec.devices.requests[0].exactly.deviceClasName")
    assert issue.hint == "write deviceClassName"


def test_a_field_one_level_too_high_is_answered_with_where_it_belongs() -> None:
    obj = {"spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}}}
    (issue,) = check(RESOURCE_CLAIM, obj)

    assert issue.hint == "move it into exactly"


def test_an_irregular_name_in_the_wrong_case_is_recognised() -> None:
    (issue,) = check(POD, {"status": {"podIp": "10.0.0.1"}})

    assert issue.hint == "write podIP"


def test_a_text_that_yaml_took_for_a_bool_is_to_be_quoted() -> None:
    (issue,) = check(RESOURCE_SLICE, {"spec": {"devices": [{"name": False}]}})

    assert str(issue.to_error(source="f.yaml")) == (
        "f.yaml: spec.devices[0].name: found false, allowed a string; put the value in quotes"
    )


def test_issues_come_in_the_order_of_the_fields_and_are_bounded() -> None:
    devices = [{"name": i} for i in range(200)]
    issues = check(RESOURCE_SLICE, {"spec": {"devices": devices}})

    assert [issue.path for issue in issues] == [f"spec.devices[{i}].name" for i in range(MAX_ISSUES)]


def test_opaque_data_is_not_looked_into() -> None:
    opaque = {"driver": "d", "parameters": {"anything": [1, {"goes": None}]}}

    assert check(RESOURCE_CLAIM, {"spec": {"devices": {"config": [{"opaque": opaque}]}}}) == ()


def test_depth_is_bounded_in_opaque_data_too() -> None:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    opaque = {"driver": "d", "parameters": deep}
    (issue,) = check(RESOURCE_CLAIM, {"spec": {"devices": {"config": [{"opaque": opaque}]}}})

    assert issue.kind == "depth"
    assert str(MAX_DEPTH) in issue.allowed
    assert len(issue.path) < 200


def test_pruning_drops_unknown_fields_and_nulls_but_nothing_opaque() -> None:
    parameters = {"kept": None}
    obj = {
        "metadata": {"name": "c", "creationTimestamp": None, "labels": {"a": "b"}},
        "spec": {"devices": {"extra": 1, "config": [{"opaque": {"driver": "d", "parameters": parameters, "x": 1}}]}},
    }

    assert prune_object(obj, RESOURCE_CLAIM.wire_type) == {
        "metadata": {"name": "c", "labels": {"a": "b"}},
        "spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {"kept": None}}}]}},
    }


def test_pruning_leaves_the_input_alone() -> None:
    obj: dict[str, Any] = {"spec": {"devices": {"extra": 1}}}
    prune_object(obj, RESOURCE_CLAIM.wire_type)

    assert obj == {"spec": {"devices": {"extra": 1}}}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("shareId", "shareID"), ("nmae", "name"), ("completelyDifferent", None), ("x" * 100, None)],
)
def test_nearest_names(name: str, nearest: str | None) -> None:
    assert find_nearest(name, ("name", "shareID", "pool")) == nearest
