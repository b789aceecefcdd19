"""Verdicts of a program on all devices: one run for each combination of values, joined by the rules of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from claimsmith.cel.ast import Call, Expr
from claimsmith.cel.columns.devices import DeviceColumns
from claimsmith.cel.columns.encoding import NO_SIGN, Codes
from claimsmith.cel.columns.ordering import OrderTest
from claimsmith.cel.columns.parts import ERROR, FALSE, TRUE, UNSURE, Part, Parts, Runner, find_parts
from claimsmith.cel.device import CelDevice
from claimsmith.cel.program import Program
from claimsmith.cel.reads import DeviceRead
from claimsmith.errors import CelRuntimeError

Rows = NDArray[np.intp]
Outcomes = NDArray[np.int8]
Flags = NDArray[np.bool_]

UNDIVIDED: Final = 256
"""Up to so many possible combinations, to run them costs less than to divide the expression."""

_LARGEST_TABLE: Final = 1 << 16
"""Up to so many possible combinations, or the devices if they are more, they are found by a table."""

_NOT_JUDGED: Final = -1
_NEGATED: Final = np.array([TRUE, FALSE, ERROR, UNSURE], dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnVerdicts:
    """The verdicts of a program on all devices; for each row exactly one of the three arrays is true.

    Args:
        program: The program.
        true: Rows of the devices that match.
        false: Rows of the devices that don't.
        error: Rows on which the evaluation fails.
        devices: The devices by row, as they were.
    """

    program: Program
    true: Flags
    false: Flags
    error: Flags
    devices: Sequence[CelDevice]

    def __len__(self) -> int:
        return len(self.true)

    def get_error(self, row: int) -> CelRuntimeError:
        """Return the error on a device, from the scalar engine.

        Raises:
            ValueError: The evaluation doesn't fail on it.
        """
        if self.error[row]:
            try:
                self.program.evaluate(self.devices[row])
            except CelRuntimeError as error:
                return error
        raise ValueError(f"row {row}: found the verdict {bool(self.true[row])}, allowed rows of `error`")


def evaluate_columns(program: Program, columns: DeviceColumns, *, undivided: int = UNDIVIDED) -> ColumnVerdicts:
    """Return the verdicts of a program on all devices, equal to those of Program.evaluate on each.

    An evaluation that fails raises nothing here: its row is in `error`.

    Args:
        undivided: An expression with more possible combinations of values than this is divided at &&, ||, ! and ?:,
            which changes the time it takes and no verdict.
    """
    run = _Run(parts=find_parts(program), columns=columns, devices=columns.lend(), undivided=undivided)
    outcomes = run.find_outcomes()
    flags = [outcomes == outcome for outcome in (TRUE, FALSE, ERROR)]
    for array in flags:
        array.flags.writeable = False
    true, false, error = flags
    return ColumnVerdicts(program=program, true=true, false=false, error=error, devices=run.devices)


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """One evaluation of one program."""

    parts: Parts
    columns: DeviceColumns
    devices: Sequence[CelDevice]
    undivided: int

    def find_outcomes(self) -> Outcomes:
        """Return the outcome on each device, none of them UNSURE."""
        rows = np.arange(len(self.columns), dtype=np.intp)
        if not self.parts.is_divisible:
            return self.run_whole(rows)
        try:
            outcomes = self.find(self.parts.tree, rows)
        except RecursionError:
            return self.run_whole(rows)
        unsure = np.flatnonzero(outcomes == UNSURE)
        outcomes[unsure] = self.run_whole(rows[unsure])
        return outcomes

    def run_whole(self, rows: Rows) -> Outcomes:
        """Return the outcomes of the program as a whole on some rows."""
        return self.run_combinations(rows, self.parts.reads, self.parts.whole)

    def find(self, expr: Expr, rows: Rows) -> Outcomes:
        """Return the outcomes of a node that must be a bool on some rows."""
        part = self.parts.get(expr)
        if not len(rows) or self.count_possible(part.reads) <= self.undivided:
            return self.run_combinations(rows, part.reads, part.run)
        divide = _DIVISIONS.get(expr.function) if isinstance(expr, Call) else None
        if divide is not None and isinstance(expr, Call):
            return divide(self, expr, rows)
        if part.order is not None:
            return self.find_order(part, part.order, rows)
        return self.run_combinations(rows, part.reads, part.run)

    def count_possible(self, reads: Sequence[DeviceRead]) -> int:
        """Return how many combinations of values there can be."""
        return math.prod(len(self.columns.column(read).values) for read in reads)

    # --- nodes that are divided -----------------------------------------------------------------------------------

    def find_logic(self, expr: Call, rows: Rows) -> Outcomes:
        """&& or ||: the side that decides wins, also over a failure of the other."""
        deciding, other = (TRUE, FALSE) if expr.function == "_||_" else (FALSE, TRUE)
        outcomes = np.full(len(rows), other, dtype=np.int8)
        for term in expr.args:
            places = np.flatnonzero((outcomes != deciding) & (outcomes != UNSURE))
            found = self.find(term, rows[places])
            changes = found != other
            outcomes[places[changes]] = found[changes]
        return outcomes

    def find_not(self, expr: Call, rows: Rows) -> Outcomes:
        """`!value`."""
        negated: Outcomes = _NEGATED[self.find(expr.args[0], rows)]
        return negated

    def find_conditional(self, expr: Call, rows: Rows) -> Outcomes:
        """`condition ? one : other`; a condition that fails stays as it is."""
        condition, *branches = expr.args
        chosen = self.find(condition, rows)
        outcomes = chosen.copy()
        for outcome, branch in zip((TRUE, FALSE), branches, strict=True):
            places = np.flatnonzero(chosen == outcome)
            outcomes[places] = self.find(branch, rows[places])
        return outcomes

    # --- nodes that run -------------------------------------------------------------------------------------------

    def find_order(self, part: Part, test: OrderTest, rows: Rows) -> Outcomes:
        """A comparison with a constant; values of another type go to the engine."""
        column = self.columns.column(test.read)
        signs = column.compare(test.kind, test.constant)
        by_value = np.isin(signs, tuple(test.signs)).astype(np.int8)
        by_value[signs == NO_SIGN] = _NOT_JUDGED
        outcomes: Outcomes = by_value[column.codes[rows]]
        places = np.flatnonzero(outcomes == _NOT_JUDGED)
        outcomes[places] = self.run_combinations(rows[places], part.reads, part.run)
        return outcomes

    def run_combinations(self, rows: Rows, reads: Sequence[DeviceRead], run: Runner) -> Outcomes:
        """Return outcomes from one run for each combination of values, on any device that has it."""
        if not len(rows):
            return np.zeros(0, dtype=np.int8)
        combinations, possible = self.combine(rows, reads)
        if possible > max(_LARGEST_TABLE, 2 * len(rows)):
            _, first, numbers = np.unique(combinations, return_index=True, return_inverse=True)
            found: Outcomes = self.run_rows(rows[first], run)[numbers]
            return found
        chosen = np.full(possible, -1, dtype=np.intp)
        chosen[combinations] = rows
        present = np.flatnonzero(chosen >= 0)
        by_combination = np.zeros(possible, dtype=np.int8)
        by_combination[present] = self.run_rows(chosen[present], run)
        outcomes: Outcomes = by_combination[combinations]
        return outcomes

    def run_rows(self, rows: Rows, run: Runner) -> Outcomes:
        """Return the outcomes of one run for each row."""
        devices = self.devices
        return np.fromiter((run(devices[row]) for row in rows.tolist()), dtype=np.int8, count=len(rows))

    def combine(self, rows: Rows, reads: Sequence[DeviceRead]) -> tuple[Codes, int]:
        """Return one number for each row, equal for equal combinations of values, and how many there can be."""
        is_all = len(rows) == len(self.devices)
        combined, possible = np.zeros(len(rows), dtype=np.intp), 1
        for read in reads:
            column = self.columns.column(read)
            codes = column.codes if is_all else column.codes[rows]
            if possible > max(_LARGEST_TABLE, 2 * len(rows)):
                numbers, combined = np.unique(combined, return_inverse=True)
                possible = len(numbers)
            combined = combined * len(column.values) + codes if possible > 1 else codes
            possible *= len(column.values)
        return combined, possible


_DIVISIONS: Final[dict[str, Callable[[_Run, Call, Rows], Outcomes]]] = {
    "_&&_": _Run.find_logic,
    "_||_": _Run.find_logic,
    "!_": _Run.find_not,
    "_?_:_": _Run.find_conditional,
}
