"""Names that the server makes up.

Source: k8s.io/apiserver v0.37.2 pkg/storage/names/generate.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["generate_name"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_LENGTH: Final = 63


def generate_name(prefix: str, choose: Callable[[str], str]) -> str:
    """Return a name with a random end.

    Args:
        prefix: `metadata.generateName`; cut so that the name stays within 63 characters.
        choose: Picks a character of a string at random.
    """
    return prefix[: _MAX_LENGTH - _SUFFIX_LENGTH] + "".join(choose(_ALPHABET) for _ in range(_SUFFIX_LENGTH))
