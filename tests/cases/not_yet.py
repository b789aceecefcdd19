"""Parts of case files that are known to fail: each must still fail, so that a repaired one is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_YET: Final[Mapping[str, Mapping[str, str]]] = {}
"""By name of the file: how the text of a difference begins, and why it is there."""
