"""Verdicts by columns are those of the scalar engine, and follow the devices as they come and change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from claimsmith.cel import CelDevice, compile_expression
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.cel.reads import DeviceRead
from claimsmith.errors import CelRuntimeError
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.semver import parse_semver

Verdict = bool | None
MANY = 2_000
A, C = 'device.attributes["d"]', 'device.capacity["d"]'


def make_device(number: int, *, driver: str = "d") -> CelDevice:
    """A device of a fleet: most attributes are its own, and each seventh lacks one or has it of another type."""
    attributes = {
        "uuid": f"GPU-{number:05d}",
        "serial": number * 10**15,
        "version": parse_semver(f"{number % 400}.0.0"),
        "model": "H100" if number % 3 else "L40S",
        "healthy": number % 5 != 0,
    }
    if number % 7 == 0:
        del attributes["serial"]
    if number % 7 == 1:
        attributes["serial"] = attributes["version"] = str(number)
    if number % 11 == 0:
        attributes["healthy"] = "yes"
    capacity = {"memory": parse_quantity(f"{number}Mi"), "shares": parse_quantity(str(number % 4))}
    return CelDevice(driver, bool(number % 2), {driver: attributes}, {driver: capacity})


FLEET = [make_device(number, driver="d" if number % 10 else "e") for number in range(MANY)]


def scalar(text: str, devices: Sequence[CelDevice]) -> list[Verdict]:
    """Return the scalar engine's verdicts, None for an error."""
    program = compile_expression(text)
    verdicts: list[Verdict] = []
    for device in devices:
        try:
            verdicts.append(program.evaluate(device))
        except CelRuntimeError:
            verdicts.append(None)
    return verdicts


def columnar(text: str, columns: DeviceColumns) -> list[Verdict]:
    """Return the verdicts by columns, None for an error."""
    found = evaluate_columns(compile_expression(text), columns)
    flags = list(zip(found.true.tolist(), found.false.tolist(), found.error.tolist(), strict=True))
    assert all(sum(three) == 1 for three in flags)
    return [None if failed else matched for matched, _, failed in flags]


@pytest.mark.parametrize(
    "text",
    [
        "true",
        'device.driver == "d"',
        f'{A}.model == "H100"',
        f"{A}.serial >= 500000000000000000",
        f"500000000000000000 > {A}.serial",
        f"{A}.serial != 500000000000000000",
        f"{A}.serial == 9223372036854775807",
        f"{A}.serial + 9223372036000000000 > 0",
        f"{A}.serial < {A}.serial",
        f'{A}.uuid == "GPU-00123"',
        f'{A}.uuid > "GPU-00123" && {A}.uuid <= "GPU-01000"',
        f'{A}["uuid"].startsWith("GPU-01")',
        f'{A}.uuid.matches("^GPU-0[0-9]*7$")',
        f'{A}.uuid in ["GPU-00123", "GPU-00124"]',
        f'{A}.version.isGreaterThan(semver("200.0.0-rc.1"))',
        f'{A}.version.compareTo(semver("200.0.0+build")) == 0',
        f'{A}.version in ["a"]',
        f'{A}.uuid == "GPU-00123" || {A}.version in ["a"]',
        f'{A}.version in ["a"] || {A}.uuid != "GPU-00123"',
        f'{C}.memory.compareTo(quantity("1Gi")) >= 0',
        f'0 <= {C}.memory.compareTo(quantity("1Gi"))',
        f'{C}.memory.isLessThan(quantity("1Gi"))',
        f'{C}.memory == quantity("1Gi")',
        f"{C}.memory.isInteger()",
        f"{A}.healthy && {C}.memory.isGreaterThan({C}.shares)",
        f"{A}.healthy || {A}.serial > 0",
        f"!({A}.healthy || {A}.serial > 0)",
        f'({A}.healthy ? {A}.serial : {C}.memory.asInteger()) > 1000 && {A}.uuid != "x"',
        f"{A}.healthy ? {A}.serial > 9000000000000000 : {A}.uuid > 'GPU-01'",
        f"{A}.?serial.orValue(7) == 7 || {A}.uuid.endsWith('1')",
        f'has({A}.serial) && {A}.serial > 1000 && device.driver == "d" && {A}.model == "L40S"',
        f'"serial" in {A} && {A}.uuid != ""',
        f'{A}.all(key, key != "serial") || {A}.uuid == "GPU-00002"',
        f"device.attributes[device.driver].healthy && {A}.uuid != ''",
        'cel.bind(a, device.attributes[device.driver], a.uuid != "GPU-00010")',
        f'{A}.serial == "8" || {A}.serial == 9000000000000000.0',
        f"{A}.healthy",
        f"{A}.uuid",
        'device.attributes["none"].x == 1',
    ],
)
def test_the_verdicts_are_those_of_the_scalar_engine(text: str) -> None:
    assert columnar(text, DeviceColumns(FLEET)) == scalar(text, FLEET)


def test_a_program_near_the_cost_limit_is_not_divided() -> None:
    loops = f"[1, 2, 3].all(a, {A}.uuid.matches('^(GPU-[0-9]*)*$'))"
    text = " && ".join([loops] * 60)

    assert columnar(text, DeviceColumns(FLEET[:20])) == scalar(text, FLEET[:20])


