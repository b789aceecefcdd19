"""Label selectors: the language, its words and its refusals.

Source: k8s.io/apimachinery v0.37.2 pkg/labels/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.embedded.store_faults import bad_request
from claimsmith.errors import RequestError
from claimsmith.validate.issues import FieldIssue, invalid
from claimsmith.validate.names import check_label_key, check_label_value

__all__ = ["LabelRequirement", "parse_labels"]

_TOKEN: Final = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))", re.ASCII)
_OPERATORS: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", "<": "lt", ">": "gt"}
_OPERATOR_WORDS: Final = "in, notin, =, ==, !=, gt, lt"
_SPECIAL: Final = frozenset(("==", "!=", *"=!(),<>", ""))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_END: Final = ""
_PARSE: Final = "unable to parse requirement: "


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One condition on a label.

    Args:
        key: The label.
        operator: `in`, `notin`, `exists`, `absent`, `gt` or `lt`.
        values: Values that the operator takes.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a set of labels fulfils the condition."""
        found = labels.get(self.key)
        match self.operator:
            case "in":
                return found is not None and found in self.values
            case "notin":
                return found is None or found not in self.values
            case "exists":
                return found is not None
            case "absent":
                return found is None
            case _:
                return _compare(found, next(iter(self.values)), self.operator)


def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Return the conditions of a label selector.

    Args:
        text: Such as `app=web,tier in (a, b),!old`; empty for no condition.

    Raises:
        RequestError: 400, the text is no label selector.
    """
    return tuple(_Parser(text).parse())


class _Parser:
    """Reads a selector word by word; at the end there is the word `_END`, as often as one looks."""

    def __init__(self, text: str) -> None:
        self._words = [found[1] or found[2] for found in _TOKEN.finditer(text)]
        self._position = 0

    def parse(self) -> Iterator[LabelRequirement]:
        while self._ahead() != _END:
            if not self._is_key_ahead():
                raise bad_request(f"found '{self._ahead()}', expected: !, identifier, or 'end of string'")
            yield self._parse_requirement()
            if (word := self._take()) == _END:
                return
            if word != ",":
                raise bad_request(f"found '{word}', expected: ',' or 'end of string'")
            if not self._is_key_ahead():
                raise bad_request(f"found '{self._ahead()}', expected: identifier after ','")

    def _ahead(self) -> str:
        return self._words[self._position] if self._position < len(self._words) else _END

    def _take(self) -> str:
        word = self._ahead()
        self._position += 1
        return word

    def _is_key_ahead(self) -> bool:
        return self._ahead() == "!" or self._ahead() not in _SPECIAL

    def _parse_requirement(self) -> LabelRequirement:
        key = self._take()
        is_absent = key == "!"
        if is_absent:
            key = self._take()
        if key in _SPECIAL:
            raise _refusal(f"found '{key}', expected: identifier")
        _check(check_label_key(key, "<nil>"))
        if is_absent or self._ahead() in (_END, ","):
            return LabelRequirement(key=key, operator="absent" if is_absent else "exists")
        word = self._take()
        if word not in _OPERATORS:
            raise _refusal(f"found '{word}', expected: {_OPERATOR_WORDS}")
        values = self._parse_values() if word in ("in", "notin") else {self._parse_value()}
        operator = _OPERATORS[word]
        _check(_check_values(key, operator, sorted(values)))
        return LabelRequirement(key=key, operator=operator, values=frozenset(values))

    def _parse_value(self) -> str:
        if self._ahead() in (_END, ","):
            return ""
        if (word := self._take()) in _SPECIAL:
            raise _refusal(f"found '{word}', expected: identifier")
        return word

    def _parse_values(self) -> set[str]:
        if (word := self._take()) != "(":
            raise _refusal(f"found '{word}' expected: '('")
        word = self._ahead()
        if word == ")":
            self._take()
            return {""}
        if word in _SPECIAL and word != ",":
            raise _refusal(f"found '{word}', expected: ',', ')' or identifier")
        found = self._parse_list()
        self._take()
        return found

    def _parse_list(self) -> set[str]:
        """Return the values up to the bracket that ends them, which is left; an empty one counts."""
        found: set[str] = set()
        while True:
            word = self._take()
            if word == ",":
                if not found or self._ahead() in (")", ","):
                    found.add("")
                if self._ahead() == ")":
                    return found
            elif word in _SPECIAL:
                raise _refusal(f"found '{word}', expected: ',', or identifier")
            else:
                found.add(word)
                if self._ahead() == ")":
                    return found
                if self._ahead() != ",":
                    raise _refusal(f"found '{self._ahead()}', expected: ',' or ')'")


def _check_values(key: str, operator: str, values: list[str]) -> Iterator[FieldIssue]:
    if operator in ("gt", "lt"):
        for index, value in enumerate(values):
            if not _INTEGER.fullmatch(value):
                yield invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
    for index, value in enumerate(values):
        yield from check_label_value(value, f"values[{index}][{key}]")


def _check(issues: Iterator[FieldIssue]) -> None:
    """Refuse what is wrong; what is wrong with one value is told in one go."""
    told: dict[tuple[str, str], str] = {}
    for issue in issues:
        _, message, path = issue.cause
        head, _, fault = message.partition('": ')
        place = (path, head)
        told[place] = f"{told[place]}; {fault}" if place in told else f"{path}: {message}"
    found = list(dict.fromkeys(told.values()))
    if found:
        raise _refusal(found[0] if len(found) == 1 else f"[{', '.join(found)}]")


def _refusal(why: str) -> RequestError:
    return bad_request(_PARSE + why)


def _compare(found: str | None, limit: str, operator: str) -> bool:
    if found is None or not _INTEGER.fullmatch(found):
        return False
    return int(found) > int(limit) if operator == "gt" else int(found) < int(limit)
