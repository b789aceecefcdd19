"""Names of MIG profiles as NVIDIA's tools print them, whatever the exact memory of an instance is.

Source: MigProfile of go-nvlib v0.12 pkg/nvlib/device/mig_profile.go.
"""

from __future__ import annotations

import math
from typing import Final

from claimsmith.errors import FieldError

__all__ = ["name_mig_profile"]

_GIB: Final = 2**30
_PARTS: Final = 8


def name_mig_profile(slices: int, memory_bytes: int, *, board_bytes: int, media: bool = False) -> str:
    """Return the name of a profile, such as `3g.20gb` for an instance of 20096 MiB on a card of 40 GB.

    Cards divide their memory into eighths, and the name has the share of the card that was rounded up to these, not
    the memory that is left for programs.

    Args:
        slices: Compute slices of the instance; >= 1.
        memory_bytes: Memory of the instance in bytes; > 0.
        board_bytes: Memory of the whole card in bytes; >= `memory_bytes`.
        media: Whether the instance has the media engines (`+me`).

    Raises:
        FieldError: A number is out of its bounds.
    """
    if slices < 1:
        raise FieldError("slices", slices, allowed=">= 1", hint="correct the instance")
    if not 0 < memory_bytes <= board_bytes:
        raise FieldError("memory", memory_bytes, allowed=f"1 to {board_bytes}", hint="correct the instance")
    parts = math.ceil(_PARTS * memory_bytes / board_bytes)
    gigabytes = math.floor(parts * board_bytes / _GIB / _PARTS + 0.5)
    return f"{slices}g.{max(gigabytes, 1)}gb{'+me' if media else ''}"
