"""Judges cases of kind `cel`: a table of expressions, each on one device of the case's slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimsmith.cel import CelDevice, CelEnvironment, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelRuntimeError, InputError
from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from tests.cases.casefile import CaseFile, check_fields


async def judge_expressions(case: CaseFile) -> list[str]:
    """Return the expressions that give something else; all gates are on.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("cel")
    environment = CelEnvironment.for_stored_expressions(Features.all())
    devices = _prepare(case, environment)
    differences = []
    for number, row in enumerate(case.content["cel"], start=1):
        check_fields(row, "device", "expr", "want")
        found = _evaluate(row, devices, environment)
        if found != row["want"]:
            differences.append(f"row {number}, {row['expr']}: {found}, right is {row['want']}")
    return differences


def _prepare(case: CaseFile, environment: CelEnvironment) -> dict[str, CelDevice]:
    slices = [item for item in case.objects() if isinstance(item, ResourceSlice)]
    return {
        device.name: prepare_device(item.driver, device, environment=environment)
        for item in slices
        for device in item.devices
    }


def _evaluate(row: Mapping[str, Any], devices: Mapping[str, CelDevice], environment: CelEnvironment) -> str:
    if row["device"] not in devices:
        raise InputError(f"cel: found device {row['device']!r}, allowed {', '.join(devices)}; correct the name")
    try:
        program = compile_expression(row["expr"], environment=environment)
        return "true" if program.evaluate(devices[row["device"]]) else "false"
    except CelCompileError:
        return "compile-error"
    except CelRuntimeError:
        return "runtime-error"
