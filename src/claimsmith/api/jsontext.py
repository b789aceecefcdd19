"""JSON text to values, as strictly as the API server reads it: no duplicate key, no NaN, no bottomless nesting."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.schema import MAX_DEPTH
from claimsmith.errors import ManifestError

__all__ = ["Document", "JsonReader", "read_json", "skip_space"]

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One JSON value out of a text of several.

    Args:
        value: dict, list, str, int, float, bool or None.
        number: Number of the document, from 1; empty ones count too.
        line: Line of its first value, from 1.
    """

    value: Any
    number: int
    line: int


def read_json(text: str, *, source: str) -> tuple[Document, ...]:
    """Return the JSON values that stand in a text one after another.

    Raises:
        ManifestError: The text is no JSON, a key appears twice in one object, a number is not finite, or the
            nesting is too deep.
    """
    return tuple(JsonReader(source).read_all(text))


def skip_space(text: str, start: int) -> int:
    """Return the offset of the next character that is no white space."""
    match = _SPACE.match(text, start)
    return match.end() if match is not None else start


class JsonReader:
    """Reads JSON values; refuses what the API server refuses."""

    def __init__(self, source: str) -> None:
        self.source, self.document = source, 0
        self.is_broken = False
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._build_object, parse_constant=self._refuse, parse_float=self._read_float
        )

    def read_all(self, text: str) -> Iterator[Document]:
        """Yield all values; `is_broken` says afterwards whether it was the syntax that failed."""
        end = skip_space(text, 0)
        while end < len(text):
            self.document += 1
            line = text.count("\n", 0, end) + 1
            value, end = self.read(text, end)
            yield Document(value=value, number=self.document, line=line)
            end = skip_space(text, end)

    def read(self, text: str, start: int) -> tuple[Any, int]:
        """Return the value that begins at an offset, and where it ends."""
        try:
            value, end = self.decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            reason = f"found broken JSON ({error.msg}), allowed JSON or YAML 1.1"
            self.is_broken = True
            raise ManifestError(
                self.source, reason, hint="correct the syntax", document=self.document, line=error.lineno
            ) from error
        except RecursionError as error:
            raise self._too_deep() from error
        except ValueError as error:
            raise self._fail(
                "found a number of thousands of digits, allowed 64-bit numbers", "write a smaller number"
            ) from error
        if _is_too_deep(value):
            raise self._too_deep()
        if _SURROGATE.search(text, start, end):
            self._check_unicode(value)
        return value, end

    def _build_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise self._fail(f"found a duplicate key {twice[:80]!r}, allowed one", "remove one of the two")
        return result

    def _refuse(self, text: str) -> float:
        raise self._fail(f"found {text}, allowed a finite number", "write a number or quote the text")

    def _read_float(self, text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            self._refuse(text[:40])
        return value

    def _check_unicode(self, value: Any) -> None:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            reason = "found half of a surrogate pair in a string, allowed Unicode characters"
            raise self._fail(reason, "correct the escape") from error

    def _too_deep(self) -> ManifestError:
        return self._fail(f"found more than {MAX_DEPTH} levels of nesting, allowed {MAX_DEPTH}", "flatten the document")

    def _fail(self, reason: str, hint: str) -> ManifestError:
        return ManifestError(self.source, reason, hint=hint, document=self.document)


def _is_too_deep(value: Any) -> bool:
    """Tell whether a value has more than MAX_DEPTH levels, level by level."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        children = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
        level = [child for child in children if isinstance(child, (dict, list))]
        if not level:
            return False
    return True
