"""How far apart two spellings of a name are."""

from __future__ import annotations

__all__ = ["count_edits"]


def count_edits(left: str, right: str) -> int:
    """Count the insertions, deletions, changes and swaps of neighbours between two short texts."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
