"""Every recorded expression gets upstream's verdict, value, cost and estimate."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from claimsmith.cel import COST_LIMIT, CelDevice, CelEnvironment, Program, Purpose, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.device import Capacity, Device, DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.quantity import parse_quantity

DATA = Path(__file__).parents[1] / "data"
FEATURES = {"all": Features.all(), "default": Features(), "none": Features.none()}
EVALUATIONS_UNTIL_COMPILED = 10
BLOCKS = 20


@cache
def recorded(file: str) -> dict[str, dict[str, Any]]:
    with gzip.open(DATA / file, "rt", encoding="utf-8") as lines:
        return {case["name"]: case for case in map(json.loads, lines)}


def compile_case(case: dict[str, Any], environment: CelEnvironment) -> Program:
    purpose: Purpose = "derived-attribute" if case.get("derivedAttribute") else "selector"
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
    return "value", {} if value == [] else {attribute.kind: value}


def find_difference(case: dict[str, Any]) -> str:
    """Say in what a stored expression differs from the recording; empty when in nothing."""
    expected = case["upstream"]
    try:
        program = compile_case(case, CelEnvironment.for_stored_expressions(FEATURES[case["features"]]))
    except CelCompileError as error:
        return "" if expected["verdict"] == "compile-error" else str(error)
    found = [program.output_type, program.measure(device_of(case)).cost]
    if found[0] != expected.get("outputType") or found[1] not in expected.get("costVaries", [expected.get("cost")]):
        return f"type and cost {found}"
    for _ in range(EVALUATIONS_UNTIL_COMPILED if program.estimated_cost <= COST_LIMIT else 1):
        judged = judge(case, program)
        if judged != (expected["verdict"], expected.get("value")):
            return f"verdict {judged}"
    return ""


def find_new_difference(case: dict[str, Any]) -> str:
    """Say in what a new expression differs from the recording; empty when in nothing."""
    expected = case["upstream"]
    try:
        program = compile_case(case, CelEnvironment.for_new_expressions(FEATURES[case["features"]]))
    except CelCompileError as error:
        return "" if "newCompileError" in expected else str(error)
    if "newCompileError" in expected:
        return "it compiles"
    too_expensive = program.estimated_cost > COST_LIMIT
    if program.estimated_cost != expected["estimatedCost"] or too_expensive != expected.get("tooExpensive", False):
        return f"estimate {program.estimated_cost}"
    return ""


@pytest.mark.parametrize(("file", "count"), [("cel.jsonl.gz", 300), ("cel-more.jsonl.gz", 2864)])
def test_the_recordings_are_complete(file: str, count: int) -> None:
    assert len(recorded(file)) == count


@pytest.mark.parametrize("name", recorded("cel.jsonl.gz"))
def test_a_stored_expression_gets_the_recorded_verdict_value_and_cost(name: str) -> None:
    assert find_difference(recorded("cel.jsonl.gz")[name]) == ""


@pytest.mark.parametrize("name", recorded("cel.jsonl.gz"))
def test_a_new_expression_gets_the_recorded_estimate_or_is_refused(name: str) -> None:
    assert find_new_difference(recorded("cel.jsonl.gz")[name]) == ""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_expressions_get_the_recorded_answers(block: int) -> None:
    cases = list(recorded("cel-more.jsonl.gz").values())[block::BLOCKS]
    found = {case["expression"]: find_difference(case) or find_new_difference(case) for case in cases}

    assert {text: difference for text, difference in found.items() if difference} == {}
