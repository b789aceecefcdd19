"""The only place that knows OR-tools: solves a linear model, level by level of its objective.

Source: CP-SAT of OR-tools 9.15, `ortools.sat.python.cp_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from claimsmith.allocate.cpsat.linear import Expression, LinearModel

__all__ = ["Answer", "is_installed", "solve_levels"]

SHARE: Final = 0.6
"""Part of what is left of the effort that one level may use, unless it is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The best values that were found.

    Args:
        values: One for each variable.
        bounds: For each level the least cost that is possible with the levels before as they are; the list ends after
            the first level whose bound is not reached.
        effort: Deterministic seconds that were used.
    """

    values: tuple[int, ...]
    bounds: tuple[int, ...]
    effort: float


def is_installed() -> bool:
    """Tell whether the extra `[solver]` is there."""
    return find_spec("ortools") is not None


def solve_levels(
    linear: LinearModel, levels: Sequence[Expression], *, start: Mapping[int, int], effort: float, seed: int
) -> Answer:
    """Return values that make the levels small, in this order.

    Args:
        start: An answer that breaks no row; the one that is returned is at least as good.
        effort: Deterministic seconds for all levels.
    """
    return _Solve(linear, start=start, effort=effort, seed=seed).run(levels)


@dataclass(slots=True, eq=False)
class _Solve:
    linear: LinearModel
    start: Mapping[int, int]
    effort: float
    seed: int
    used: float = 0.0
    bounds: list[int] = field(default_factory=list)

    def run(self, levels: Sequence[Expression]) -> Answer:
        from ortools.sat.python import cp_model

        model, variables = self._build(cp_model)
        values = [self.start[number] for number in range(len(variables))]
        open_bound = False
        for place, level in enumerate(levels):
            cost = _evaluate(level, values)
            least = self.linear.find_range(level)[0]
            reached = cost == least
            if not reached and self.used < self.effort:
                share = 1.0 if place == len(levels) - 1 else SHARE
                found, bound = self._solve(cp_model, model, variables, level=level, start=values, share=share)
                values, least = found or values, max(bound, least)
                cost = _evaluate(level, values)
                reached = cost == least
            if not open_bound:
                self.bounds.append(least)
            open_bound = open_bound or not reached
            expression = cp_model.LinearExpr.weighted_sum([variables[v] for v in level], list(level.values()))
            model.add_linear_constraint(expression, least if reached else -(1 << 62), cost)
        return Answer(values=tuple(values), bounds=tuple(self.bounds), effort=self.used)

    def _build(self, cp_model: Any) -> tuple[Any, list[Any]]:
        model = cp_model.CpModel()
        bounds = zip(self.linear.lower, self.linear.upper, strict=True)
        variables = [model.new_int_var(lower, upper, "") for lower, upper in bounds]
        for row in self.linear.rows:
            used, factors = [variables[v] for v in row.expression], list(row.expression.values())
            lower = -(1 << 62) if row.lower is None else row.lower
            upper = (1 << 62) if row.upper is None else row.upper
            model.add_linear_constraint(cp_model.LinearExpr.weighted_sum(used, factors), lower, upper)
        return model, variables

    def _solve(
        self, cp_model: Any, model: Any, variables: list[Any], *, level: Expression, start: list[int], share: float
    ) -> tuple[list[int] | None, int]:
        """Return better values, or None, and a bound on the level's cost."""
        model.minimize(cp_model.LinearExpr.weighted_sum([variables[v] for v in level], list(level.values())))
        model.clear_hints()
        for variable, value in zip(variables, start, strict=True):
            model.add_hint(variable, value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self.seed
        solver.parameters.max_deterministic_time = (self.effort - self.used) * share
        status = solver.solve(model)
        self.used += solver.deterministic_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, self.linear.find_range(level)[0]
        return [solver.value(variable) for variable in variables], round(solver.best_objective_bound)


def _evaluate(expression: Expression, values: Sequence[int]) -> int:
    return sum(values[variable] * factor for variable, factor in expression.items())
