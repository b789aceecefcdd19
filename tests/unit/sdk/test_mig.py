"""MIG profiles have the names that NVIDIA's tools print, although instances have odd amounts of memory."""

from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.sdk.mig import name_mig_profile

A100_40, A100_80, H100_80, A30 = 42505273344, 85520809984, 85520809984, 25769803776


@pytest.mark.parametrize(
    ("slices", "mib", "board", "media", "name"),
    [
        (1, 4864, A100_40, False, "1g.5gb"),
        (1, 4864, A100_40, True, "1g.5gb+me"),
        (1, 9856, A100_40, False, "1g.10gb"),
        (2, 9856, A100_40, False, "2g.10gb"),
        (3, 20096, A100_40, False, "3g.20gb"),
        (4, 20096, A100_40, False, "4g.20gb"),
        (7, 40192, A100_40, False, "7g.40gb"),
        (1, 9728, A100_80, False, "1g.10gb"),
        (3, 40192, A100_80, False, "3g.40gb"),
        (7, 81152, H100_80, False, "7g.80gb"),
        (1, 5952, A30, False, "1g.6gb"),
        (4, 24512, A30, False, "4g.24gb"),
    ],
)
def test_a_profile_has_the_name_of_the_vendors_tools(slices: int, mib: int, board: int, media: bool, name: str) -> None:
    assert name_mig_profile(slices, mib * 2**20, board_bytes=board, media=media) == name


@pytest.mark.parametrize(("slices", "memory"), [(0, 1), (1, 0), (1, 101)])
def test_numbers_that_no_instance_has_are_refused(slices: int, memory: int) -> None:
    with pytest.raises(FieldError):
        name_mig_profile(slices, memory, board_bytes=100)
