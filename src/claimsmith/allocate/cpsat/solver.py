"""The only place that knows OR-tools: solves a linear model, level by level of its objective.

Source: CP-SAT of OR-tools 9.15, `ortools.sat.python.cp_model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from claimsmith.allocate.cpsat.linear import Expression, LinearModel, evaluate
from claimsmith.allocate.cpsat.terms import Level

__all__ = ["Answer", "is_installed", "solve_levels"]

SHARE: Final = 0.85
"""Part of what is left of the effort that one level may use, unless it is the last."""
CRUMB: Final = 0.15
"""Part of the whole effort below which no further level is begun: preparing it would cost more than it can gain."""
ENDLESS: Final = 1 << 62
"""A bound that no sum of a model reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The best values that were found.

    Args:
        values: One for each variable.
        bounds: For each level the least value of its sum that is possible with the levels before as they are; the
            list ends after the first level whose bound is not reached.
        effort: Deterministic seconds that were used.
    """

    values: tuple[int, ...]
    bounds: tuple[int, ...]
    effort: float


def is_installed() -> bool:
    """Tell whether the extra `[solver]` is there."""
    return find_spec("ortools") is not None


def solve_levels(
    linear: LinearModel, levels: Sequence[Level], *, start: Sequence[int], effort: float, seed: int
) -> Answer:
    """Return values that make the levels small, in this order.

    Args:
        start: An answer that breaks no row; the one that is returned is at least as good.
        effort: Deterministic seconds for all levels.
    """
    solve = _Solve(linear, effort=effort, seed=seed)
    values, bounds, is_open, is_full = list(start), list[int](), False, True
    for place, level in enumerate(levels):
        least = linear.find_range(level.expression)[0]
        if is_full or level.places:
            least = max(least, level.full)
        if evaluate(level.expression, values) > least:
            values, bound = solve.improve(level, values, share=1.0 if place == len(levels) - 1 else SHARE)
            least = max(least, bound)
        cost = evaluate(level.expression, values)
        if not is_open:
            bounds.append(least)
        is_open = is_open or cost > least
        is_full = is_full and not (level.places and cost > level.full)
        solve.keep(level, cost)
    return Answer(values=tuple(values), bounds=tuple(bounds), effort=solve.used)


class _Solve:
    """The model as the solver has it, which grows by what each level needs."""

    def __init__(self, linear: LinearModel, *, effort: float, seed: int) -> None:
        from ortools.sat.python import cp_model

        self._cp: Any = cp_model
        self._linear, self._effort, self._seed = linear, effort, seed
        self._model: Any = cp_model.CpModel()
        self._variables: list[Any] = []
        self._rows = 0
        self.used = 0.0

    def improve(self, level: Level, values: list[int], *, share: float) -> tuple[list[int], int]:
        """Return values at least as good for the level, and a bound on it."""
        if self.used > self._effort * (1 - CRUMB):
            return values, -ENDLESS
        self._grow(level)
        self._model.minimize(self._sum(level.expression))
        self._model.clear_hints()
        for variable, value in zip(self._variables, values, strict=False):
            self._model.add_hint(variable, value)
        solver = self._build_solver((self._effort - self.used) * share)
        status = solver.solve(self._model)
        self.used += solver.deterministic_time
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return values, -ENDLESS
        found = {number: solver.value(variable) for number, variable in enumerate(self._variables)}
        return self._linear.complete(found), round(solver.best_objective_bound)

    def keep(self, level: Level, cost: int) -> None:
        """Demand that the level stays at least as good."""
        self._grow(level)
        self._model.add_linear_constraint(self._sum(level.expression), -ENDLESS, cost)

    def _grow(self, level: Level) -> None:
        """Add the variables and rows that the level needs."""
        linear, known = self._linear, len(self._variables)
        for lower, upper in zip(
            linear.lower[known : level.variables], linear.upper[known : level.variables], strict=True
        ):
            self._variables.append(self._model.new_int_var(lower, upper, ""))
        for row in linear.rows[self._rows : level.rows]:
            lower = -ENDLESS if row.lower is None else row.lower
            upper = ENDLESS if row.upper is None else row.upper
            self._model.add_linear_constraint(self._sum(row.expression), lower, upper)
        self._rows = max(self._rows, level.rows)

    def _build_solver(self, effort: float) -> Any:
        """One worker and no clock, so that the answer is the same in every run; little work before the search."""
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed
        solver.parameters.max_deterministic_time = effort
        solver.parameters.max_presolve_iterations = 1
        solver.parameters.cp_model_probing_level = 0
        return solver

    def _sum(self, expression: Expression) -> Any:
        variables = [self._variables[number] for number in expression]
        return self._cp.LinearExpr.weighted_sum(variables, list(expression.values()))
