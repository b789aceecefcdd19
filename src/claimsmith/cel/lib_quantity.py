"""quantity(), isQuantity() and the methods of quantities.

Source: pkg/cel/library/quantity.go in k8s.io/apiserver v0.37.2.
"""

from __future__ import annotations

from typing import Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from claimsmith.cel.values import ComputedQuantity
from claimsmith.errors import CelFault, QuantityFormatError
from claimsmith.model.quantity import Quantity, QuantityFormat, find_quantity, parse_quantity


def to_quantity(text: str) -> Quantity:
    """`quantity(text)`."""
    try:
        return parse_quantity(text)
    except QuantityFormatError as error:
        raise CelFault(f"quantity {text!r}: {error.reason}") from error


def is_quantity(text: str) -> bool:
    """`isQuantity(text)`."""
    return find_quantity(text) is not None


def as_integer(value: Quantity) -> int:
    """`value.asInteger()`."""
    number = value.as_int64()
    if number is None:
        raise CelFault("cannot convert value to integer")
    return number


def is_integer(value: Quantity) -> bool:
    """`value.isInteger()`: upstream converts it to an integer without loss and without effort."""
    return value.as_int64() is not None


def _of_int(number: int) -> Quantity:
    return Quantity.from_int(number, format=QuantityFormat.DECIMAL_EXPONENT)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("quantity", overload("string_to_quantity", (STRING,), QUANTITY, to_quantity)),
    function("isQuantity", overload("is_quantity_string", (STRING,), BOOL, is_quantity)),
    function("sign", overload("quantity_sign", (QUANTITY,), INT, lambda value: value.sign)),
    function(
        "isGreaterThan",
        method("quantity_is_greater_than", (QUANTITY, QUANTITY), BOOL, lambda one, two: one.nanos > two.nanos),
    ),
    function(
        "isLessThan",
        method("quantity_is_less_than", (QUANTITY, QUANTITY), BOOL, lambda one, two: one.nanos < two.nanos),
    ),
    function(
        "compareTo", method("quantity_compare_to", (QUANTITY, QUANTITY), INT, lambda one, two: one.compare_to(two))
    ),
    function(
        "asApproximateFloat",
        method("quantity_get_float", (QUANTITY,), DOUBLE, lambda value: value.as_approximate_float()),
    ),
    function("asInteger", method("quantity_get_int", (QUANTITY,), INT, as_integer)),
    function("isInteger", method("quantity_is_integer", (QUANTITY,), BOOL, is_integer)),
    function(
        "add",
        method("quantity_add", (QUANTITY, QUANTITY), QUANTITY, lambda one, two: ComputedQuantity.of(one.add(two))),
        method(
            "quantity_add_int", (QUANTITY, INT), QUANTITY, lambda one, two: ComputedQuantity.of(one.add(_of_int(two)))
        ),
    ),
    function(
        "sub",
        method("quantity_sub", (QUANTITY, QUANTITY), QUANTITY, lambda one, two: ComputedQuantity.of(one.sub(two))),
        method(
            "quantity_sub_int", (QUANTITY, INT), QUANTITY, lambda one, two: ComputedQuantity.of(one.sub(_of_int(two)))
        ),
    ),
)
"""Functions of quantities."""
