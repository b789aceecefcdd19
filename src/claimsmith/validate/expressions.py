"""Rules of CEL expressions: they compile, to the right type, and are neither too long nor too expensive.

Expressions may use all that the types have, lists as attribute values included, whatever a cluster's gates.

Source: validateCELExpression in k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go.

Deviates: selector-gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from claimsmith.errors import CelCompileError
from claimsmith.validate.issues import FieldIssue, forbidden, invalid, too_long

__all__ = ["check_derived_expression", "check_selector"]

EXPRESSION_BYTES_MAX: Final = 10 * 1024
"""Longest expression."""
COST_MAX: Final = 1_000_000
"""Highest estimated cost of one expression, on the largest device that the API allows."""


def check_selector(expression: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a new selector: an expression over `device` that gives a bool."""
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        yield too_long(path, EXPRESSION_BYTES_MAX)
        return
    fault, cost = _compile(expression, derived=False)
    if fault:
        yield invalid(path, expression, fault)
    elif cost > COST_MAX:
        yield forbidden(path, "too complex, exceeds cost limit")


def check_derived_expression(expression: str, path: str) -> tuple[int, tuple[FieldIssue, ...]]:
    """Return the estimated cost of the expression of a derived attribute, and what is wrong with it."""
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        return 0, (too_long(path, EXPRESSION_BYTES_MAX),)
    fault, cost = _compile(expression, derived=True)
    if fault:
        return 0, (invalid(path, expression, fault),)
    return cost, (forbidden(path, "too complex, exceeds cost limit"),) if cost > COST_MAX else ()


@lru_cache(maxsize=4096)
def _compile(expression: str, *, derived: bool) -> tuple[str, int]:
    """Return what the compiler refuses (empty when nothing), and the estimated cost."""
    # The language is loaded when the first expression comes along, not with the first object that has none.
    from claimsmith.cel import CelEnvironment, compile_expression

    try:
        program = compile_expression(
            expression,
            environment=CelEnvironment(is_stored=False, list_attributes=True),
            purpose="derived-attribute" if derived else "selector",
        )
    except CelCompileError as error:
        return f"compilation failed: {error}", 0
    return "", program.estimated_cost
