"""Makes a question smaller as long as our answer and upstream's still differ in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from claimsmith.cel.ast import Expr, children
from claimsmith.cel.parser import parse
from claimsmith.errors import CelCompileError
from tests.conformance.fuzz.mutations import split_words

__all__ = ["Still", "shrink_expression", "shrink_problem"]

Json = dict[str, Any]
Path = tuple[str | int, ...]
Still = Callable[[Json], bool]
"""Tells whether a smaller question still shows the difference."""

TRIES_MAX: Final = 3000
_KEPT: Final = frozenset(
    {
        "name", "apiVersion", "kind", "features", "driver", "expression", "metadata", "pool", "resourceSliceCount",
        "slices", "nodes", "classes", "claims", "allocatedClaims", "spec", "requests", "devices", "exactly",
        "count", "allocationMode", "deviceClassName", "operator", "opaque", "shareID", "status", "allocation",
        "results", "default", "key",
    }
)  # fmt: skip
"""Fields without which a question is another one, or none."""
_SMALL_TEXTS: Final = ("true", "false", "0", "1", '""', '"a"', "[]", "{}", "null", "1u", "1.0", 'b""')


def shrink_problem(problem: Json, still: Still) -> Json:
    """Return a problem with as few slices, devices, claims, requests and attributes as show the difference."""
    return _shrink(problem, _reduce_problem, still)


def shrink_expression(question: Json, still: Still) -> Json:
    """Return a question with the shortest expression, and the barest device, that show the difference."""
    return _shrink(question, _reduce_expression, still)


def _shrink(question: Json, reduce: Callable[[Json], Iterator[Json]], still: Still) -> Json:
    """Take the first reduction that still differs, again and again."""
    tries = 0
    progress = True
    while progress:
        progress = False
        for smaller in reduce(question):
            tries += 1
            if tries > TRIES_MAX:
                return question
            if still(smaller):
                question, progress = smaller, True
                break
    return question


def _reduce_problem(problem: Json) -> Iterator[Json]:
    """Yield smaller problems, those first that lose most."""
    for place, made in enumerate(problem["slices"]):
        smaller = deepcopy(problem)
        del smaller["slices"][place]
        for other in smaller["slices"]:
            spec = other["spec"]
            if (spec["driver"], spec["pool"]["name"]) == (made["spec"]["driver"], made["spec"]["pool"]["name"]):
                spec["pool"]["resourceSliceCount"] = max(1, spec["pool"]["resourceSliceCount"] - 1)
        yield smaller
    paths = sorted(_list_paths(problem), key=len)
    for path in paths:
        yield _without(problem, path)
    for path in paths:
        if path[-1] == "count" and _get(problem, path) > 1:
            smaller = deepcopy(problem)
            _get(smaller, path[:-1])["count"] -= 1
            yield smaller


def _list_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the way to everything that may be left out."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in _KEPT:
            yield (*path, key)
        if key != "features":
            yield from _list_paths(child, (*path, key))


def _get(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _without(value: Json, path: Path) -> Json:
    smaller = deepcopy(value)
    del _get(smaller, path[:-1])[path[-1]]
    return smaller


def _reduce_expression(question: Json) -> Iterator[Json]:
    for text in _reduce_text(question["expression"]):
        yield {**question, "expression": text}
    device = question["device"]
    for part in ("attributes", "capacity"):
        for name in device.get(part, {}):
            yield _without(question, ("device", part, name))
    if "allowMultipleAllocations" in device:
        yield _without(question, ("device", "allowMultipleAllocations"))


def _reduce_text(text: str) -> Iterator[str]:
    """Yield shorter texts: a part instead of the whole, a constant instead of a part; else some words less."""
    try:
        pending = [parse(text)]
    except CelCompileError:
        yield from _drop_words(text)
        return
    while pending:
        node = pending.pop(0)
        below = children(node)
        for part in below:
            if 0 < part.end - part.start < node.end - node.start:
                yield _replace(
                    text, node, f"({text[part.start : part.end]})" if node.start else text[part.start : part.end]
                )
        for small in _SMALL_TEXTS:
            if len(small) < node.end - node.start:
                yield _replace(text, node, small)
        pending += below
    yield from _drop_words(text)


def _replace(text: str, node: Expr, part: str) -> str:
    return text[: node.start] + part + text[node.end :]


def _drop_words(text: str) -> Iterator[str]:
    words = split_words(text)
    for length in (8, 4, 2, 1):
        for start in range(0, len(words) - length + 1):
            yield "".join(words[:start] + words[start + length :])
