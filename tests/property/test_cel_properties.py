"""The selector language agrees with a slow twin, and nothing but its own errors comes out of it."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

from claimsmith.cel import COST_LIMIT, CelDevice, compile_expression
from claimsmith.cel.checker import check
from claimsmith.cel.codegen import compile_function
from claimsmith.cel.codegen_support import FALLBACK
from claimsmith.cel.environment import DEFAULT
from claimsmith.cel.parser import parse
from claimsmith.cel.program import ESTIMATE_MARGIN
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.semver import parse_semver
from tests.property.cel_twin import TwinError, twin

DOMAINS = ("d", "e.f", "none")
IDS = ("a", "b", "c", "missing")
scalars = st.one_of(
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(["", "a", "ab", "d", "1.0.0"]),
    st.sampled_from(["1.0.0", "2.0.0-rc.1"]).map(parse_semver),
    st.lists(st.integers(0, 2), min_size=1, max_size=3),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
)
devices = st.builds(
    lambda shared, attributes, capacity: CelDevice("d", shared, attributes, capacity),
    st.booleans(),
    st.dictionaries(
        st.sampled_from(DOMAINS[:2]), st.dictionaries(st.sampled_from(IDS[:3]), scalars, min_size=1, max_size=3)
    ),
    st.dictionaries(
        st.sampled_from(DOMAINS[:1]),
        st.dictionaries(st.sampled_from(IDS[:2]), st.sampled_from(["1", "1Gi", "1500m"]).map(parse_quantity)),
    ),
)
LEAVES = (
    "true", "false", "0", "1", "-1", "2.0", '"a"', '"d"', '""', "[1, 2]", '["a"]', "x", "y", "9223372036854775807",
    "device.driver", "device.allowMultipleAllocations", 'device.capacity["d"].a', 'quantity("1Gi")', 'semver("1.0.0")',
)  # fmt: skip
BRANCHES = (
    "({0} && {1})", "({0} || {1})", "({0} && {1})", "({0} == {1})", "({0} != {1})", "({0} < {1})", "({0} >= {1})",
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} in {1})", "!({0})", "({0} ? {1} : {2})", "[{0}, {1}]",
    "({0}).all(x, {1})", "({0}).exists(x, {1})", "({0}).exists_one(y, {1})", "({0}).map(x, {1})",
    "({0}).filter(x, {1})", "({0}).map(x, {1}, {2})", "cel.bind(x, {0}, {1})", "({0}).size()",
    "({0}).startsWith({1})", "({0}).contains({1})", "({0}).isGreaterThan({1})", "({0}).compareTo({1})", "({0})[{1}]",
    "dyn({0})", "[1, 2].all(y, cel.bind(x, y, {0}))",
)  # fmt: skip


@st.composite
def attributes(draw: st.DrawFn) -> str:
    """An attribute of the device, safely read or not."""
    domain, key = draw(st.sampled_from(DOMAINS)), draw(st.sampled_from(IDS))
    form = draw(
        st.sampled_from(
            [
                'device.attributes["{0}"].{1}',
                'has(device.attributes["{0}"].{1})',
                '"{1}" in device.attributes["{0}"]',
                'device.attributes["{0}"].?{1}.orValue(1)',
                'device.attributes["{0}"].all(x, x != "{1}")',
            ]
        )
    )
    return form.format(domain, key)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """An expression of any type, often a wrong one."""
    kind = draw(st.integers(0, 4 if depth else 1))
    if kind == 0:
        return draw(st.sampled_from(LEAVES))
    if kind == 1:
        return draw(attributes())
    branch = draw(st.sampled_from(BRANCHES))
    return branch.format(*(draw(expressions(depth - 1)) for _ in range(3)))


def compile_part(text: str) -> Any:
    """Return the program of an expression of any type; skip the example when it is wrong."""
    try:
        return compile_expression(text, purpose="part")
    except CelCompileError:
        event("refused")
        assume(False)


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are of the same types and equal."""
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return type(left) is type(right) and (left == right or left != left)


@given(text=expressions(), device=devices)
def test_the_interpreter_agrees_with_the_twin(text: str, device: CelDevice) -> None:
    assume("dyn(" not in text)
    program = compile_part(text)
    outcome = program.measure(device)
    scope = {
        "device": {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device.attributes,
            "capacity": device.capacity,
        }
    }
    try:
        expected = twin(check(parse(text), text=text, environment=DEFAULT).tree, scope)
    except TwinError:
        event("fails")
        assert outcome.error is not None
        return

    assert outcome.error is None
    assert same(outcome.value, expected)


@given(text=expressions(), device=devices)
def test_the_compiled_function_agrees_with_the_interpreter(text: str, device: CelDevice) -> None:
    program = compile_part(text)
    outcome = program.measure(device)
    compiled = compile_function(check(parse(text), text=text, environment=DEFAULT))
    found = compiled(device) if compiled is not None else FALLBACK

    assert found is FALLBACK or (outcome.error is None and same(found, outcome.value))


@given(text=expressions(), device=devices)
def test_no_evaluation_costs_many_times_the_estimate(text: str, device: CelDevice) -> None:
    program = compile_part(text)

    assert program.measure(device, cost_limit=10 * COST_LIMIT).cost <= ESTIMATE_MARGIN * (program.estimated_cost + 1)


TOKENS = (
    "device", ".", "attributes", "[", "]", '"d"', "(", ")", "{", "}", ",", ":", "?", "&&", "||", "!", "==", "<", "+",
    "-", "1", "2u", "1.5", "'a'", "x", "in", "has", "all", "exists", "cel", "bind", "map", "true", "null", "size",
    "quantity", "b'c'", "optional", "of", "none", " ", "\n", "//", "`", "\\", "r'", "0x", "format", "%s", "é",
    "\ud800", "\x00",
)  # fmt: skip
soups = st.lists(st.sampled_from(TOKENS), max_size=25).map("".join) | st.text(max_size=40) | expressions()


@given(text=soups, device=devices)
def test_any_text_ends_in_a_value_or_in_an_error_of_the_language(text: str, device: CelDevice) -> None:
    try:
        program = compile_expression(text)
        found = {program.evaluate(device) for _ in range(10)} in ({True}, {False})
    except (CelCompileError, CelRuntimeError) as error:
        found = 0 <= error.offset <= len(text)

    assert found is True
