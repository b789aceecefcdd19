"""Every recorded expression gets upstream's verdict, value, cost and estimate."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from claimsmith.cel import COST_LIMIT, CelDevice, CelEnvironment, Program, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.device import Capacity, Device, DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.quantity import parse_quantity

CORPUS = Path(__file__).parents[1] / "data" / "cel.jsonl.gz"
FEATURES = {"all": Features.all(), "default": Features(), "none": Features.none()}
EVALUATIONS_UNTIL_COMPILED = 10


@cache
def recorded() -> dict[str, dict[str, Any]]:
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        return {case["name"]: case for case in map(json.loads, lines)}


def compile_case(case: dict[str, Any], environment: CelEnvironment) -> Program:
    purpose = "derived-attribute" if case.get("derivedAttribute") else "selector"
    return compile_expression(case["expression"], environment=environment, purpose=purpose)


def device_of(case: dict[str, Any]) -> CelDevice:
    raw = case["device"]
    attributes = {}
    for name, union in raw.get("attributes", {}).items():
        ((kind, value),) = union.items()
        attributes[name] = DeviceAttribute(kind, tuple(value) if isinstance(value, list) else value)
    capacity = {name: Capacity(value=parse_quantity(entry["value"])) for name, entry in raw.get("capacity", {}).items()}
    device = Device(
        name=raw["name"],
        attributes=attributes,
        capacity=capacity,
        allow_multiple_allocations=raw.get("allowMultipleAllocations", False),
    )
    return prepare_device(case["driver"], device)


def judge(case: dict[str, Any], program: Program) -> tuple[str, object]:
    """Return verdict and value in the corpus' words."""
    prepared = device_of(case)
    try:
        if not case.get("derivedAttribute"):
            return str(program.evaluate(prepared)).lower(), None
        attribute = program.evaluate_attribute(prepared)
    except CelRuntimeError:
        return "runtime-error", None
    value = list(attribute.value) if isinstance(attribute.value, tuple) else attribute.value
    return "value", {attribute.kind: value} if value or value == 0 else {}


def test_the_corpus_is_complete() -> None:
    assert len(recorded()) == 300


@pytest.mark.parametrize("name", recorded())
def test_a_stored_expression_gets_the_recorded_verdict_value_and_cost(name: str) -> None:
    case = recorded()[name]
    expected = case["upstream"]
    environment = CelEnvironment.for_stored_expressions(FEATURES[case["features"]])
    if expected["verdict"] == "compile-error":
        with pytest.raises(CelCompileError):
            compile_case(case, environment)
        return
    program = compile_case(case, environment)
    costs = expected.get("costVaries") or [expected["cost"]]

    assert program.output_type == expected["outputType"]
    assert program.measure(device_of(case)).cost in costs
    for _ in range(EVALUATIONS_UNTIL_COMPILED if program.estimated_cost <= COST_LIMIT else 1):
        assert judge(case, program) == (expected["verdict"], expected.get("value"))


@pytest.mark.parametrize("name", recorded())
def test_a_new_expression_gets_the_recorded_estimate_or_is_refused(name: str) -> None:
    case = recorded()[name]
    expected = case["upstream"]
    environment = CelEnvironment.for_new_expressions(FEATURES[case["features"]])
    if "newCompileError" in expected:
        with pytest.raises(CelCompileError):
            compile_case(case, environment)
        return
    estimate = compile_case(case, environment).estimated_cost

    assert estimate == expected["estimatedCost"]
    assert (estimate > COST_LIMIT) == expected.get("tooExpensive", False)
