"""A program tells its cost, what it reads and its clauses, and is compiled once."""

from __future__ import annotations

import pytest

from claimsmith.cel import CelDevice, CelEnvironment, DeviceRead, compile_expression
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.features import Features

A = 'device.attributes["gpu.example.test"]'


def test_the_same_text_gives_the_same_program() -> None:
    assert compile_expression("device.driver == 'x'") is compile_expression("device.driver == 'x'")


def test_another_environment_gives_another_program() -> None:
    environment = CelEnvironment.for_new_expressions(Features.none())

    assert compile_expression("true") is not compile_expression("true", environment=environment)


def test_clauses_are_the_parts_joined_by_and_in_the_order_of_the_text(gpu: CelDevice) -> None:
    program = compile_expression(f'device.driver == "x" && ({A}.cores > 2 && {A}.ecc) && (true || false)')
    clauses = program.clauses()

    assert [clause.text for clause in clauses] == [
        'device.driver == "x"',
        f"{A}.cores > 2",
        f"{A}.ecc",
        "true || false",
    ]
    assert [clause.evaluate(gpu) for clause in clauses] == [False, True, True, True]


def test_an_expression_without_and_is_its_only_clause() -> None:
    program = compile_expression("true || false")

    assert program.clauses() == (program,)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", set()),
        ("device.driver == 'x'", {DeviceRead("driver")}),
        ("device.allowMultipleAllocations", {DeviceRead("allowMultipleAllocations")}),
        ("device.attributes['d'].x == 1", {DeviceRead("attributes", "d", "x")}),
        ("device.attributes['d']['x'] == 1", {DeviceRead("attributes", "d", "x")}),
        ("has(device.attributes['d'].x)", {DeviceRead("attributes", "d", "x")}),
        ("'x' in device.attributes['d']", {DeviceRead("attributes", "d", "x")}),
        ("'d' in device.attributes", {DeviceRead("attributes", "d")}),
        ("device.attributes[?'d'].?x.orValue(1) == 1", {DeviceRead("attributes", "d", "x")}),
        ("device.capacity['d'].m.isInteger()", {DeviceRead("capacity", "d", "m")}),
        (
            "cel.bind(a, device.attributes['d'], a.x == a.y)",
            {DeviceRead("attributes", "d", "x"), DeviceRead("attributes", "d", "y")},
        ),
        ("device.attributes['d'].all(k, k != '')", {DeviceRead("attributes", "d")}),
        ("device.attributes[device.driver].x == 1", {DeviceRead("attributes", None, "x"), DeviceRead("driver")}),
        (
            "cel.bind(a, device.attributes[device.driver], a.x == 1)",
            {DeviceRead("attributes", None, "x"), DeviceRead("driver")},
        ),
        (
            "device.attributes['d'].list.exists(x, x == device.driver)",
            {DeviceRead("attributes", "d", "list"), DeviceRead("driver")},
        ),
        ("[device].size() == 1", {DeviceRead("device")}),
    ],
)
def test_a_program_tells_what_it_reads(text: str, reads: set[DeviceRead]) -> None:
    assert compile_expression(text).attributes_read() == reads


def test_the_cost_of_an_evaluation_is_upstreams(gpu: CelDevice) -> None:
    program = compile_expression(f'{A}.cores > 2 && {A}.model == "A100"')

    assert program.measure(gpu).cost == 10
    assert program.estimated_cost == 10


def test_a_cost_limit_stops_an_evaluation(gpu: CelDevice) -> None:
    outcome = compile_expression(f"{A}.cores > 2").measure(gpu, cost_limit=3)

    assert outcome.error is not None
    assert outcome.cost == 4


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        (f"{A}.model", DeviceAttribute("string", "A100")),
        (f"{A}.cores + 1", DeviceAttribute("int", 5)),
        (f"{A}.ecc", DeviceAttribute("bool", True)),
        (f"{A}.cc", DeviceAttribute("version", "10.0.0")),
        (f"{A}.numa", DeviceAttribute("ints", (0, 1))),
        (f"{A}.fw", DeviceAttribute("versions", ("1.0.0", "2.0.0"))),
        ("['a', 'b']", DeviceAttribute("strings", ("a", "b"))),
        ("[true]", DeviceAttribute("bools", (True,))),
        ("[]", DeviceAttribute("strings", ())),
    ],
)
def test_a_derived_attribute_is_a_scalar_or_a_list(gpu: CelDevice, text: str, attribute: DeviceAttribute) -> None:
    program = compile_expression(text, purpose="derived-attribute")

    assert program.evaluate_attribute(gpu) == attribute


@pytest.mark.parametrize("text", ["[dyn(1), dyn('a')]", "dyn(1.5)", "[dyn(1u)]"])
def test_a_derived_attribute_of_another_type_fails_on_the_device(gpu: CelDevice, text: str) -> None:
    program = compile_expression(text, purpose="derived-attribute")

    with pytest.raises(CelRuntimeError, match="allowed int, bool, string, version or a list of one"):
        program.evaluate_attribute(gpu)


@pytest.mark.parametrize("text", ["1u", "{'a': 1}", "device.capacity['d'].m", "[[1]]"])
def test_a_derived_attribute_of_a_wrong_type_is_refused(text: str) -> None:
    with pytest.raises(CelCompileError, match="allowed string, int, bool or semver"):
        compile_expression(text, purpose="derived-attribute")


@pytest.mark.parametrize("index", ["b'a'", "null", "[]", "[1]", "int", "{}", "duration('1s')"])
def test_a_constant_index_that_no_map_can_have_is_refused(index: str) -> None:
    with pytest.raises(CelCompileError, match="an index can't be of type"):
        compile_expression(f"{{}}[{index}]")


def test_subtracting_the_smallest_integer_adds_it_as_upstream_does(gpu: CelDevice) -> None:
    program = compile_expression("quantity('1').sub(-9223372036854775808).asInteger()", purpose="part")

    assert program.evaluate_value(gpu) == -9223372036854775807


def test_a_value_of_any_type_can_be_asked_for(gpu: CelDevice) -> None:
    program = compile_expression(f"{A}.cores * 2", purpose="part")

    assert [program.evaluate_value(gpu) for _ in range(10)] == [8] * 10


def test_the_compiled_function_answers_without_the_interpreter(gpu: CelDevice) -> None:
    program = compile_expression(f'{A}.model == "A100" && {A}.cores > 3')
    for _ in range(10):
        program.evaluate(gpu)

    assert program._compiled(gpu) is True


def test_no_text_of_an_expression_becomes_code(gpu: CelDevice) -> None:
    text = "'__import__(\"os\").abort()' != \"');import os #\" && {'k\\n': 1}.all(k, k != '\\\\')"
    program = compile_expression(text)

    assert all(program.evaluate(gpu) for _ in range(10))


@pytest.mark.parametrize("constants", ["[2.0]", "[true]", "['a']", "[1, 2]"])
def test_a_version_among_constants_fails_also_once_the_program_is_compiled(gpu: CelDevice, constants: str) -> None:
    program = compile_expression(f"{A}.cc in {constants} || true")

    for _ in range(20):
        with pytest.raises(CelRuntimeError, match="can't be looked up"):
            program.evaluate(gpu)
