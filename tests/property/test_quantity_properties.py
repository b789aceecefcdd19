"""Quantities agree with exact fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.errors import QuantityFormatError
from claimsmith.model.quantity import Quantity, parse_quantity

_UNITS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60), "e3": Fraction(10**3), "E-2": Fraction(1, 100), "e+1": Fraction(10),
}  # fmt: skip

numbers = st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9]{0,12})?", fullmatch=True)
texts = st.builds(lambda number, unit: number + unit, numbers, st.sampled_from(sorted(_UNITS)))
quantities = texts.map(parse_quantity)


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.nanos, 10**9)


def expected(number: str, unit: str) -> Fraction:
    value = Fraction(number) * _UNITS[unit]
    nanos = abs(value) * 10**9
    rounded = Fraction(-(-nanos.numerator // nanos.denominator), 10**9)
    if unit.endswith("i"):
        rounded = min(rounded, Fraction(2**63 - 1))
    return rounded if value >= 0 else -rounded


@given(number=numbers, unit=st.sampled_from(sorted(_UNITS)))
def test_a_parsed_value_is_the_fraction_rounded_up_to_nano(number: str, unit: str) -> None:
    assert exact(parse_quantity(number + unit)) == expected(number.rstrip("."), unit)


@given(quantity=quantities)
def test_a_printed_quantity_reads_back_as_the_same_value(quantity: Quantity) -> None:
    assert parse_quantity(str(quantity)) == quantity


@given(quantity=quantities)
def test_printing_is_stable(quantity: Quantity) -> None:
    once = str(parse_quantity(str(quantity)))

    assert str(parse_quantity(once)) == once


@given(left=quantities, right=quantities)
def test_sums_differences_and_order_are_exact(left: Quantity, right: Quantity) -> None:
    assert exact(left + right) == exact(left) + exact(right)
    assert exact(left - right) == exact(left) - exact(right)
    assert left.compare_to(right) == (exact(left) > exact(right)) - (exact(left) < exact(right))
    assert (left == right) == (exact(left) == exact(right))


@given(left=quantities, right=quantities)
def test_subtracting_what_was_added_gives_the_start(left: Quantity, right: Quantity) -> None:
    assert (left + right) - right == left


@given(quantity=quantities)
def test_whole_and_milli_values_are_the_nearest_away_from_zero(quantity: Quantity) -> None:
    value = exact(quantity)

    assert 0 <= (quantity.value() - value) * (1 if value >= 0 else -1) < 1
    assert 0 <= (Fraction(quantity.milli_value(), 1000) - value) * (1 if value >= 0 else -1) < Fraction(1, 1000)


@given(text=st.text(max_size=40) | st.text(alphabet="0123456789.eEinumkKMGTP+- ", max_size=12))
def test_any_text_is_a_quantity_or_an_input_error(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except QuantityFormatError:
        return

    assert parse_quantity(str(quantity)) == quantity
