"""What users write in selectors, and what they get wrong, has the outcome that upstream gives it."""

from __future__ import annotations

import pytest

from claimsmith.cel import CelDevice, CelEnvironment, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelCostError, CelDeviceError, CelRuntimeError
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.features import Features

ALL = CelEnvironment.for_stored_expressions(Features.all())
NEW = CelEnvironment.for_new_expressions(Features())
A = 'device.attributes["gpu.example.test"]'
MEMORY = 'device.capacity["gpu.example.test"].memory'
HUNDRED = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('device.driver == "gpu.example.test"', True),
        (f"{A}.cores >= 4 && {A}.cores < 5", True),
        (f"{A}.cores > 3.5", True),
        (f"{A}.cores == 4.0", True),
        (f'{A}.model in ["A100", "H100"]', True),
        (f'{A}.cores in ["A100"]', False),
        (f"{A}.ecc", True),
        (f"!{A}.ecc", False),
        (f"{A}.ecc == true", True),
        (f"{A}.ecc == 1", False),
        (f'{A}.model != "A100"', False),
        (f'has({A}.missing) && {A}.missing == "x"', False),
        (f"{A}.?missing.orValue(0) >= 1", False),
        (f"{A}.?cores.orValue(0) >= 1", True),
        (f'{A}[?"missing"].hasValue()', False),
        (f'"model" in {A}', True),
        ('"absent.example.test" in device.attributes', False),
        ('has(device.attributes["absent.example.test"].model)', False),
        ('device.attributes["other.example.test"].model == "board-7"', True),
        (f'{A}.cc.isGreaterThan(semver("9.0.0"))', True),
        (f'{A}.cc.compareTo(semver("v10", true)) == 0', True),
        (f"{A}.cc.major() == 10", True),
        (f'{MEMORY}.compareTo(quantity("40960Mi")) == 0', True),
        (f'0 < {MEMORY}.compareTo(quantity("40G"))', True),
        (f'{MEMORY}.isGreaterThan(quantity("10Gi"))', True),
        (f'{MEMORY} == quantity("40Gi")', True),
        (f'{MEMORY}.sub(quantity("40Gi")).asInteger() == 0', True),
        ("device.allowMultipleAllocations", True),
        (f"1 in {A}.numa", True),
        (f"{A}.numa.includes(1) && {A}.cores.includes(4)", True),
        (f"{A}.numa == 1", False),
        (f'{A}.fw.exists(v, v.isLessThan(semver("1.5.0")))', True),
        (f'{A}.model.matches("^A1") && {A}.model.startsWith("A") && {A}.model.endsWith("0")', True),
        (f'{A}.model.lowerAscii().contains("a1")', True),
        (f'cel.bind(a, {A}, has(a.model) && a.model == "A100")', True),
        (f'{A}.all(k, k != "") && device.attributes.exists(d, d == device.driver)', True),
        (f"{A}.?cores.optMap(n, n + 1).orValue(0) == 5", True),
        (f"{A}.cores > 100 ? {A}.missing : {A}.ecc", True),
        (f"type({A}.cores) == int", True),
    ],
)
def test_a_selector_judges_a_device(gpu: CelDevice, text: str, verdict: bool) -> None:
    program = compile_expression(text, environment=ALL)

    assert [program.evaluate(gpu) for _ in range(10)] == [verdict] * 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A}.cores >= 2", r"no such key: cores; guard it with has\(….cores\)"),
        ('device.attributes["absent.example.test"].model == "x"', "no such key: model"),
        (f"{A}.missing || false", "no such key"),
        ("[1, 2][5] == 1", "index out of bounds: 5"),
        ("9223372036854775807 + device.driver.size() > 0", "integer overflow"),
        ("1 / (device.driver.size() - 16) == 0", "division by zero"),
        ("dyn(device.driver) > 3", r"no such overload: '>' on string and int"),
        ("quantity(device.driver).isInteger()", "quantity 'gpu.example.test'"),
        ("dyn(1)", "the result is of type int, allowed bool"),
    ],
)
def test_a_failed_evaluation_says_why_and_what_to_do(bare: CelDevice, text: str, message: str) -> None:
    program = compile_expression(text, environment=ALL)

    for _ in range(10):
        with pytest.raises(CelRuntimeError, match=message):
            program.evaluate(bare)


def test_a_version_compared_as_a_number_is_explained(gpu: CelDevice) -> None:
    program = compile_expression(f'{A}.cc >= "9.0.0"')

    with pytest.raises(CelRuntimeError, match=r'compare versions with a\.compareTo\(semver\("1\.2\.3"\)\)'):
        program.evaluate(gpu)


