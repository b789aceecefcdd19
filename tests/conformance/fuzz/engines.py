"""Our own ways to evaluate an expression must agree: interpreted, compiled after some evaluations, and by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from claimsmith.api.resource import parse_resource_slice
from claimsmith.cel import COST_LIMIT, CelDevice, CelEnvironment, Program, Purpose, compile_expression, prepare_device
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.cel.program import ESTIMATE_MARGIN
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.device import Device
from claimsmith.testing.conformance.records import parse_features
from tests.conformance.fuzz.words import Chance, draw_device

__all__ = ["compare_engines"]

Json = dict[str, Any]

OTHERS: Final = 4
"""How many further devices an expression is evaluated on."""
ROUNDS: Final = 3
"""How often it is evaluated on each: more often in all than an expression is interpreted before it is compiled."""
CHEAP: Final = 20_000
"""Expressions that may cost more are evaluated on their own device alone."""
DIVISIONS: Final = (1, 10**9)
"""Columns are divided wherever possible, and never."""


def compare_engines(question: Json) -> list[str]:
    """Return where the engines differ from the interpreter, which is the one that is compared with upstream."""
    environment = CelEnvironment.for_stored_expressions(parse_features(question["features"]))
    purpose: Purpose = "derived-attribute" if question.get("derivedAttribute") else "selector"
    try:
        program = compile_expression(question["expression"], environment=environment, purpose=purpose)
    except CelCompileError:
        return []
    if program.estimated_cost * ESTIMATE_MARGIN > COST_LIMIT:
        return []  # it is interpreted, always
    chance = Chance(f"{question['name']} devices")
    others = [draw_device(chance) for _ in range(OTHERS if program.estimated_cost <= CHEAP else 0)]
    devices = [
        prepare_device(question["driver"], _parse_device(made, question["driver"]), environment=environment)
        for made in (question["device"], *others)
    ]
    expected = [_interpret(program, device) for device in devices]
    found = [
        f"compiled, device {row}: {value!r}, interpreted {expected[row]!r}"
        for _ in range(ROUNDS)
        for row, device in enumerate(devices)
        if not _is_same(value := _evaluate(program, device), expected[row])
    ]
    if purpose == "selector":
        found += _compare_columns(program, devices, expected)
    return found[:1]


def _parse_device(device: Json, driver: str) -> Device:
    spec = {"driver": driver, "pool": {"name": "drawn", "generation": 1, "resourceSliceCount": 1}, "devices": [device]}
    return parse_resource_slice({"metadata": {"name": "drawn"}, "spec": spec}).devices[0]


def _interpret(program: Program, device: CelDevice) -> object:
    """Return the value, or the class of the error."""
    outcome = program.measure(device)
    return type(outcome.error) if outcome.error is not None else outcome.value


def _evaluate(program: Program, device: CelDevice) -> object:
    try:
        return program.evaluate_value(device)
    except CelRuntimeError as error:
        return type(error)


def _is_same(one: object, two: object) -> bool:
    """Tell whether two values are equal and of one type; NaN is NaN."""
    return type(one) is type(two) and (one == two or repr(one) == repr(two))


def _compare_columns(program: Program, devices: Sequence[CelDevice], expected: Sequence[object]) -> list[str]:
    found = []
    for undivided in DIVISIONS:
        verdicts = evaluate_columns(program, DeviceColumns(devices), undivided=undivided)
        for row, value in enumerate(expected):
            judged = None if verdicts.error[row] else bool(verdicts.true[row])
            if judged != (value if isinstance(value, bool) else None):
                found.append(f"by columns, undivided {undivided}, device {row}: {judged}, interpreted {value!r}")
    return found
