"""Every recorded expression gets the same verdicts by columns as from the scalar engine, on many recorded devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from claimsmith.cel import CelDevice, CelEnvironment, Program
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.errors import CelCompileError, CelRuntimeError
from tests.conformance.cel.test_recorded_expressions import FEATURES, compile_case, device_of, recorded

BLOCKS = 10
CHEAP = 2_000
"""Expressions that may cost more are evaluated on their own device alone: some take a second for each."""
DIVISIONS = (1, 10**9)
"""Divide wherever it is possible, and never."""
FILES = {"cel.jsonl.gz": 120, "cel-more.jsonl.gz": 24}
"""On how many devices each expression of a file is evaluated, its own included."""


@cache
def distinct_devices(file: str) -> tuple[CelDevice, ...]:
    """Return the devices of a file, each once, in an order that mixes those of neighbouring cases."""
    found: dict[str, dict[str, Any]] = {}
    for case in recorded(file).values():
        found.setdefault(json.dumps([case["driver"], case["device"]], sort_keys=True), case)
    devices = [device_of(case) for case in found.values()]
    return tuple(devices[row * 7919 % len(devices)] for row in range(len(devices)))


def judge_scalar(program: Program, devices: Sequence[CelDevice]) -> list[bool | None]:
    """Return the scalar engine's verdicts, None for an error."""
    verdicts: list[bool | None] = []
    for device in devices:
        try:
            verdicts.append(program.evaluate(device))
        except CelRuntimeError:
            verdicts.append(None)
    return verdicts


def judge_columns(program: Program, devices: Sequence[CelDevice], undivided: int) -> list[bool | None]:
    """Return the verdicts by columns, None for an error."""
    verdicts = evaluate_columns(program, DeviceColumns(devices), undivided=undivided)
    assert (verdicts.true.astype(int) + verdicts.false + verdicts.error == 1).all()
    return [None if verdicts.error[row] else bool(verdicts.true[row]) for row in range(len(devices))]


def find_difference(case: dict[str, Any], devices: Sequence[CelDevice]) -> str:
    """Say on which row the two ways differ; empty when on none, or when the expression is refused."""
    try:
        program = compile_case(case, CelEnvironment.for_stored_expressions(FEATURES[case["features"]]))
    except CelCompileError:
        return ""
    devices = devices if program.estimated_cost <= CHEAP else devices[:1]
    expected = judge_scalar(program, devices)
    for undivided in DIVISIONS:
        for row, verdict in enumerate(judge_columns(program, devices, undivided)):
            if verdict != expected[row]:
                return f"row {row}: {verdict}, allowed {expected[row]}"
    return ""


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_recorded_expressions_get_the_scalar_verdicts(file: str, block: int) -> None:
    devices, count = distinct_devices(file), FILES[file] - 1
    differences = {}
    for number, case in enumerate(list(recorded(file).values())[block::BLOCKS]):
        start = number * count % len(devices)
        fleet = [device_of(case), *(devices + devices)[start : start + count]]
        differences[case["expression"]] = find_difference(case, fleet)

    assert {text: difference for text, difference in differences.items() if difference} == {}
