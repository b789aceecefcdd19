"""Go's sort.Slice, move for move: it is not stable, and upstream's order of equal keys is what it makes of them.

Source: pdqsort_func in sort/zsortfunc.go of Go 1.26; the same since Go 1.19.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

__all__ = ["sort_like_go"]

_MAX_INSERTION: Final = 12
_SHORTEST_SHIFTING: Final = 50
_SHORTEST_NINTHER: Final = 50
_MAX_SHIFTS: Final = 5
_MAX_SWAPS: Final = 12
_UINT64: Final = 2**64 - 1


class _Hint(Enum):
    """How a part seems to be sorted."""

    UNKNOWN = 0
    INCREASING = 1
    DECREASING = 2


def sort_like_go(count: int, precedes: Callable[[int, int], bool]) -> list[int]:
    """Return the numbers below `count` in the order that sort.Slice gives them.

    Args:
        precedes: Tells whether the item with the first number is less than the one with the second; it need not be
            an order, as with NaN.
    """
    sorter = _Sorter(list(range(count)), precedes)
    sorter.sort(0, count, count.bit_length())
    return sorter.items


class _Sorter:
    """The numbers being sorted, in place."""

    def __init__(self, items: list[int], precedes: Callable[[int, int], bool]) -> None:
        self.items = items
        self._precedes = precedes
        self._swaps = 0

    def less(self, one: int, two: int) -> bool:
        """Tell whether the item at one place precedes the one at another."""
        return self._precedes(self.items[one], self.items[two])

    def swap(self, one: int, two: int) -> None:
        """Exchange the items at two places."""
        items = self.items
        items[one], items[two] = items[two], items[one]

    def sort(self, start: int, end: int, limit: int) -> None:
        """Sort a part: by inserting when it is short, else split it at a pivot (pdqsort_func)."""
        was_balanced = was_partitioned = True
        while end - start > _MAX_INSERTION:
            length = end - start
            if limit == 0:
                self.sort_by_heap(start, end)
                return
            if not was_balanced:
                self.break_patterns(start, end)
                limit -= 1
            pivot, hint = self.choose_pivot(start, end)
            if hint is _Hint.DECREASING:
                self.items[start:end] = self.items[start:end][::-1]
                pivot, hint = end - 1 - (pivot - start), _Hint.INCREASING
            likely_sorted = was_balanced and was_partitioned and hint is _Hint.INCREASING
            if likely_sorted and self.insert_some(start, end):
                return
            if start > 0 and not self.less(start - 1, pivot):
                start = self.split_equal(start, end, pivot)
                continue
            middle, was_partitioned = self.split(start, end, pivot)
            left, right = middle - start, end - middle
            was_balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(start, middle, limit)
                start = middle + 1
            else:
                self.sort(middle + 1, end, limit)
                end = middle
        self.insert_all(start, end)

    def insert_all(self, start: int, end: int) -> None:
        """Sort a short part by inserting (insertionSort_func)."""
        for place in range(start + 1, end):
            while place > start and self.less(place, place - 1):
                self.swap(place, place - 1)
                place -= 1

    def insert_some(self, start: int, end: int) -> bool:
        """Repair a part that is nearly sorted; tell whether that was enough (partialInsertionSort_func)."""
        place = start + 1
        for _ in range(_MAX_SHIFTS):
            while place < end and not self.less(place, place - 1):
                place += 1
            if place == end:
                return True
            if end - start < _SHORTEST_SHIFTING:
                return False
            self.swap(place, place - 1)
            if place - start >= 2:
                self.shift(range(place - 1, 0, -1))
            if end - place >= 2:
                self.shift(range(place + 1, end))
        return False

    def shift(self, places: range) -> None:
        """Swap each place with the one before it, as long as that is greater."""
        for place in places:
            if not self.less(place, place - 1):
                break
            self.swap(place, place - 1)

    def sort_by_heap(self, start: int, end: int) -> None:
        """Sort a part whose pivots were bad too often (heapSort_func)."""
        count = end - start
        for root in range((count - 1) // 2, -1, -1):
            self.sift_down(root, count, start)
        for last in range(count - 1, -1, -1):
            self.swap(start, start + last)
            self.sift_down(0, last, start)

    def sift_down(self, root: int, end: int, first: int) -> None:
        """Let the root of a heap sink to its place (siftDown_func)."""
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def split(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """Split a part at a pivot; return where it stands now, and whether nothing had to move (partition_func)."""
        self.swap(start, pivot)
        low, high = start + 1, end - 1
        rounds = 0
        while True:
            while low <= high and self.less(low, start):
                low += 1
            while low <= high and not self.less(high, start):
                high -= 1
            if low > high:
                break
            self.swap(low, high)
            low, high, rounds = low + 1, high - 1, rounds + 1
        self.swap(high, start)
        return high, rounds == 0

    def split_equal(self, start: int, end: int, pivot: int) -> int:
        """Split off what equals the pivot, which nothing precedes (partitionEqual_func)."""
        self.swap(start, pivot)
        low, high = start + 1, end - 1
        while True:
            while low <= high and not self.less(start, low):
                low += 1
            while low <= high and self.less(start, high):
                high -= 1
            if low > high:
                return low
            self.swap(low, high)
            low, high = low + 1, high - 1

    def break_patterns(self, start: int, end: int) -> None:
        """Scatter some items, at random but always alike (breakPatterns_func)."""
        length = end - start
        random, modulus = length, 1 << length.bit_length()
        middle = start + length // 4 * 2
        for place in range(middle - 1, middle + 2):
            random ^= random << 13 & _UINT64
            random ^= random >> 7
            random ^= random << 17 & _UINT64
            other = random & (modulus - 1)
            self.swap(place, start + (other - length if other >= length else other))

    def choose_pivot(self, start: int, end: int) -> tuple[int, _Hint]:
        """Choose a pivot among no less than 8 items, and guess how they are sorted (choosePivot_func)."""
        quarter = (end - start) // 4
        places = [start + quarter, start + quarter * 2, start + quarter * 3]
        self._swaps = 0
        if end - start >= _SHORTEST_NINTHER:
            places = [self.find_median(place - 1, place, place + 1) for place in places]
        pivot = self.find_median(*places)
        hints = {0: _Hint.INCREASING, _MAX_SWAPS: _Hint.DECREASING}
        return pivot, hints.get(self._swaps, _Hint.UNKNOWN)

    def find_median(self, one: int, two: int, three: int) -> int:
        """Return the place of the median of three (median_func)."""
        one, two = self.order(one, two)
        two, three = self.order(two, three)
        return self.order(one, two)[1]

    def order(self, one: int, two: int) -> tuple[int, int]:
        """Return two places, that of the lesser item first (order2_func)."""
        if self.less(two, one):
            self._swaps += 1
            return two, one
        return one, two
