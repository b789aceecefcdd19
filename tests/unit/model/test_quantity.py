"""Quantities are read, compared and printed as Kubernetes does."""

from __future__ import annotations

import pytest

from claimsmith.errors import InputError, QuantityFormatError
from claimsmith.model.quantity import MAX_QUANTITY_TEXT, Quantity, QuantityFormat, find_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("0.1Ki", "102400m"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("12E", "12E"),
        ("1E3", "1E3"),
        ("+1", "+1"),
        ("1.500", "1.500"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        (".", "0"),
        ("Ki", "0"),
        ("9Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("10000k", "10M"),
    ],
)
def test_a_quantity_prints_as_kubernetes_prints_it(text: str, printed: str) -> None:
    assert str(parse_quantity(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1_000",
        "１",
        "1K",
        "1ki",
        "1KI",
        "1Kim",
        "1e",
        "1e+",
        "e-20",
        "--1",
        "1.2.3",
        "0x10",
        "1,5",
        "∞",
    ],
)
def test_a_text_that_kubernetes_refuses_is_an_input_error(text: str) -> None:
    with pytest.raises(QuantityFormatError, match="allowed a number with a suffix"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["1e513", "1e-513", "1e99999999999", "1" * (MAX_QUANTITY_TEXT + 1)])
def test_a_size_that_would_exhaust_memory_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="allowed"):
        parse_quantity(text)


def test_find_gives_none_for_a_text_that_is_no_quantity() -> None:
    assert find_quantity("ten") is None


def test_equal_amounts_in_different_units_are_equal_and_hash_alike() -> None:
    assert len({parse_quantity("1Gi"), parse_quantity("1024Mi"), parse_quantity("1073741824")}) == 1


def test_decimal_and_binary_units_differ() -> None:
    assert parse_quantity("40Gi") > parse_quantity("40G")


def test_a_quantity_is_not_equal_to_a_number() -> None:
    assert parse_quantity("1") != 1


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [("1.2", 2, 1200), ("-1.2", -2, -1200), ("1n", 1, 1), ("-1n", -1, -1), ("2Ki", 2048, 2048000)],
)
def test_values_round_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = parse_quantity(text)

    assert (quantity.value(), quantity.milli_value()) == (value, milli)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5), ("5k", 5000), ("2Gi", 2**31), ("1.0", None), ("1000m", None), ("1Ei", None), ("10E", None)],
)
def test_int64_conversion_is_as_narrow_as_upstream(text: str, expected: int | None) -> None:
    assert parse_quantity(text).as_int64() == expected


def test_one_point_zero_is_a_whole_number_of_units() -> None:
    assert parse_quantity("1.0").is_integer
    assert not parse_quantity("1.5").is_integer


def test_a_sum_beyond_64_bits_is_exact_but_no_int64() -> None:
    total = parse_quantity("9223372036854775807") + parse_quantity("1")

    assert str(total) == "9223372036854775808"
    assert total.as_int64() is None


def test_zero_takes_the_format_of_the_other_operand() -> None:
    total = parse_quantity("0") + parse_quantity("2048Ki")

    assert total.format is QuantityFormat.BINARY_SI
    assert str(total) == "2Mi"


def test_a_decimal_beyond_exa_prints_its_full_value() -> None:
    assert str(parse_quantity("1000E")) == "1e21"


def test_negation_and_sign_agree() -> None:
    assert [(-parse_quantity(text)).sign for text in ("1", "0", "-1")] == [-1, 0, 1]


def test_the_float_is_what_upstream_computes() -> None:
    assert parse_quantity("1.5Gi").as_approximate_float() == pytest.approx(1.5 * 2**30)
    assert parse_quantity("1500m").as_approximate_float() == 1.5


def test_a_whole_number_prints_in_the_asked_format() -> None:
    assert str(Quantity.from_int(4096, format=QuantityFormat.BINARY_SI)) == "4Ki"
