from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from claimsmith.validate import validate_create, validate_update
from tests.unit.validate.objects import Json, claim, created, request

PATH = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
EXPENSIVE = "[1,2,3,4,5,6,7,8,9].all(a, " * 7 + "true" + ")" * 7


def selecting(expression: str) -> Json:
    return claim(request(selectors=[{"cel": {"expression": expression}}]))


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        'device.driver == "gpu.example.test"',
        'device.attributes["gpu.example.test"].healthy',
        'device.capacity["gpu.example.test"].memory.compareTo(quantity("10Gi")) >= 0',
        "device.allowMultipleAllocations",
        'device.attributes["a.b"].names.includes("x")',
    ],
)
def test_a_selector_that_gives_a_bool_is_allowed(expression: str) -> None:
    assert created(RESOURCE_CLAIM, selecting(expression)) == []


@pytest.mark.parametrize("expression", ["", "1 + 1", "device.nope", "true &&", "unknown", "'text'"])
def test_a_selector_that_does_not_compile_to_a_bool_is_refused(expression: str) -> None:
    (issue,) = validate_create(RESOURCE_CLAIM, selecting(expression))

    assert (issue.type, issue.path, issue.value) == ("Invalid", PATH, expression)
    assert issue.detail.startswith("compilation failed: ")


def test_a_selector_that_is_too_expensive_is_refused() -> None:
    (issue,) = validate_create(RESOURCE_CLAIM, selecting(EXPENSIVE))

    assert issue.cause == ("FieldValueForbidden", "Forbidden: too complex, exceeds cost limit", PATH)


def test_selectors_of_a_class_that_stay_are_not_compiled_again() -> None:
    old = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "no longer valid"}}]}}
    new: Json = {**old, "spec": {**old["spec"], "extendedResourceName": "example.com/gpu"}}  # type: ignore[dict-item]

    assert validate_update(DEVICE_CLASS, old, new) == ()


def derived(expression: str, **claim_fields: Any) -> Json:
    attribute = {"name": "example.com/d", "expression": expression}
    constraints = [{"matchAttribute": "example.com/d"}]
    return claim(request(derivedAttributes=[attribute]), **{"constraints": constraints, **claim_fields})


def test_a_derived_attribute_may_have_any_scalar_type() -> None:
    assert created(RESOURCE_CLAIM, derived("1 + 1")) == []


@pytest.mark.parametrize(
    ("obj", "issue"),
    [
        (derived(""), ("Required", "expression")),
        (derived("true &&"), ("Invalid", "expression")),
        (derived("duration('1s')"), ("Invalid", "expression")),
        (derived(EXPENSIVE), ("Forbidden", "expression")),
        (derived("1", constraints=[]), ("Invalid", "name")),
        (derived("1", constraints=[{"matchAttribute": "example.com/other"}]), ("Invalid", "name")),
    ],
)
def test_a_rule_of_derived_attributes_is_kept(obj: Json, issue: tuple[str, str]) -> None:
    kind, field = issue

    assert (kind, f"spec.devices.requests[0].exactly.derivedAttributes[0].{field}") in created(RESOURCE_CLAIM, obj)


def test_derived_attributes_are_used_by_constraints_on_their_request_alone() -> None:
    constraints = [{"matchAttribute": "example.com/d", "requests": ["gpu"]}]

    assert created(RESOURCE_CLAIM, derived("1", constraints=constraints)) == []
