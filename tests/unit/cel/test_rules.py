"""The rules of the language that selectors depend on hold at their borders, interpreted and compiled."""

from __future__ import annotations

import pytest

from claimsmith.cel import CelDevice, CelEnvironment, compile_expression
from claimsmith.errors import CelCompileError, CelCostError, CelRuntimeError
from claimsmith.model.features import Features

ALL = CelEnvironment.for_stored_expressions(Features.all())
A = 'device.attributes["gpu.example.test"]'
MEMORY = 'device.capacity["gpu.example.test"].memory'
EVALUATIONS_UNTIL_COMPILED = 10


@pytest.mark.parametrize(
    "text",
    [
        "[3.0, 0.0 / 0.0, 1.0].sort()[0] == 3.0",
        "[3, 2].sortBy(x, 0.0 / 0.0) == [3, 2]",
        "[0.0 / 0.0].sort().size() == 1",
        "[2.0, 0.0 / 0.0, 1.0].isSorted()",
        "[1.0, 0.0 / 0.0].max() == 1.0",
        '[dyn(1), dyn("a"), dyn(0)].isSorted()',
        '[dyn("a"), dyn(1)].min() == "a"',
    ],
)
def test_what_has_no_order_stands_where_upstream_leaves_it(gpu: CelDevice, text: str) -> None:
    assert compile_expression(text, environment=ALL).evaluate(gpu)


def test_a_list_joined_with_an_attribute_holds_what_the_attribute_holds(gpu: CelDevice) -> None:
    program = compile_expression(f"([true] + {A}.numa).exists_one(x, x)", environment=ALL)

    for _ in range(EVALUATIONS_UNTIL_COMPILED):
        with pytest.raises(CelRuntimeError, match="no such overload"):
            program.evaluate(gpu)


@pytest.mark.parametrize("hidden", ["null", "{}[0].flags", f"{A}.missing"])
def test_what_hides_a_type_does_not_deceive_compiled_selectors(gpu: CelDevice, hidden: str) -> None:
    text = f"false || (!device.allowMultipleAllocations ? {hidden} : [0].first()).value()"
    program = compile_expression(text, environment=ALL, purpose="derived-attribute")

    for _ in range(EVALUATIONS_UNTIL_COMPILED):
        with pytest.raises(CelRuntimeError, match="no such overload"):
            program.evaluate_attribute(gpu)


@pytest.mark.parametrize(
    "text",
    [
        "double(9223372036854775807) <= 9223372036854775807",
        "9223372036854775807 >= double(9223372036854775807)",
        "!(18446744073709551616.0 > 18446744073709551615u)",
        "dyn(18446744073709551616.0) == dyn(18446744073709551615u)",
        "!(18446744073709551615u in [dyn(18446744073709551616.0)])",
    ],
)
def test_a_double_at_the_border_of_integers_is_compared_as_a_double(gpu: CelDevice, text: str) -> None:
    program = compile_expression(text, environment=ALL)

    assert all(program.evaluate(gpu) for _ in range(EVALUATIONS_UNTIL_COMPILED))


@pytest.mark.parametrize(
    "text", ["cel.bind(t, int, 1) == 1", "[int].all(t, t == int)", "optional.of(int).optMap(t, 1).hasValue()"]
)
def test_a_variable_that_holds_a_type_is_refused_as_upstream_refuses_it(text: str) -> None:
    with pytest.raises(CelCompileError, match="reference to undefined type: t"):
        compile_expression(text, environment=ALL)


