"""An integer program as plain values: variables with bounds, rows of sums between bounds. It knows no solver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Final

__all__ = ["Expression", "LinearModel", "Row", "add_up", "evaluate", "scale"]

Expression = Mapping[int, int]
"""A sum: coefficients by variable."""

COEFFICIENT_MAX: Final = 1 << 40
"""Amounts are rounded to be no larger, so that sums stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Row:
    """A sum that must lie between two bounds; None for no bound."""

    expression: Expression
    lower: int | None
    upper: int | None

    def find_least(self, variable: int, known: Mapping[int, int]) -> int:
        """Return the least value of a variable that satisfies the row, with the others as they are known; else 0."""
        factor = self.expression[variable]
        rest = sum(known.get(other, 0) * value for other, value in self.expression.items() if other != variable)
        if self.upper is not None and factor < 0 and rest > self.upper:
            return -((self.upper - rest) // -factor)
        if self.lower is not None and factor > 0 and rest < self.lower:
            return -((rest - self.lower) // factor)
        return 0


@dataclass(slots=True, eq=False)
class LinearModel:
    """Variables by number, and what must hold between them."""

    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add_variable(self, upper: int, *, lower: int = 0) -> int:
        """Return a new variable."""
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.upper) - 1

    def add_row(self, expression: Expression, *, lower: int | None = None, upper: int | None = None) -> None:
        """Demand that a sum lies between the bounds; nothing is added when it always does."""
        least, most = self.find_range(expression)
        if (lower is None or lower <= least) and (upper is None or most <= upper):
            return
        self.rows.append(Row(expression, lower, upper))

    def find_range(self, expression: Expression) -> tuple[int, int]:
        """Return the least and the greatest value that the bounds of the variables leave to a sum."""
        least = most = 0
        for variable, factor in expression.items():
            ends = (factor * self.lower[variable], factor * self.upper[variable])
            least += min(ends)
            most += max(ends)
        return least, most

    def complete(self, values: Mapping[int, int]) -> list[int]:
        """Return values for all variables: those that are not known yet as small as the rows before them allow."""
        known = dict(values)
        rows: dict[int, list[Row]] = {}
        for row in self.rows:
            rows.setdefault(max(row.expression), []).append(row)
        for variable in range(len(self.upper)):
            if variable not in known:
                needed = [row.find_least(variable, known) for row in rows.get(variable, ())]
                known[variable] = min(self.upper[variable], max([self.lower[variable], *needed]))
        return [known[variable] for variable in range(len(self.upper))]

    def find_broken(self, values: Sequence[int]) -> Row | None:
        """Return a row that the values break, or that says a variable's bounds; None when they are an answer."""
        for variable, (least, value, most) in enumerate(zip(self.lower, values, self.upper, strict=True)):
            if not least <= value <= most:
                return Row({variable: 1}, least, most)
        for row in self.rows:
            total = evaluate(row.expression, values)
            if (row.lower is not None and total < row.lower) or (row.upper is not None and total > row.upper):
                return row
        return None


def evaluate(expression: Expression, values: Sequence[int]) -> int:
    """Return what a sum comes to."""
    return sum(values[variable] * factor for variable, factor in expression.items())


def add_up(parts: Iterable[tuple[Expression, int]]) -> dict[int, int]:
    """Return the sum of expressions, each times its factor."""
    total: dict[int, int] = {}
    for expression, factor in parts:
        for variable, value in expression.items():
            total[variable] = total.get(variable, 0) + value * factor
    return {variable: value for variable, value in total.items() if value}


def scale(expression: Expression, limit: int) -> tuple[dict[int, int], int, bool]:
    """Return amounts and their limit in a unit that keeps numbers small, and whether nothing was rounded.

    Amounts are rounded up and the limit down, so that what fits in them fits.
    """
    unit = gcd(*expression.values()) or 1
    unit = max(unit, unit * -(-max(map(abs, expression.values()), default=0) // (unit * COEFFICIENT_MAX)))
    amounts = {variable: -(-value // unit) for variable, value in expression.items()}
    return amounts, limit // unit, all(value % unit == 0 for value in expression.values())
