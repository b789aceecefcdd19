"""How deeply an expression may be nested, counted as cel-go counts it, twice.

While it reads, cel-go bounds how many rules of one name are open at once: expressions (each pair of brackets opens one,
and so does what follows the colon of a condition), comparisons, and sums or products. Operators of one level follow
each other without nesting; a right side is nested. Afterwards it bounds how deeply conditions, comparisons, arithmetic,
selections, methods and indexes lie in each other; brackets, !, && and || add nothing there.

Source: recursionListener and checkAndIncrementRecursionDepth in cel-go v0.29.2, parser/parser.go; parser/gen/CEL.g4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["MAX_NESTING", "OUTERMOST", "OpenRules"]

MAX_NESTING: Final = 250
"""Most rules of one name that are open at once, and most levels of a tree. Source: maxRecursionDepth of cel-go."""


class OpenRules(NamedTuple):
    """Rules that are open where a value begins, each counted by its name.

    Args:
        expressions: Rule expr.
        relations: Rule relation: comparisons, and whatever stands where one could.
        sums: Rule calc: additions and multiplications.
    """

    expressions: int = 0
    relations: int = 0
    sums: int = 0

    def enter(self, waiting: Iterable[str]) -> OpenRules:
        """Return what is open where the next value begins, in brackets that were opened here.

        Args:
            waiting: Operators in these brackets that wait for their right side, in the order of the text: `:`, `?`,
                a comparison, or arithmetic; others count for nothing.
        """
        expressions, relations, sums = self.expressions + 1, self.relations + 1, self.sums + 1
        for symbol in waiting:
            if symbol == ":":
                # The condition is closed, and what follows is an expression of its own inside this one.
                expressions, relations, sums = expressions + 1, self.relations + 1, self.sums + 1
            elif symbol in _COMPARISONS:
                relations += 1
            elif symbol in _ARITHMETIC:
                sums += 1
        return OpenRules(expressions, relations, sums)

    @property
    def is_too_deep(self) -> bool:
        """Whether cel-go gives up here."""
        return max(self) > MAX_NESTING


OUTERMOST: Final = OpenRules()
"""Around the whole expression nothing is open."""
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
