"""What an error means for the exit code, and the one line that the user sees."""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

from claimsmith.errors import ApiError, ClaimsmithError

__all__ = ["Exit", "exit_for"]


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    DOES_NOT_FIT = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    OUR_BUG = 4


def exit_for(error: BaseException) -> Exit:
    """Print one line about the error to stderr and return the exit code.

    A traceback is shown for our own bugs only, and for the others when CLAIMSMITH_TRACEBACK=1 is set.
    """
    causes = _flatten(error)
    known = [cause for cause in causes if isinstance(cause, ClaimsmithError)]
    if os.environ.get("CLAIMSMITH_TRACEBACK") == "1" or len(known) < len(causes):
        traceback.print_exception(error)
    for cause in known:
        print(f"claimsmith: {cause}", file=sys.stderr)
    if len(known) < len(causes):
        print("claimsmith: this is a bug in claimsmith; please report it with the lines above", file=sys.stderr)
        return Exit.OUR_BUG
    return Exit.UNREACHABLE if any(isinstance(cause, ApiError) for cause in known) else Exit.BAD_INPUT


def _flatten(error: BaseException) -> list[BaseException]:
    """Return the leaves of an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _flatten(part)]
    return [error]
