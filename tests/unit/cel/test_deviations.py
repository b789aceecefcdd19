"""Selectors differ from cel-go where docs/deviations.md says so."""

from __future__ import annotations

import pytest

from claimsmith.cel import CelDevice, compile_expression
from claimsmith.errors import CelCompileError, CelRuntimeError

DEVICE = CelDevice("d", False, {}, {})


def test_a_time_zone_by_name_is_not_known() -> None:
    text = 'timestamp("2030-01-01T00:00:00Z").getHours("{}") >= 0'

    assert compile_expression(text.format("+01:00")).evaluate(DEVICE)
    with pytest.raises(CelRuntimeError, match="unknown time zone Europe/Berlin"):
        compile_expression(text.format("Europe/Berlin")).evaluate(DEVICE)


@pytest.mark.parametrize("key", ['b"x"', 'quantity("1Gi")', "[1]", 'semver("1.0.0")'])
def test_a_key_of_a_map_is_a_bool_a_number_or_a_string(key: str) -> None:
    with pytest.raises(CelRuntimeError, match="key"):
        compile_expression(f"{{{key}: 1}}.size() > 0").evaluate(DEVICE)


def test_a_named_format_tells_in_its_own_words_what_is_wrong() -> None:
    found = compile_expression('format.dns1123Label().validate("").value()', purpose="part").evaluate_value(DEVICE)

    assert found == ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"]


def test_a_message_is_refused() -> None:
    with pytest.raises(CelCompileError, match="selectors have no messages"):
        compile_expression("google.protobuf.Int64Value{value: 1} == 1")


@pytest.mark.parametrize("around", ["true || {}", "{} && false", "[1].exists(x, {}) || true"])
def test_what_stops_upstream_fails_and_is_absorbed_by_nothing(around: str) -> None:
    stopping = 'device.attributes["d"].?v.orValue(semver("1.0.0")) in ["1.0.0", "2.0.0"]'
    program = compile_expression(around.format(f"({stopping})"))

    if around.startswith("true ||"):
        assert program.evaluate(DEVICE)
        return
    with pytest.raises(CelRuntimeError, match="can't be looked up in a list of constants"):
        program.evaluate(DEVICE)
