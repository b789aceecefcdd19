"""matches(), find() and findAll(): regular expressions by RE2.

Source: common/types/string.go in cel-go v0.29.2; pkg/cel/library/regex.go in k8s.io/apiserver v0.37.2; Go's regexp.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, INT, STRING, list_of
from claimsmith.cel.values import Value
from claimsmith.errors import CelFault


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises:
        CelFault: The pattern is not a regular expression that RE2 knows.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0] if error.args else ""
        text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise CelFault(f"error parsing regexp: {text}") from error


def matches(text: Value, pattern: Value) -> bool:
    """Tell whether a pattern matches somewhere in a text."""
    if type(text) is not str or type(pattern) is not str:
        raise CelFault("no such overload")
    return compile_pattern(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """Return the first match; empty when there is none."""
    match = compile_pattern(pattern).search(text)
    return match.group() if match else ""


def find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    """Return the matches that don't overlap, at most `count` when it is not negative.

    Empty matches right behind another match don't count. Source: FindAllString of Go's regexp.
    """
    compiled, found = compile_pattern(pattern), list[str]()
    position, last_end = 0, -1
    while position <= len(text) and (count < 0 or len(found) < count):
        match = compiled.search(text, position)
        if match is None:
            break
        accepted = True
        if match.end() == position:
            accepted = match.start() != last_end
            position += 1
        else:
            position = match.end()
        last_end = match.end()
        if accepted:
            found.append(match.group())
    return found


_STRINGS: Final = list_of(STRING)

FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "matches",
        overload("matches", (STRING, STRING), BOOL),
        method("matches_string", (STRING, STRING), BOOL),
        run=matches,
    ),
    function("find", method("string_find_string", (STRING, STRING), STRING, find)),
    function(
        "findAll",
        method("string_find_all_string", (STRING, STRING), _STRINGS, find_all),
        method("string_find_all_string_int", (STRING, STRING, INT), _STRINGS, find_all),
    ),
)
"""Functions that take a pattern as their second argument."""

PATTERN_FUNCTIONS: Final = frozenset(item.name for item in FUNCTIONS)
"""Names of the functions whose constant patterns are compiled when the program is made."""
