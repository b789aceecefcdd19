"""Judges recorded expressions: verdict, value, cost, and what the API server says of a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claimsmith.api.resource import parse_resource_slice
from claimsmith.cel import COST_LIMIT, CelDevice, CelEnvironment, Program, Purpose, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelRuntimeError, FieldError
from claimsmith.model.device import Device
from claimsmith.testing.conformance.outcome import CaseOutcome
from claimsmith.testing.conformance.records import get_field, parse_features

__all__ = ["judge_expression"]

_FIELDS = frozenset({"name", "tags", "features", "expression", "driver", "device", "derivedAttribute", "upstream"})


def judge_expression(record: Mapping[str, Any], name: str) -> CaseOutcome:
    """Judge one expression on one device.

    Raises:
        InputError: The record is not understood.
    """
    if unknown := sorted(set(record) - _FIELDS):
        raise FieldError(unknown[0], record[unknown[0]], allowed="no such field", hint="teach the reader this field")
    upstream = get_field(record, "upstream", dict)
    text, features = get_field(record, "expression", str), parse_features(record.get("features", "default"))
    purpose: Purpose = "derived-attribute" if record.get("derivedAttribute") else "selector"
    differences = list(_judge_new(text, CelEnvironment.for_new_expressions(features), purpose, upstream))
    environment = CelEnvironment.for_stored_expressions(features)
    driver = get_field(record, "driver", str)
    try:
        program = compile_expression(text, environment=environment, purpose=purpose)
    except CelCompileError as error:
        found: Iterator[str] = _compare_verdict("compile-error", str(error), upstream)
    else:
        device = prepare_device(driver, _parse_device(record), environment=environment)
        found = _judge_evaluation(program, device, purpose, upstream)
    return CaseOutcome(name=name, differences=(*differences, *found))


def _parse_device(record: Mapping[str, Any]) -> Device:
    spec = {
        "driver": record["driver"],
        "pool": {"name": "recorded", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [get_field(record, "device", dict)],
    }
    return parse_resource_slice({"metadata": {"name": "recorded"}, "spec": spec}).devices[0]


def _judge_new(text: str, environment: CelEnvironment, purpose: Purpose, upstream: Mapping[str, Any]) -> Iterator[str]:
    """Compare what becomes of the expression in a new object."""
    expected = "refused" if upstream.get("newCompileError") else "accepted"
    try:
        program = compile_expression(text, environment=environment, purpose=purpose)
    except CelCompileError as error:
        if expected != "refused":
            yield f"a new expression is refused ({error}), upstream accepts it"
        return
    if expected == "refused":
        yield f"a new expression is accepted, upstream refuses it: {upstream['newCompileError']}"
    elif program.estimated_cost != upstream.get("estimatedCost"):
        yield f"estimated cost {program.estimated_cost}, upstream's {upstream.get('estimatedCost')}"
    elif (program.estimated_cost > COST_LIMIT) != bool(upstream.get("tooExpensive")):
        yield f"too expensive: {program.estimated_cost > COST_LIMIT}, upstream: {bool(upstream.get('tooExpensive'))}"


def _compare_verdict(verdict: str, detail: str, upstream: Mapping[str, Any]) -> Iterator[str]:
    if verdict != upstream.get("verdict"):
        yield f"{verdict} ({detail}), upstream: {upstream.get('verdict')}"


def _judge_evaluation(
    program: Program, device: CelDevice, purpose: Purpose, upstream: Mapping[str, Any]
) -> Iterator[str]:
    """Compare the plain evaluation with the recorded verdict and value, and the metered one with the cost."""
    verdict, value = _evaluate(program, device, purpose)
    yield from _compare_verdict(verdict, str(value), upstream)
    if verdict == "value" and value != upstream.get("value"):
        yield f"value {value}, upstream's {upstream.get('value')}"
    allowed = upstream.get("costVaries") or ([upstream["cost"]] if "cost" in upstream else [])
    cost = program.measure(device).cost
    if allowed and cost not in allowed:
        yield f"cost {cost}, upstream's {' or '.join(map(str, allowed))}"


def _evaluate(program: Program, device: CelDevice, purpose: Purpose) -> tuple[str, object]:
    """Return verdict and value in the words of the recordings, which leave out empty lists."""
    try:
        if purpose == "derived-attribute":
            attribute = program.evaluate_attribute(device)
            listed = list(attribute.value) if isinstance(attribute.value, tuple) else attribute.value
            return "value", {} if listed == [] else {attribute.kind: listed}
        return ("true" if program.evaluate(device) else "false"), ""
    except CelRuntimeError as error:
        return "runtime-error", error
