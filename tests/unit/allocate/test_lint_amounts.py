"""The amount that a text or number stands for."""

from __future__ import annotations

import pytest

from claimsmith.allocate.lint.amounts import guess_quantity
from claimsmith.model.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "published", "meant"),
    [
        ("40", ("40Gi", "80Gi"), "40Gi"),
        ("40000", ("40Gi",), "40000Mi"),
        ("10", ("10G",), "10G"),
        ("8", ("16",), "8"),
        ("8", ("16", "40Gi"), "8"),
        ("0", ("40Gi",), "0"),
        ("40", (), "40"),
        ("40G", ("40Gi",), "40G"),
        ("40GB", ("40Gi",), "40Gi"),
        ("40GB", ("40G",), "40G"),
        ("1.5 TB", ("1Ti",), "1.5Ti"),
        ("40gib", ("40G",), "40Gi"),
        ("40 gigabytes", (), "40G"),
        ("40B", ("40Gi",), "40"),
        ("much", ("40Gi",), ""),
        ("40 cards", ("40Gi",), ""),
        ("1e3", ("40Gi",), "1e3"),
    ],
)
def test_an_amount_is_read_as_what_is_published(text: str, published: tuple[str, ...], meant: str) -> None:
    assert guess_quantity(text, [parse_quantity(amount) for amount in published]) == meant
