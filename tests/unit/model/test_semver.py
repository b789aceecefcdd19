"""Versions are read strictly, or normalised on request, and ordered by precedence."""

from __future__ import annotations

import pytest

from claimsmith.errors import SemverFormatError
from claimsmith.model.semver import find_semver, parse_semver


def test_versions_follow_the_order_of_the_specification() -> None:
    texts = [
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
        "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
    ]  # fmt: skip

    shuffled = texts[::-1]

    assert sorted(shuffled, key=parse_semver) == texts


def test_build_data_counts_for_nothing_but_is_printed() -> None:
    first, second = parse_semver("1.0.0+b1"), parse_semver("1.0.0+b2")

    assert first == second
    assert hash(first) == hash(second)
    assert str(first) == "1.0.0+b1"


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.02.3", "1.2.03", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+",
     "1.2.3+a_b", " 1.2.3", "1.2.3 ", "１.2.3", "-1.2.3", "18446744073709551616.0.0"],
)  # fmt: skip
def test_a_loosely_written_version_is_an_input_error(text: str) -> None:
    with pytest.raises(SemverFormatError, match=r"semantic version 2\.0\.0"):
        parse_semver(text)


@pytest.mark.parametrize(
    ("text", "strict"),
    [("v1.2.3", "1.2.3"), ("1", "1.0.0"), ("1.0", "1.0.0"), ("01.01.01", "1.1.1"), ("v0.00.000", "0.0.0"),
     ("v1.2.3-rc.1+b", "1.2.3-rc.1+b")],
)  # fmt: skip
def test_normalisation_brings_a_version_into_the_strict_form(text: str, strict: str) -> None:
    assert str(parse_semver(text, normalize=True)) == strict


@pytest.mark.parametrize("text", ["1.0-rc.1", "1+b", "vv1.0.0", " 1.0.0", "", "x"])
def test_normalisation_has_limits(text: str) -> None:
    assert find_semver(text, normalize=True) is None


def test_comparison_gives_minus_one_zero_or_one() -> None:
    one, two = parse_semver("1.0.0"), parse_semver("2.0.0")

    assert (one.compare_to(two), one.compare_to(one), two.compare_to(one)) == (-1, 0, 1)
