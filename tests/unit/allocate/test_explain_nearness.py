"""Which text is the nearest to one that no device has, or none that is free."""

from __future__ import annotations

import pytest

from claimsmith.allocate.explain.nearness import is_near, rank_text


@pytest.mark.parametrize(
    ("wanted", "values"),
    [
        ("7g.40gb", ["4g.20gb", "3g.20gb", "1g.5gb"]),
        ("2g.10gb", ["1g.5gb", "3g.20gb", "7g.40gb"]),
        ("H100", ["A100-40", "L4"]),
        ("a100", ["A100", "V100", "T4"]),
        ("nvlink", ["nvlink2", "pcie"]),
    ],
)
def test_texts_are_sorted_by_how_near_they_are(wanted: str, values: list[str]) -> None:
    shuffled = values[::-1]

    assert sorted(shuffled, key=lambda value: rank_text(wanted, value)) == values


@pytest.mark.parametrize(("wanted", "value"), [("7g.40gb", "1g.5gb"), ("A100-40", "A100-80"), ("H100", "A100")])
def test_texts_of_one_form_or_spelled_alike_are_near(wanted: str, value: str) -> None:
    assert is_near(wanted, value)


@pytest.mark.parametrize(("wanted", "value"), [("A100-40", "L4"), ("H100", "T4"), ("east", "west-2")])
def test_other_texts_are_not_near(wanted: str, value: str) -> None:
    assert not is_near(wanted, value)
