"""Selectors that are well typed by the way they are drawn, so that none has to be dropped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from hypothesis import strategies as st

from tests.property.test_cel_properties import DOMAINS, IDS

__all__ = ["selectors"]

VERSIONS: Final = ('semver("1.0.0")', 'semver("1.0.0+x")', 'semver("2.0.0-rc.1")')
QUANTITIES: Final = ('quantity("1Gi")', 'quantity("1500m")', 'device.capacity["d"].a', 'device.capacity["d"].b')
STRINGS: Final = ('"a"', '"d"', '""', '"1.0.0"', "device.driver", '"ab".upperAscii()')
INTS: Final = ("0", "1", "-1", "9223372036854775807")
ORDERED: Final = (*INTS, *STRINGS, "2.0")
"""Constants that an attribute may be less than, as far as can be told before it is seen."""
LISTED: Final = (*ORDERED, "true", VERSIONS[0], QUANTITIES[0])
BOOLS: Final = ("true", "false", "device.allowMultipleAllocations")
ORDER: Final = ("==", "!=", "<", "<=", ">", ">=")
ATTRIBUTES: Final = ('device.attributes["{0}"].{1}', 'device.attributes["{0}"]["{1}"]')
PRESENCE: Final = (
    'has(device.attributes["{0}"].{1})', '"{1}" in device.attributes["{0}"]', '"{0}" in device.capacity',
    'device.attributes["{0}"].all(k, k != "{1}")', 'device.attributes["{0}"].?{1}.hasValue()',
)  # fmt: skip
METHODS: Final = (
    "{0}.isGreaterThan({1})", "{0}.isLessThan({1})", "{0}.compareTo({1}) >= 0", "0 < {0}.compareTo({1})",
    "{0}.compareTo({1}) != 0", "{0} == {1}", "{1} != {0}",
)  # fmt: skip
ON_STRINGS: Final = ("{0}.startsWith({1})", "{0}.contains({1})", "{0} < {1}", "{0} == {1}", "{0} + {1} == {1}")
ON_INTS: Final = ("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})")
MACROS: Final = ("all", "exists", "exists_one")
LEAVES: Final = ("constant", "presence", "ordered", "listed", "version", "capacity", "capacity", "strings", "ints")
BRANCHES: Final = ("ordered", "ints", "loop", "joined", "joined", "negated", "chosen")


@st.composite
def selectors(draw: st.DrawFn, depth: int = 2) -> str:
    """A selector: a bool of any form, whose attributes may be missing or of any type."""
    return _Writer(draw).write_bool(depth, ())


@cache
def _any_of(texts: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


class _Writer:
    """Writes expressions of a type.

    Args:
        draw: Draws from a strategy.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, texts: Sequence[str]) -> str:
        """Return one of the texts."""
        return self._draw(_any_of(tuple(texts)))

    def place(self, form: str) -> str:
        """Fill in a domain and an id."""
        return form.format(self.pick(DOMAINS), self.pick(IDS))

    def write_bool(self, depth: int, variables: tuple[str, ...]) -> str:
        """Return a bool; loop variables are ints."""
        match self.pick((*LEAVES, *BRANCHES * 3) if depth else LEAVES):
            case "constant":
                return self.pick(BOOLS)
            case "presence":
                return self.place(self.pick(PRESENCE))
            case "ordered":
                parts = [self.place(self.pick(ATTRIBUTES)), self.pick(ORDER), self.pick(ORDERED)]
                return " ".join(parts if self.pick(("as it is", "swapped")) == "as it is" else reversed(parts))
            case "listed":
                return f"{self.place(self.pick(ATTRIBUTES))} in [{self.pick(LISTED)}]"
            case "version":
                return self.pick(METHODS).format(self.place(self.pick(ATTRIBUTES)), self.pick(VERSIONS))
            case "capacity":
                return self.pick(METHODS).format(self.pick(QUANTITIES), self.pick(QUANTITIES))
            case "strings":
                text = self.pick((*STRINGS, "attribute"))
                text = self.place(self.pick(ATTRIBUTES)) if text == "attribute" else text
                return f"({self.pick(ON_STRINGS).format(text, self.pick(STRINGS))})"
            case "ints":
                left, right = self.write_int(depth, variables), self.write_int(depth, variables)
                return f"({left} {self.pick(ORDER)} {right})"
            case branch:
                return self.write_branch(branch, depth - 1, variables)

    def write_branch(self, form: str, depth: int, variables: tuple[str, ...]) -> str:
        """Return a bool that is made of others."""
        if form == "negated":
            return f"!({self.write_bool(depth, variables)})"
        if form == "chosen":
            return "({} ? {} : {})".format(*(self.write_bool(depth, variables) for _ in range(3)))
        if form == "joined":
            sign = self.pick((" && ", " || "))
            return f"({sign.join(self.write_bool(depth, variables) for _ in range(int(self.pick('23'))))})"
        name = "xyz"[len(variables) % 3]
        return (
            f"[{self.write_items(variables)}].{self.pick(MACROS)}({name}, {self.write_bool(depth, (*variables, name))})"
        )

    def write_int(self, depth: int, variables: tuple[str, ...]) -> str:
        """Return a number, or an attribute where one is expected; sums and products may overflow."""
        leaves = (*INTS, *variables, "device.driver.size()", "attribute", "list")
        form = self.pick((*leaves, *ON_INTS) if depth else leaves)
        if form == "attribute":
            return self.place(self.pick(ATTRIBUTES))
        if form == "list":
            return f"[{self.write_items(variables)}].size()"
        if form in ON_INTS:
            return form.format(self.write_int(depth - 1, variables), self.write_int(depth - 1, variables))
        return form

    def write_items(self, variables: tuple[str, ...]) -> str:
        """Return elements of one type: up to three numbers, or one attribute."""
        count = int(self.pick("0123"))
        if not count:
            return self.place(self.pick(ATTRIBUTES))
        return ", ".join(self.pick((*INTS, *variables)) for _ in range(count))
