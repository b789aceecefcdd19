"""Reasons cut to what a table can show, with the command that tells the rest."""

from __future__ import annotations

from typing import Final

__all__ = ["shorten_reason"]

_LENGTH_MAX: Final = 400
_CUT: Final = " …"


def shorten_reason(text: str, target: str, *, when: str = "") -> str:
    """Return a text of reasons in at most some 400 characters; one that is cut ends with where to find the rest.

    Args:
        text: Pieces with `; ` between them; one that was cut before ends with `…`.
        target: What waits, as `claimsmith explain` takes it: `pod/default/train-0`; empty where `explain` would see
            another cluster, and JSON has all of it.
        when: From when on that can be asked, where it is not now; such as `once it waits`.
    """
    kept, cut = text.removesuffix(_CUT), text.endswith(_CUT)
    if len(kept) > _LENGTH_MAX:
        kept, cut = _cut(kept), True
    if not cut:
        return kept
    where = f"claimsmith explain {target}{f' {when}' if when else ''}" if target else "-o json"
    return f"{kept}{_CUT} (in full: {where})"


def _cut(text: str) -> str:
    """Return whole pieces of the text, or whole words if the first piece is too long."""
    end = text.rfind("; ", _LENGTH_MAX // 2, _LENGTH_MAX)
    if end < 0:
        end = text.rfind(" ", 0, _LENGTH_MAX)
    return text[: end if end > 0 else _LENGTH_MAX].rstrip(";, ")
