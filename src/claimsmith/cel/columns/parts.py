"""Parts of an expression that run by themselves, with the scalar engine's own evaluators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from claimsmith.cel.ast import Expr, walk
from claimsmith.cel.checker import CheckedExpression
from claimsmith.cel.codegen import Compiled, compile_function
from claimsmith.cel.codegen_support import FALLBACK
from claimsmith.cel.columns.ordering import OrderTest, find_order_test
from claimsmith.cel.device import CelDevice
from claimsmith.cel.frames import Failure, Frame, Step
from claimsmith.cel.interpreter import plan
from claimsmith.cel.meter import CostMeter
from claimsmith.cel.program import CACHE_SIZE, COST_LIMIT, ESTIMATE_MARGIN, Program
from claimsmith.cel.reads import DeviceRead, find_reads
from claimsmith.cel.values import Value
from claimsmith.errors import CelAbort, CelCostLimitReached, CelRuntimeError

FALSE: Final = 0
"""The outcome of a part that is false."""

TRUE: Final = 1
"""The outcome of a part that is true."""

ERROR: Final = 2
"""The outcome of a part that fails, or is no bool: what && and || around it can make up for."""

UNSURE: Final = 3
"""The outcome of a part that stops the evaluation as a whole, if it is reached; never that of a whole program."""

_RUNS_BEFORE_COMPILING: Final = 8

Runner = Callable[[CelDevice], int]
"""Gives the outcome on one device."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """One node of an expression, with all below it, outside of loops.

    Args:
        checked: The node as an expression of its own.
        reads: What it reads of a device; nothing else has an influence on its outcome.
        order: What it compares, if it is such a comparison.
    """

    checked: CheckedExpression
    reads: tuple[DeviceRead, ...]
    order: OrderTest | None
    _steps: Step
    _node_count: int
    _countdown: int = _RUNS_BEFORE_COMPILING
    _compiled: Compiled | None = None

    @classmethod
    def of(cls, checked: CheckedExpression) -> Part:
        """Return the part for an expression."""
        tree = checked.tree
        return cls(
            checked=checked,
            reads=tuple(sorted(find_reads(tree), key=str)),
            order=find_order_test(tree),
            _steps=plan(checked),
            _node_count=max(node.id for node in walk(tree)),
        )

    def run(self, device: CelDevice) -> int:
        """Return the outcome on a device."""
        self._countdown -= 1
        if self._countdown == 0:
            self._compiled = compile_function(self.checked)
        value = FALLBACK if self._compiled is None else self._compiled(device)
        if value is FALLBACK:
            return self._run_exactly(device)
        return _outcome(value)

    def _run_exactly(self, device: CelDevice) -> int:
        meter = CostMeter(COST_LIMIT, self._node_count)
        try:
            value = self._steps.run(Frame(meter, device.as_value()))
        except (CelAbort, CelCostLimitReached, RecursionError):
            return UNSURE
        return ERROR if isinstance(value, Failure) else _outcome(value)


@dataclass(slots=True, kw_only=True, eq=False)
class Parts:
    """A program and its parts, which are made when they are first needed.

    Args:
        whole: Runs the program as a whole.
        reads: What the program reads of a device.
        is_divisible: False for a program whose cost may come near the limit: no part knows the cost of the others.
    """

    whole: Runner
    reads: tuple[DeviceRead, ...]
    is_divisible: bool
    _checked: CheckedExpression
    _parts: dict[int, Part] = field(default_factory=dict)

    @property
    def tree(self) -> Expr:
        """The tree of the program."""
        return self._checked.tree

    def get(self, expr: Expr) -> Part:
        """Return the part of a node of the tree, which must not stand in a loop."""
        found = self._parts.get(expr.id)
        if found is None:
            found = self._parts[expr.id] = Part.of(replace(self._checked, tree=expr))
        return found


@lru_cache(maxsize=CACHE_SIZE)
def find_parts(program: Program) -> Parts:
    """Return the parts of a program; the same while they are remembered."""

    def run(device: CelDevice) -> int:
        try:
            return TRUE if program.evaluate(device) else FALSE
        except CelRuntimeError:
            return ERROR

    return Parts(
        whole=run,
        reads=tuple(sorted(program.attributes_read(), key=str)),
        is_divisible=program.estimated_cost * ESTIMATE_MARGIN <= COST_LIMIT,
        _checked=program.checked,
    )


def _outcome(value: Value) -> int:
    if value is True:
        return TRUE
    return FALSE if value is False else ERROR
