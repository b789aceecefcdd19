"""Versions keep the laws of a total order and of a round trip."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.errors import SemverFormatError
from claimsmith.model.semver import Semver, parse_semver

_numbers = st.integers(0, 3) | st.integers(0, 2**64 - 1)
_identifiers = st.from_regex(r"[0-9A-Za-z-]*[A-Za-z-][0-9A-Za-z-]*", fullmatch=True)
versions = st.builds(
    lambda major, minor, patch, prerelease, build: Semver(
        major=major, minor=minor, patch=patch, prerelease=tuple(prerelease), build=tuple(build)
    ),
    _numbers,
    _numbers,
    _numbers,
    st.lists(st.integers(0, 3) | _identifiers, max_size=3),
    st.lists(_identifiers, max_size=2),
)


def slow_compare(left: Semver, right: Semver) -> int:
    """The rules of semver.org 11, one after the other."""
    for one, two in zip((left.major, left.minor, left.patch), (right.major, right.minor, right.patch), strict=True):
        if one != two:
            return 1 if one > two else -1
    if not left.prerelease or not right.prerelease:
        return bool(right.prerelease) - bool(left.prerelease)
    for a, b in zip(left.prerelease, right.prerelease, strict=False):
        if a == b:
            continue
        if isinstance(a, int) and isinstance(b, int):
            return 1 if a > b else -1
        if isinstance(a, int) or isinstance(b, int):
            return -1 if isinstance(a, int) else 1
        return 1 if a.encode() > b.encode() else -1
    return (len(left.prerelease) > len(right.prerelease)) - (len(left.prerelease) < len(right.prerelease))


@given(version=versions)
def test_a_printed_version_reads_back_as_itself(version: Semver) -> None:
    again = parse_semver(str(version))

    assert (again, str(again)) == (version, str(version))


@given(left=versions, right=versions)
def test_the_order_is_the_order_of_the_specification(left: Semver, right: Semver) -> None:
    expected = slow_compare(left, right)

    assert left.compare_to(right) == expected == -right.compare_to(left)
    assert (left == right, left < right, left >= right) == (expected == 0, expected < 0, expected >= 0)


@given(version=versions)
def test_normalising_a_strict_version_keeps_its_precedence(version: Semver) -> None:
    assert parse_semver(str(version), normalize=True) == version


@given(text=st.text(max_size=30) | st.text(alphabet="0123456789.v-+ab", max_size=14), normalize=st.booleans())
def test_any_text_is_a_version_or_an_input_error(text: str, normalize: bool) -> None:
    try:
        version = parse_semver(text, normalize=normalize)
    except SemverFormatError:
        return

    assert parse_semver(str(version)) == version
