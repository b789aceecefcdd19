"""Share ids that are the same in every run."""

from __future__ import annotations

from itertools import count

__all__ = ["ShareIds"]


class ShareIds:
    """Gives uids that are numbered from 1: a stand-in for random ones."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        """Return the next uid."""
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"
