"""Tells upstream's errors apart by their texts, for records that hold no more than those."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ERROR_KINDS", "find_error_kind"]

ERROR_KINDS: Final = (
    ("panic", r"^panic: "),
    ("feature-off", r"feature is disabled"),
    ("no-class", r"could not retrieve device class"),
    ("limit", r"exceeds the claim limit|is too large"),
    ("limit-search", r"allocation max size exceeded"),
    ("all-incomplete-pool", r"asks for all devices, but resource pool \S+ is currently being updated"),
    ("all-invalid-pool", r"asks for all devices, but resource pool \S+ is currently invalid"),
    ("all-constraint", r"a claim constraint would not be satisfied"),
    ("invalid-pool", r"invalid resource pools"),
    ("derived-compile", r"compile derived attribute"),
    ("derived-runtime", r"evaluate derived attribute"),
    ("cel-compile", r"CEL compile error"),
    ("cel-runtime", r"CEL runtime error"),
    ("capacity", r"checking capacity for device|computing consumed capacity"),
    (
        "invalid-claim",
        r"unsupported (selector|request|constraint) type|unsupported count mode",
    ),
    ("node-selector", r"create NodeSelector|gather pool information"),
)
"""Kinds and what their texts contain; the first that matches counts."""


def find_error_kind(text: str) -> str:
    """Return the kind of one of upstream's errors; `other` for a text that is not known."""
    return next((kind for kind, pattern in ERROR_KINDS if re.search(pattern, text)), "other")
