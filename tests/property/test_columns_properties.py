"""Verdicts by columns are those of the scalar engine, for any expression on any devices."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from claimsmith.cel import CelDevice, Program, compile_expression
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.errors import CelRuntimeError
from tests.property.test_cel_properties import devices
from tests.property.typed_selectors import selectors

DIVIDED = 1
"""Divide wherever it is possible, as with many devices."""


def find_verdict(program: Program, device: CelDevice) -> str:
    """Return the scalar engine's verdict, or its error's text."""
    try:
        return str(program.evaluate(device))
    except CelRuntimeError as error:
        event("fails")
        return str(error)


def find_verdicts(program: Program, columns: DeviceColumns) -> list[str]:
    """Return the verdicts by columns, with the errors' texts."""
    verdicts = evaluate_columns(program, columns, undivided=DIVIDED)
    assert (verdicts.true.astype(int) + verdicts.false + verdicts.error == 1).all()
    return [
        str(verdicts.get_error(row)) if verdicts.error[row] else str(bool(verdicts.true[row]))
        for row in range(len(verdicts))
    ]


@given(text=selectors(), fleet=st.lists(devices, min_size=1, max_size=12))
def test_every_row_gets_the_scalar_verdict(text: str, fleet: list[CelDevice]) -> None:
    program = compile_expression(text)

    assert find_verdicts(program, DeviceColumns(fleet)) == [find_verdict(program, device) for device in fleet]


@given(
    text=selectors(),
    fleet=st.lists(devices, min_size=1, max_size=4),
    more=st.lists(devices, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 7), devices), max_size=4),
)
def test_columns_that_grow_and_change_equal_columns_made_anew(
    text: str, fleet: list[CelDevice], more: list[CelDevice], changes: list[tuple[int, CelDevice]]
) -> None:
    program, columns = compile_expression(text), DeviceColumns(fleet)
    find_verdicts(program, columns)
    columns.extend(more)
    state = [*fleet, *more]
    for row, device in changes:
        columns.replace(row % len(state), device)
        state[row % len(state)] = device

    assert find_verdicts(program, columns) == find_verdicts(program, DeviceColumns(state))
