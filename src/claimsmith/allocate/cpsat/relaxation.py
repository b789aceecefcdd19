"""Linear programs over real numbers: an upper bound on what any choice of whole numbers can reach.

Source: GLOP of OR-tools 9.15, `ortools.linear_solver.pywraplp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

__all__ = ["Relaxation", "RelaxationRow", "find_maximum", "is_installed"]


@dataclass(frozen=True, slots=True)
class RelaxationRow:
    """A sum of variables that must lie between two bounds; None for no bound."""

    coefficients: Mapping[int, float]
    lower: float | None
    upper: float | None


@dataclass(slots=True, eq=False)
class Relaxation:
    """Variables by number, each from 0 to its bound, rows, and what is to be as large as possible."""

    bounds: list[float | None] = field(default_factory=list)
    rows: list[RelaxationRow] = field(default_factory=list)
    gain: dict[int, float] = field(default_factory=dict)

    def add_variable(self, upper: float | None = None, *, gain: float = 0.0) -> int:
        """Add a variable and return its number.

        Args:
            upper: Its largest value; None for no bound.
            gain: What one of it adds.
        """
        self.bounds.append(upper)
        number = len(self.bounds) - 1
        if gain:
            self.gain[number] = gain
        return number

    def add_row(
        self, coefficients: Mapping[int, float], *, lower: float | None = None, upper: float | None = None
    ) -> None:
        """Demand that a sum lies between two bounds."""
        self.rows.append(RelaxationRow(dict(coefficients), lower, upper))


def is_installed() -> bool:
    """Tell whether the extra `[solver]` is there."""
    return find_spec("ortools") is not None


def find_maximum(program: Relaxation) -> tuple[float, list[float]] | None:
    """Return the largest gain and the values that reach it; None when there is no solver or no best answer."""
    if not is_installed():
        return None
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    if solver is None:
        return None
    endless = solver.infinity()
    variables = [solver.NumVar(0, endless if upper is None else upper, "") for upper in program.bounds]
    for row in program.rows:
        lower = -endless if row.lower is None else row.lower
        constraint = solver.Constraint(lower, endless if row.upper is None else row.upper)
        for number, coefficient in row.coefficients.items():
            constraint.SetCoefficient(variables[number], coefficient)
    objective = solver.Objective()
    for number, gain in program.gain.items():
        objective.SetCoefficient(variables[number], gain)
    objective.SetMaximization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    return objective.Value(), [variable.solution_value() for variable in variables]
