"""Semantic versions: strict 2.0.0, with the optional normalisation of the selector language, ordered by precedence.

Source: github.com/blang/semver v4.0.0 (semver.go); pkg/cel/library/semverlib.go in k8s.io/apiserver v0.37.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from claimsmith.errors import SemverFormatError

MAX_UINT64: Final = 2**64 - 1
"""The largest number that a part of a version can hold."""

_NUMBER: Final = re.compile(r"[0-9]+")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+")

_PrecedenceKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Semver:
    """A semantic version; equal, hashed and ordered by precedence, so build data counts for nothing.

    Args:
        major: 0 to 2^64 - 1.
        minor: 0 to 2^64 - 1.
        patch: 0 to 2^64 - 1.
        prerelease: Dot-separated identifiers after `-`; numeric ones as int.
        build: Dot-separated identifiers after `+`.

    Source: Version in github.com/blang/semver v4.0.0.
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()
    precedence: _PrecedenceKey = field(init=False)

    def __post_init__(self) -> None:
        identifiers = tuple((False, part, "") if isinstance(part, int) else (True, 0, part) for part in self.prerelease)
        key = (self.major, self.minor, self.patch, not self.prerelease, identifiers)
        object.__setattr__(self, "precedence", key)

    def __eq__(self, other: object) -> bool:
        return self.precedence == other.precedence if isinstance(other, Semver) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __lt__(self, other: Semver) -> bool:
        return self.precedence < other.precedence

    def __le__(self, other: Semver) -> bool:
        return self.precedence <= other.precedence

    def __gt__(self, other: Semver) -> bool:
        return self.precedence > other.precedence

    def __ge__(self, other: Semver) -> bool:
        return self.precedence >= other.precedence

    def __str__(self) -> str:
        prerelease = "-" + ".".join(map(str, self.prerelease)) if self.prerelease else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"

    def compare_to(self, other: Semver) -> int:
        """Return -1, 0 or 1: how this version relates to the other in precedence."""
        return (self.precedence > other.precedence) - (self.precedence < other.precedence)


@lru_cache(maxsize=4096)
def parse_semver(text: str, *, normalize: bool = False) -> Semver:
    """Return the version that a text stands for.

    Args:
        text: `major.minor.patch`, then optionally `-prerelease` and `+build`.
        normalize: Strip one leading `v`, strip leading zeros, fill in a missing minor and patch with 0.

    Raises:
        SemverFormatError: The text is not a version.

    Source: Parse in blang/semver v4.0.0; normalizeAndParse in semverlib.go.
    """
    parts = (_normalize(text) if normalize else text).split(".", 2)
    if len(parts) != 3:
        raise SemverFormatError(text, reason="it has no major.minor.patch")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    return Semver(
        major=_parse_number(text, "major", parts[0]),
        minor=_parse_number(text, "minor", parts[1]),
        patch=_parse_number(text, "patch", patch),
        prerelease=tuple(_parse_prerelease(text, part) for part in prerelease.split(".")) if dash else (),
        build=tuple(_parse_identifier(text, "build", part) for part in build.split(".")) if plus else (),
    )


def find_semver(text: str, *, normalize: bool = False) -> Semver | None:
    """Return the version of a text; None when it is not one."""
    try:
        return parse_semver(text, normalize=normalize)
    except SemverFormatError:
        return None


def _normalize(text: str) -> str:
    """Bring a loosely written version into the strict form."""
    parts = [_strip_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise SemverFormatError(text, reason="a short version cannot have pre-release or build data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _strip_zeros(part: str) -> str:
    """Remove leading zeros, but keep one where no digit would be left in front."""
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in tuple("0123456789") else "0" + stripped


def _parse_number(text: str, name: str, part: str) -> int:
    """Read one number of a version."""
    if not _NUMBER.fullmatch(part):
        raise SemverFormatError(text, reason=f"its {name} number is {part!r}, allowed digits")
    if len(part) > 1 and part[0] == "0":
        raise SemverFormatError(text, reason=f"its {name} number {part!r} has a leading zero")
    if len(part) > 20 or int(part) > MAX_UINT64:
        raise SemverFormatError(text, reason=f"its {name} number is above {MAX_UINT64}")
    return int(part)


def _parse_prerelease(text: str, part: str) -> int | str:
    """Read one identifier of the pre-release."""
    if _NUMBER.fullmatch(part):
        return _parse_number(text, "pre-release", part)
    return _parse_identifier(text, "pre-release", part)


def _parse_identifier(text: str, name: str, part: str) -> str:
    """Read one identifier of letters, digits and dashes."""
    if not _IDENTIFIER.fullmatch(part):
        raise SemverFormatError(text, reason=f"its {name} identifier is {part!r}, allowed letters, digits and dashes")
    return part
