"""What an error means for the exit code, and the one line that the user sees."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import Final

from claimsmith.errors import (
    AlreadyExistsError,
    ApiError,
    ClaimsmithError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
)

__all__ = ["Exit", "exit_for", "tell"]

_AUTHORS: Final = (AlreadyExistsError, ForbiddenError, InvalidObjectError, NotFoundError)
"""Answers of an API server after which trying again can't help."""
_LINE_MAX: Final = 1000
_END: Final = 200


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    DOES_NOT_FIT = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    OUR_BUG = 4


def exit_for(error: BaseException) -> Exit:
    """Print one line about the error to stderr and return the exit code.

    Of several errors, the first that somebody can act upon is told; the others mostly follow from it. A traceback is
    shown for our own bugs only, and for the others when CLAIMSMITH_TRACEBACK=1 is set.
    """
    causes = _flatten(error)
    known = [cause for cause in causes if isinstance(cause, ClaimsmithError) or _is_refusal(cause)]
    is_bug = len(known) < len(causes)
    if is_bug or os.environ.get("CLAIMSMITH_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
    if is_bug:
        tell("this is a bug in claimsmith; please report it with the lines above")
        return Exit.OUR_BUG
    chosen = min(known, key=_exit_of)
    tell(_describe(chosen))
    return _exit_of(chosen)


def tell(sentence: str) -> None:
    """Print one line to stderr, whatever the sentence contains; the middle of a very long one is left out."""
    line = " ".join(sentence.splitlines())
    if len(line) > _LINE_MAX:
        line = f"{line[: _LINE_MAX - _END]}…{line[-_END:]}"
    print(f"claimsmith: {line}", file=sys.stderr)


def _exit_of(error: BaseException) -> Exit:
    return Exit.UNREACHABLE if isinstance(error, ApiError) and not isinstance(error, _AUTHORS) else Exit.BAD_INPUT


def _is_refusal(error: BaseException) -> bool:
    """Tell whether the operating system refused something: no room, no permission, too many open files."""
    return isinstance(error, OSError) and error.errno is not None


def _describe(error: BaseException) -> str:
    """Return the message of an error of ours, or what the operating system refused."""
    if not isinstance(error, OSError):
        return str(error)
    place = error.filename if error.filename is not None else "this machine"
    return f"{place}: {error.strerror or error}; make room or correct the permissions, and try again"


def _flatten(error: BaseException) -> list[BaseException]:
    """Return the leaves of an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _flatten(part)]
    return [error]