def test_no_devices_have_no_verdicts() -> None:
    assert len(evaluate_columns(compile_expression("true"), DeviceColumns())) == 0


def test_a_device_that_is_appended_gets_a_verdict() -> None:
    text, columns = f'{A}.uuid == "GPU-00500"', DeviceColumns(FLEET[:300])
    columnar(text, columns)
    row = columns.append(FLEET[501])
    columns.extend(FLEET[301:700])

    assert row == 300
    assert columnar(text, columns) == scalar(text, [*FLEET[:300], FLEET[501], *FLEET[301:700]])


def test_a_replaced_device_gets_a_new_verdict() -> None:
    text, columns = f'{A}.uuid == "GPU-00500"', DeviceColumns(FLEET[:300])
    columnar(text, columns)
    columns.replace(3, FLEET[501])
    columns.replace(4, make_device(500))

    assert columnar(text, columns) == [row == 4 or None if row % 10 == 0 else row == 4 for row in range(300)]


def test_a_row_that_is_not_there_is_not_replaced() -> None:
    with pytest.raises(IndexError, match="row 2: found 2 rows"):
        DeviceColumns(FLEET[:2]).replace(2, FLEET[2])


def test_verdicts_keep_the_device_that_they_judged() -> None:
    columns = DeviceColumns(FLEET[:10])
    verdicts = evaluate_columns(compile_expression(f"{A}.serial > 0"), columns)
    columns.replace(7, make_device(2))

    assert "no such key: serial" in str(verdicts.get_error(7))


def test_the_error_is_that_of_the_scalar_engine() -> None:
    program = compile_expression(f"{A}.serial > 0")
    with pytest.raises(CelRuntimeError) as expected:
        program.evaluate(FLEET[7])
    found = evaluate_columns(program, DeviceColumns(FLEET)).get_error(7)

    assert (str(found), found.offset) == (str(expected.value), expected.value.offset)


def test_a_row_with_a_verdict_has_no_error_to_give() -> None:
    verdicts = evaluate_columns(compile_expression("true"), DeviceColumns(FLEET[:2]))

    with pytest.raises(ValueError, match="row 1: found the verdict True"):
        verdicts.get_error(1)


def test_verdicts_can_not_be_changed() -> None:
    verdicts = evaluate_columns(compile_expression("true"), DeviceColumns(FLEET[:2]))

    with pytest.raises(ValueError, match="read-only"):
        verdicts.true[0] = False


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (parse_quantity("1Gi"), parse_quantity("1024Mi"), "string(1) == '1' && '%s'.format([{}]) == '1Gi'"),
        (parse_quantity("1"), parse_quantity("1000m"), "{}.isInteger()"),
    ],
)
def test_equal_quantities_that_differ_to_an_expression_are_told_apart(one: object, other: object, text: str) -> None:
    devices = [CelDevice("d", False, {"d": {"x": value}}, {}) for value in (one, other)]
    text = text.format(f"{A}.x")

    assert columnar(text, DeviceColumns(devices)) == scalar(text, devices)


def test_true_and_one_are_told_apart() -> None:
    devices = [CelDevice("d", False, {"d": {"x": value}}, {}) for value in (True, 1, [True], [1], "1")]

    assert columnar(f"{A}.x == 1", DeviceColumns(devices)) == [False, True, False, False, False]
    assert columnar(f"{A}.x == [1]", DeviceColumns(devices)) == [False, False, False, True, False]


def test_a_column_forgets_values_when_far_more_came_than_there_are_devices() -> None:
    columns = DeviceColumns(FLEET[:1])
    read = DeviceRead("attributes", "e", "uuid")
    for number in range(0, 30_000, 10):
        columns.replace(0, make_device(number, driver="e"))
        assert len(columns.column(read).values) < 2_000

    assert columns.column(read).values[columns.column(read).codes[0]] == "GPU-29990"


class CountedDevice(CelDevice):
    """A device that notes when the interpreter reads it."""

    __slots__ = ()
    runs: ClassVar[list[str]] = []

    def as_value(self) -> dict[str, Any]:
        self.runs.append(self.driver)
        return super().as_value()


@pytest.fixture
def counted_fleet() -> list[CelDevice]:
    CountedDevice.runs.clear()
    fleet = [make_device(number) for number in range(MANY)]
    return [CountedDevice(one.driver, False, one.attributes, one.capacity) for one in fleet]


def test_equal_devices_run_once(counted_fleet: list[CelDevice]) -> None:
    verdicts = evaluate_columns(compile_expression(f"{A}.model > 1 && {A}.model < 1"), DeviceColumns(counted_fleet))

    assert verdicts.error.all()
    assert len(CountedDevice.runs) == len(("H100", "L40S"))


def test_a_comparison_with_a_constant_runs_no_engine(counted_fleet: list[CelDevice]) -> None:
    program = compile_expression(f'{A}.uuid == "GPU-00500" || {C}.memory.isGreaterThan(quantity("1999Mi"))')
    verdicts = evaluate_columns(program, DeviceColumns(counted_fleet))

    assert verdicts.true.nonzero()[0].tolist() == [500]
    assert CountedDevice.runs == []


def test_without_numpy_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['numpy'] = None; import claimsmith.cel; import claimsmith.cel.columns"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200)

    assert "MissingExtraError: package 'numpy' is not installed; install claimsmith[columns]" in finished.stderr
