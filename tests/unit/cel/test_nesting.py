"""Expressions may be nested as deeply as in cel-go, and no deeper.

The numbers were found by trying with cel-go v0.29.2 in upstream's environment: one level more is refused there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from claimsmith.cel import compile_expression
from claimsmith.cel.parser import parse
from claimsmith.errors import CelCompileError

Form = Callable[[int], str]

FORMS: list[tuple[str, Form, int]] = [
    ("brackets", lambda n: "(" * n + "true" + ")" * n, 249),
    ("negated brackets", lambda n: "!(" * n + "true" + ")" * n, 249),
    ("conditions in brackets", lambda n: "true && (false || " * n + "true" + ")" * n, 249),
    ("conditions behind colons", lambda n: "true ? true : " * n + "true", 249),
    ("conditions before question marks", lambda n: "(" * n + "true" + " ? true : false)" * n, 248),
    ("a sum", lambda n: " + ".join(["1"] * n) + " > 0", 250),
    ("sums in brackets", lambda n: "(" * n + "1" + " + 1)" * n + " > 0", 248),
    ("comparisons in brackets", lambda n: "(" * n + "true" + " == true)" * n, 248),
    ("lists", lambda n: "[" * n + "1" + "]" * n + " != []", 249),
    ("empty lists", lambda n: "[" * n + "]" * n + " != []", 250),
    ("maps", lambda n: "{1:" * n + "1" + "}" * n + " != {}", 249),
    ("fields", lambda n: "has(device" + ".attributes" * n + ")", 250),
    ("methods", lambda n: '"a"' + ".lowerAscii()" * n + ' == "a"', 249),
    ("functions", lambda n: "size(string(" * n + "1" + "))" * n + " > 0", 124),
    ("macros", lambda n: "[1].exists(x, " * n + "true" + ")" * n, 249),
]


@pytest.mark.parametrize(("form", "deepest"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_the_deepest_nesting_is_cel_gos(form: Form, deepest: int) -> None:
    parse(form(deepest))

    with pytest.raises(CelCompileError, match="nested more than 250 levels deep"):
        parse(form(deepest + 1))


@pytest.mark.parametrize(
    "text",
    ["!" * 4000 + "true", "-" * 4000 + "1 == 1", " && ".join(["true"] * 1200), " || ".join(["1 + 1 > 1"] * 900)],
    ids=["not", "minus", "and", "or"],
)
def test_what_follows_without_nesting_has_no_limit(text: str) -> None:
    assert compile_expression(text).output_type == "bool"


@pytest.mark.parametrize(
    ("form", "levels"),
    [(form[1], min(form[2], 110)) for form in FORMS],
    ids=[form[0] for form in FORMS],
)
def test_a_hundred_levels_are_compiled_whatever_they_are(form: Form, levels: int) -> None:
    assert compile_expression(form(levels), purpose="part")


def test_more_levels_than_the_calling_programs_stack_holds_are_an_error() -> None:
    with pytest.raises(CelCompileError, match="nested too deeply for the calling program's stack"):
        compile_expression("true && (false || " * 249 + "true" + ")" * 249)
