"""Verdicts by columns are those of the scalar engine, for any expression on any devices."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from claimsmith.cel import CelDevice, Program, compile_expression
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.errors import CelCompileError, CelRuntimeError
from tests.property.test_cel_properties import devices, expressions

conditions = st.one_of(
    expressions(),
    st.tuples(expressions(2), expressions(2), expressions(2)).map(lambda three: "({} && {}) || {}".format(*three)),
    st.tuples(expressions(2), expressions(2), expressions(2)).map(lambda three: "({} ? {} : !({}))".format(*three)),
)
ORDERED = (
    'device.attributes["d"].a', 'device.attributes["d"]["b"]', 'device.attributes["e.f"].c', 'device.capacity["d"].a',
    'device.capacity["d"].b', "device.driver",
)  # fmt: skip
CONSTANTS = ("0", "1", '"a"', '"1.0.0"', "2.0", "true", 'quantity("1Gi")', 'quantity("1500m")', 'semver("1.0.0+x")')
COMPARISONS = (
    "{0} == {1}", "{1} != {0}", "{0} < {1}", "{1} <= {0}", "{0} > {1}", "{1} >= {0}", "{0}.isGreaterThan({1})",
    "{0}.isLessThan({1})", "{0}.compareTo({1}) >= 0", "0 < {0}.compareTo({1})", "{0}.compareTo({1}) != 0",
    "{1}.compareTo({0}) <= 0", "{0} in [{1}]",
)  # fmt: skip
comparisons = st.builds(
    lambda form, value, constant: form.format(value, constant),
    st.sampled_from(COMPARISONS),
    st.sampled_from(ORDERED),
    st.sampled_from(CONSTANTS),
)
selectors = st.one_of(
    conditions,
    comparisons,
    st.tuples(comparisons, comparisons).map(" && ".join),
    st.tuples(comparisons, conditions).map(" || ".join),
)


# Expressions of any type are drawn and wrong ones dropped: how many is chance.
with_dropped_draws = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

DIVIDED = 1
"""Divide wherever it is possible, as with many devices."""


def compile_selector(text: str) -> Program:
    """Return the program of an expression of any type; skip the example when it is wrong."""
    try:
        return compile_expression(text, purpose="part")
    except CelCompileError:
        event("refused")
        assume(False)
        raise


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


@with_dropped_draws
@given(text=selectors, fleet=st.lists(devices, min_size=1, max_size=12))
def test_every_row_gets_the_scalar_verdict(text: str, fleet: list[CelDevice]) -> None:
    program = compile_selector(text)

    assert find_verdicts(program, DeviceColumns(fleet)) == [find_verdict(program, device) for device in fleet]


@with_dropped_draws
@given(
    text=selectors,
    fleet=st.lists(devices, min_size=1, max_size=4),
    more=st.lists(devices, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 7), devices), max_size=4),
)
def test_columns_that_grow_and_change_equal_columns_made_anew(
    text: str, fleet: list[CelDevice], more: list[CelDevice], changes: list[tuple[int, CelDevice]]
) -> None:
    program, columns = compile_selector(text), DeviceColumns(fleet)
    find_verdicts(program, columns)
    columns.extend(more)
    state = [*fleet, *more]
    for row, device in changes:
        columns.replace(row % len(state), device)
        state[row % len(state)] = device

    assert find_verdicts(program, columns) == find_verdicts(program, DeviceColumns(state))
