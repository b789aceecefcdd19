"""JSON merge patch: objects are merged, null removes, everything else replaces.

Source: RFC 7386.
"""

from __future__ import annotations

from typing import Any

__all__ = ["apply_merge_patch"]


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """Return a value after a merge patch; neither argument is changed.

    Args:
        value: The decoded JSON that is patched.
        patch: The decoded patch.
    """
    if not isinstance(patch, dict):
        return patch
    merged = {**value} if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), change)
    return merged
