"""Constraints: one value for all, or no value twice, with every step taken back exactly."""

from __future__ import annotations

import pytest

from claimsmith.allocate.prepared.constraints import AttributeValue, Distinct, Match, read_value
from claimsmith.model.device import DeviceAttribute


def value(raw: int | str | bool | tuple[int, ...], *, lists: bool = True) -> AttributeValue:
    found = read_value(DeviceAttribute.of(raw), lists=lists)
    assert found is not None
    return found


def test_a_missing_attribute_has_no_value() -> None:
    assert read_value(None, lists=True) is None


def test_a_scalar_counts_as_a_list_of_one() -> None:
    match = Match()

    assert match.push(value((1, 2)))
    assert match.push(value(1))
    assert not match.push(value(2))


def test_pairwise_overlap_is_not_enough() -> None:
    match = Match()

    assert [match.push(value(item)) for item in ((1, 2), (2, 3), (1, 3))] == [True, True, False]


def test_taking_back_restores_the_values_in_common() -> None:
    match = Match()
    match.push(value((1, 2)))
    match.push(value((1,)))
    match.pop()

    assert match.push(value((2,)))


@pytest.mark.parametrize(("first", "second"), [(1, "1"), (1, True), ("a", "b")])
def test_values_of_other_types_or_contents_never_match(first: int | str, second: int | str) -> None:
    match = Match()
    match.push(value(first))

    assert not match.push(value(second))


def test_versions_compare_as_text() -> None:
    match = Match()
    match.push(read_value(DeviceAttribute.version("1.0.0+a"), lists=True) or value(0))

    assert not match.push(read_value(DeviceAttribute.version("1.0.0+b"), lists=True) or value(0))


def test_without_lists_the_first_device_may_have_one_and_no_second() -> None:
    for constraint in (Match(), Distinct()):
        assert constraint.push(value((1,), lists=False))
        assert not constraint.push(value((1,), lists=False))


def test_an_empty_list_satisfies_nothing() -> None:
    assert read_value(DeviceAttribute("ints", ()), lists=True) is None


def test_distinct_values_share_no_element() -> None:
    distinct = Distinct()

    assert [distinct.push(value(item)) for item in ((1, 2), (2, 3), (3, 4))] == [True, False, True]


def test_values_of_other_types_are_distinct() -> None:
    distinct = Distinct()

    assert distinct.push(value(1))
    assert distinct.push(value("1"))
    assert distinct.push(value(True))


@pytest.mark.parametrize("kind", [Match, Distinct])
@pytest.mark.parametrize("raw", [(1,), (3,), "1", 2])
def test_what_would_be_accepted_is_accepted(kind: type[Match | Distinct], raw: int | str | tuple[int, ...]) -> None:
    constraint = kind()
    constraint.push(value((1, 2)))
    expected = constraint.accepts(value(raw))

    assert constraint.push(value(raw)) is expected
