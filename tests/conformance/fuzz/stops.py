"""Questions that upstream can't answer, or that we refuse: what upstream does, and the question without the cause.

Upstream's answer to the question without it is compared with ours as any other, so that what stands beside a step of 0
is still judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from claimsmith.cel import CelEnvironment
from claimsmith.cel.ast import MapExpr, walk
from claimsmith.cel.checker import check
from claimsmith.cel.parser import parse
from claimsmith.errors import CelCompileError
from claimsmith.model.quantity import find_quantity

__all__ = ["find_odd_keys", "find_stops", "names_zone", "without_stops"]

Json = dict[str, Any]

_KEYS: Final = frozenset({"bool", "int", "uint", "string"})
_ZONE: Final = re.compile(r'"[A-Z][A-Za-z_]+/[A-Z][A-Za-z_]+"')
"""A time zone by name, as the generator writes it."""
_PARTICULAR: Final = re.compile(r"0x[0-9a-f]+|\d+")


def find_stops(answer: Json) -> tuple[str, ...]:
    """Return what upstream does instead of answering: `timeout`, or `panic` with its reason; nothing as a rule."""
    texts = [result["error"] for result in answer.get("results") or () if result.get("errorKind") == "panic"]
    texts += [answer[key] for key in ("newCompileError", "compileError", "runtimeError") if _is_panic(answer.get(key))]
    stops = {_PARTICULAR.sub("N", text.splitlines()[0]) for text in texts}
    stops |= {"timeout" for result in answer.get("results") or () if result["verdict"] == "timeout"}
    return tuple(sorted(stops))


def without_stops(question: Json) -> Json | None:
    """Return the question without what stops upstream, or makes us deviate; None when nothing of that is in it.

    A problem is asked without the limit of steps of the first time, so that upstream gets the time that it has in its
    scheduler.
    """
    if "expression" in question:
        text = _ZONE.sub('"UTC"', _rename_odd_keys(question["expression"]))
        return None if text == question["expression"] else {**question, "expression": text}
    changed: Json = json.loads(json.dumps(question))
    for policy in _list_policies(changed):
        _make_positive(policy)
    return changed


def names_zone(text: str) -> bool:
    """Tell whether an expression has a text that may be the name of a time zone."""
    return bool(_ZONE.search(text))


def find_odd_keys(text: str) -> list[tuple[int, int]]:
    """Return where an expression has keys of maps that are none by the language's rules, or may have."""
    environment = CelEnvironment(list_attributes=True)
    try:
        checked = check(parse(text), text=text, environment=environment)
    except CelCompileError:
        return []
    return sorted(
        (entry.key.start, entry.key.end)
        for expr in walk(checked.tree)
        if isinstance(expr, MapExpr)
        for entry in expr.entries
        if str(checked.types[entry.key.id]) not in _KEYS
    )


def _is_panic(text: object) -> bool:
    return isinstance(text, str) and text.startswith("panic: ")


def _rename_odd_keys(text: str) -> str:
    """Return the expression with a text in place of each odd key; an inner one goes with the outer one."""
    end = len(text)
    for number, (start, stop) in enumerate(reversed(find_odd_keys(text))):
        if stop <= end:
            text, end = f'{text[:start]}"key {number}"{text[stop:]}', start
    return text


def _list_policies(problem: Json) -> Iterator[Json]:
    """Yield the ranges of all capacities."""
    for made in problem["slices"]:
        for device in made["spec"].get("devices", ()):
            for capacity in device.get("capacity", {}).values():
                yield capacity.get("requestPolicy", {}).get("validRange", {})


def _make_positive(allowed: Json) -> None:
    """Take away a step that upstream divides by and that is 0."""
    step = find_quantity(str(allowed.get("step")))
    if step is not None and not step:
        del allowed["step"]
