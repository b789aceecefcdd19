"""Expressions are read as the grammar says, and a wrong one is refused with its place and a way out."""

from __future__ import annotations

import pytest

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, walk
from claimsmith.cel.parser import MAX_CODE_POINTS, parse
from claimsmith.errors import CelCompileError


def show(expr: Expr) -> str:
    """Write a tree as nested calls."""
    if isinstance(expr, Literal):
        return repr(expr.value)
    if isinstance(expr, Ident):
        return expr.name
    if isinstance(expr, Select):
        return f"{'has ' if expr.test_only else ''}{show(expr.operand)}.{expr.field}"
    if isinstance(expr, Call):
        target = f"{show(expr.target)}." if expr.target is not None else ""
        return f"{target}{expr.function}({', '.join(map(show, expr.args))})"
    if isinstance(expr, ListExpr):
        items = (("?" if i in expr.optional else "") + show(item) for i, item in enumerate(expr.elements))
        return f"[{', '.join(items)}]"
    if isinstance(expr, MapExpr):
        entries = (f"{'?' if entry.optional else ''}{show(entry.key)}: {show(entry.value)}" for entry in expr.entries)
        return f"{{{', '.join(entries)}}}"
    if isinstance(expr, StructExpr):
        return f"{expr.type_name}{{{', '.join(f'{name}: {show(value)}' for name, value in expr.fields)}}}"
    return f"{expr.macro}({show(expr.range)}, {expr.variable})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a in [1] == true", "_==_(@in(a, [1]), True)"),
        ("1 - -2", "_-_(1, -2)"),
        ("!!a", "a"),
        ("!-1", "!_(-1)"),
        ("-x.y", "-_(x.y)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0x1F + 7u", "_+_(31, 7u)"),
        ("f(a, b).g()[1][?2].?x", "_?._(_[?_](_[_](f(a, b).g(), 1), 2), 'x')"),
        ("[1, ?a, ]", "[1, ?a]"),
        ("[,]", "[]"),
        ("{'a': b ? c : d, ?'e': f,}", "{'a': _?_:_(b, c, d), ?'e': f}"),
        ("has(a.b.c)", "has a.b.c"),
        ("a.`b-c/d`", "a.b-c/d"),
        ("a.b.C{x: 1}", "a.b.C{x: 1}"),
        (".a.b", ".a.b"),
        (r"'\x41\u00e9\101' + b'\xff'", r"_+_('AéA', b'\xff')"),
        (r"r'\d' + '''a'b'''", "_+_('\\\\d', \"a'b\")"),
        ("[1].all(x, x > 0)", "all([1], x)"),
        ("cel.bind(x, 1, x)", "bind([], #unused)"),
        ("a // comment\n && b", "_&&_(a, b)"),
    ],
)
def test_a_text_becomes_the_tree_of_the_grammar(text: str, tree: str) -> None:
    assert show(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the end, allowed a value"),
        ("true;", "unexpected character ';'"),
        ("a = b", "write == to compare"),
        ("'open", "a string that is not closed"),
        (r"'\q'", "a wrong escape"),
        (r"'\ud800'", "a wrong escape"),
        ("1 +", "found the end, allowed a value"),
        ("a b", "found 'b', allowed an operator"),
        ("if", "'if' is a reserved word"),
        ("a.", "found the end, allowed a name"),
        ("f(a,)", "found '\\)', allowed an argument"),
        ("{1}", "allowed ':' and a value"),
        ("a ? b", "allowed ':' of the condition"),
        ("a ? b ? c : d : e", "put the inner condition in parentheses"),
        ("(1", "allowed an operator"),
        ("-!x", "put the inner sign in parentheses"),
        ("device{", "found the end, allowed a field name"),
        ("9223372036854775808", "out of range"),
        ("18446744073709551616u", "out of range"),
        ("cel.bind(1, 2, true)", "cel.bind\\(\\) needs a name"),
        ("x.exists(1, true)", "must be a simple name"),
        ("x.all(i, i, true)", "both variables are named 'i'"),
        ("has(a)", "has\\(\\) needs a field"),
        ("has(a[0])", "has\\(\\) needs a field"),
        ("'\ud800'", "a surrogate"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(CelCompileError, match=message):
        parse(text)


def test_an_error_names_line_column_and_what_stands_there() -> None:
    with pytest.raises(CelCompileError) as caught:
        parse("true &&\n  device.driver ==")

    assert (caught.value.line, caught.value.column) == (2, 19)
    assert "2:19" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "[" * 10_000 + "]" * 10_000,
        "!(" * 10_000 + "a" + ")" * 10_000,
        "a" + ".b" * 10_000,
        "1" + "+1" * 10_000,
        "f(" * 10_000 + ")" * 10_000,
        "a" + " ? b : c" * 10_000,
        "a" + ".x" * 3_000 + ".optMap(v, v)",
        "a == b || " * 100_000 + "c",
        "x" * 1_000_000,
        "[1]" + ".map(x, [x])" * 300,
    ],
)
def test_depth_and_length_end_in_one_clear_error(text: str) -> None:
    with pytest.raises(CelCompileError):
        parse(text)


def test_the_longest_text_is_read() -> None:
    text = "a || " * ((MAX_CODE_POINTS - 1) // 5) + "a"

    assert show(parse(text)).startswith("_||_(")


def test_macros_that_copy_their_target_do_not_grow_without_bound() -> None:
    with pytest.raises(CelCompileError, match="copies its target"):
        parse("a" + ".optMap(v, v)" * 60)


def test_parentheses_leave_no_trace() -> None:
    assert show(parse("(" * 249 + "a" + ")" * 249)) == "a"


def test_every_node_has_its_own_identity() -> None:
    nodes = list(walk(parse("a.?b.optMap(v, v + 1).orValue(2) > 1 && [1].map(x, x).exists(y, y == 1)")))

    assert len({node.id for node in nodes}) == len(nodes)


def test_the_span_of_a_part_is_its_text() -> None:
    text = "(a.b == 1) && f(x)"
    tree = parse(text)
    assert isinstance(tree, Call)

    assert [text[arg.start : arg.end] for arg in tree.args] == ["a.b == 1", "f(x)"]


def test_a_loop_of_two_variables_names_both() -> None:
    tree = parse("{'a': 1}.all(k, v, v > 0)")
    assert isinstance(tree, Comprehension)

    assert (tree.variable, tree.variable2) == ("k", "v")


def test_exists_one_in_camel_case_takes_two_variables_only() -> None:
    assert show(parse("[1].existsOne(i, x, x == 1)")) == "exists_one([1], i)"
    assert show(parse("[1].existsOne(x, x == 1)")) == "[1].existsOne(x, _==_(x, 1))"