@pytest.mark.parametrize(
    "text",
    [
        f"{A}.missing == 1 || true",
        f"true || {A}.missing == 1",
        f"!({A}.missing == 1 && false)",
        f"!(false && {A}.missing == 1)",
        "[1, 0].exists(x, 1 / x == 1) && [0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 0)",
        f"cel.bind(x, {A}.missing, true)",
    ],
)
def test_a_side_that_decides_hides_the_failure_of_the_other(bare: CelDevice, text: str) -> None:
    program = compile_expression(text)

    assert all(program.evaluate(bare) for _ in range(10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('device.attributes["model"] == "A100"', r"name the domain too: device\.attributes"),
        (f'{MEMORY} >= quantity("10Gi")', r"compare quantities with a\.compareTo"),
        (f"{MEMORY} > 10", "compare quantities"),
        ('semver("1.0.0") < semver("2.0.0")', "compare versions"),
        ("devise.driver == 'x'", "unknown name 'devise'; did you mean 'device'"),
        ("device.drivers == 'x'", "device has no field 'drivers', allowed allow.*; did you mean 'driver'"),
        ("device.driver.startWith('x')", "unknown method 'startWith'; did you mean 'startsWith'"),
        ("device.driver.foo", "type 'string' has no fields"),
        ("device.driver", "the result is of type 'string', allowed bool"),
        ("1 + 1u == 2", r"found '\+' on int and uint"),
        ("[1, 'a'] == [1]", "among elements of type 'int'"),
        ("duration('x') == duration('1s')", "allowed a duration"),
        ("timestamp('x') == timestamp('y')", "allowed an RFC 3339 time"),
        ("device.driver.matches('(')", "allowed a regular expression"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("'%d'.format(['x']) == ''", "found type 'string' for %d"),
        ("'%s'.format([]) == ''", "index 0 out of range"),
        ("'%z'.format([1]) == ''", "unrecognized formatting clause"),
        ("x.y.Z{a: 1} == 1", "unknown message type 'x.y.Z'"),
        ("device.driver && true", "found type 'string' beside &&"),
        ("5.all(x, true)", "cannot|allowed a list or map"),
    ],
)
def test_what_is_wrong_for_every_device_is_refused_with_a_way_out(text: str, message: str) -> None:
    with pytest.raises(CelCompileError, match=message):
        compile_expression(text)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        (f"{A}.numa.includes(1)", "DRAListTypeAttributes"),
        (f"{A}.numa.exists(n, n == 1)", "DRAListTypeAttributes"),
    ],
)
def test_a_new_expression_may_use_lists_only_with_their_gate(text: str, needs: str) -> None:
    with pytest.raises(CelCompileError, match=needs):
        compile_expression(text, environment=NEW)

    assert compile_expression(text, environment=CelEnvironment.for_new_expressions(Features.all()))


def test_a_new_expression_may_ask_for_shared_devices_only_with_the_gate() -> None:
    environment = CelEnvironment.for_new_expressions(Features.none())

    with pytest.raises(CelCompileError, match="DRAConsumableCapacity"):
        compile_expression("device.allowMultipleAllocations", environment=environment)


def test_too_expensive_loops_are_stopped(bare: CelDevice) -> None:
    text = "true"
    for name in "abcdef":
        text = f"{HUNDRED}.all({name}, {text})"
    program = compile_expression(text)

    assert program.estimated_cost > 1_000_000
    with pytest.raises(CelCostError, match="costs more than 1000000 on this device"):
        program.evaluate(bare)


def test_a_device_with_an_unreadable_version_fails_every_expression() -> None:
    device = Device(name="odd", attributes={"cc": DeviceAttribute.version("1.0")})

    with pytest.raises(CelDeviceError, match=r"device 'odd', attribute 'cc': version '1\.0'"):
        prepare_device("gpu.example.test", device)


def test_a_device_with_a_value_of_an_unknown_kind_fails_every_expression() -> None:
    device = Device(name="odd", attributes={"cc": DeviceAttribute("unknown", None)})

    with pytest.raises(CelDeviceError, match="no value that this version knows"):
        prepare_device("gpu.example.test", device)


def test_a_name_without_a_domain_belongs_to_the_driver() -> None:
    device = Device(name="d", attributes={"a": DeviceAttribute.of(1), "gpu.example.test/b": DeviceAttribute.of(2)})
    prepared = prepare_device("gpu.example.test", device)

    assert prepared.attributes == {"gpu.example.test": {"a": 1, "b": 2}}