def test_the_cost_of_a_depth_beyond_64_bits_is_what_upstream_makes_of_it(gpu: CelDevice) -> None:
    program = compile_expression("[1, 2].flatten(9223372036854775807) == []", environment=ALL)

    assert program.measure(gpu).cost == 2**63 + 11


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{}[0] + {}[0]", "bytes"),
        ("{}[0] - {}[0]", "double"),
        ("{}[0] * {}[0]", "double"),
        ("{}[0] / {}[0]", "double"),
        ("{}[0] % {}[0]", "int"),
        ("optional.of({}[0] - {}[0]).orValue(1.0)", "double"),
        ("cel.bind(x, [][0], cel.bind(y, [][0], x.indexOf(y) == 0 ? x : x))", "string"),
    ],
)
def test_unknown_operands_are_of_the_type_that_upstream_declares_first(text: str, kind: str) -> None:
    assert compile_expression(text, environment=ALL, purpose="part").output_type == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size(device.driver) + 9223372036854775807 > 0", "integer overflow"),
        ("size(device.driver) * 9223372036854775807 > 0", "integer overflow"),
        ("-size(device.driver) - 9223372036854775807 < 0", "integer overflow"),
        ("uint(size(device.driver)) + 18446744073709551615u > 0u", "unsigned integer overflow"),
        ("uint(size(device.driver)) - 17u > 0u", "unsigned integer overflow"),
        ("(-9223372036854775807 - size(device.driver) / 16) % -1 == 0", "integer overflow"),
        (f"{A}.?missing.value() == 0", r"optional\.none\(\) dereference"),
        (f"dyn({MEMORY}) == 1", "no such overload"),
        (f"{A}.numa[-1] == 1", "index out of bounds"),
        (f"{A}.numa[2] == 1", "index out of bounds"),
        ('optional.of({})[semver("1.10.0")].hasValue()', "invalid qualifier type"),
        ('{}[?semver("1.10.0")].hasValue()', "invalid qualifier type"),
        ("[null].sort() == []", "list elements must be comparable"),
        ('"%s".format([[b"\\xff"]]) == ""', "invalid UTF-8"),
        ('"%s".format([{"a": b"\\xff"}]) == ""', "invalid UTF-8"),
        ("[1].sortBy(x, dyn([x])) == [1]", "list elements must be comparable"),
    ],
)
def test_an_operation_that_has_no_result_fails(gpu: CelDevice, text: str, message: str) -> None:
    program = compile_expression(text, environment=ALL)

    for _ in range(EVALUATIONS_UNTIL_COMPILED):
        with pytest.raises(CelRuntimeError, match=message):
            program.evaluate(gpu)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"({A}.cores - 11) / 2 == -3", True),
        (f"({A}.cores - 11) % 2 == -1", True),
        (f"{A}.cores / -3 == -1", True),
        (f'semver("10.0.0-rc.1").isLessThan({A}.cc)', True),
        (f'{A}.cc.isGreaterThan(semver("10.0.0-rc.1"))', True),
        (f'semver("10.0.0-rc.2").isLessThan(semver("10.0.0-rc.10")) && {A}.ecc', True),
        (f'{A}.cc == semver("10.0.0+build")', True),
        (f'{MEMORY} == quantity("40960Mi")', True),
        (f'{MEMORY} == quantity("42949672960")', True),
        (f'{MEMORY} == quantity("40G")', False),
        (f"dyn({A}.ecc) == dyn(1)", False),
        (f"dyn({A}.ecc) == dyn(true)", True),
        (f'optional.ofNonZeroValue({A}.model == "").hasValue()', False),
        (f"optional.ofNonZeroValue({A}.cores - 4).orValue(7) == 7", True),
        (f"optional.ofNonZeroValue({A}.cores).orValue(7) == 4", True),
    ],
)
def test_a_rule_of_values_holds(gpu: CelDevice, text: str, verdict: bool) -> None:
    program = compile_expression(text, environment=ALL)

    assert [program.evaluate(gpu) for _ in range(EVALUATIONS_UNTIL_COMPILED)] == [verdict] * EVALUATIONS_UNTIL_COMPILED


@pytest.mark.parametrize(
    "text",
    [
        'device.attributes["absent.example.test"].size() == 0',
        'cel.bind(a, device.attributes, a["absent.example.test"].size() == 0)',
        '!("absent.example.test" in device.attributes)',
        'cel.bind(a, device.attributes, !("absent.example.test" in a))',
        '!has(device.attributes["absent.example.test"].model)',
    ],
)
def test_an_unknown_domain_reads_as_empty_yet_is_not_there(gpu: CelDevice, text: str) -> None:
    program = compile_expression(text, environment=ALL)

    assert all(program.evaluate(gpu) for _ in range(EVALUATIONS_UNTIL_COMPILED))


def test_an_expression_that_may_cost_too_much_is_stopped_every_time(bare: CelDevice) -> None:
    text = "true"
    for name in "abcdef":
        text = f"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all({name}, {text})"
    program = compile_expression(text)
    for _ in range(2 * EVALUATIONS_UNTIL_COMPILED):
        program._warm_up(bare)

    with pytest.raises(CelCostError):
        program.evaluate(bare)
