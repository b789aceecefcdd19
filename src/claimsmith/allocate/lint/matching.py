"""Why selectors match no published device, and the nearest value with which they would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from claimsmith.allocate.explain.nearness import find_similarity, is_near, rank_text
from claimsmith.allocate.lint.correcting import Corrector, compile_selector, evaluate
from claimsmith.allocate.lint.paths import Edit, PathUse, apply_edits, find_uses, quote
from claimsmith.allocate.lint.published import PublishedDevice
from claimsmith.cel import Program
from claimsmith.cel.ast import Call, Expr, Ident, Select, walk
from claimsmith.cel.ast import Literal as Constant
from claimsmith.errors import CelCompileError
from claimsmith.model.quantity import Quantity, find_quantity
from claimsmith.model.semver import Semver, find_semver

__all__ = ["describe_published", "find_false_clause", "find_nearest_text", "select"]

_TRIED_MAX: Final = 40
_CLOSE: Final = 0.5
_WRAPPING: Final = frozenset({"quantity", "semver"})


def select(texts: Sequence[str], devices: Sequence[PublishedDevice]) -> tuple[PublishedDevice, ...]:
    """Return the devices that all selectors accept; one that can't be compiled accepts none."""
    left = tuple(devices)
    for text in texts:
        program = compile_selector(text)
        left = () if isinstance(program, CelCompileError) else tuple(i for i in left if evaluate(program, i) is True)
    return left


def find_false_clause(texts: Sequence[str], devices: Sequence[PublishedDevice]) -> tuple[int, str, int]:
    """Return which selector, and which part of it between `&&`, is the last to leave no device.

    Returns:
        Place of the selector, text of the part, and how many devices it has turned down. (-1, "", 0): none.
    """
    left = tuple(devices)
    for place, text in enumerate(texts):
        program = compile_selector(text)
        if isinstance(program, CelCompileError):
            return -1, "", 0
        for clause in _clauses(program):
            kept = tuple(item for item in left if evaluate(clause, item) is True)
            if left and not kept:
                return place, clause.text, len(left)
            left = kept
    return -1, "", 0


def find_nearest_text(
    texts: Sequence[str], place: int, devices: Sequence[PublishedDevice], corrector: Corrector
) -> str:
    """Return a selector with one constant changed to the nearest published value, so that all match some device.

    Args:
        texts: All selectors.
        place: Which of them may be changed.
        devices: What the selectors choose from.

    Returns:
        The changed selector; empty when no such change is known.
    """
    text = texts[place]
    program = compile_selector(text)
    if isinstance(program, CelCompileError):
        return ""
    reached = corrector.narrow(select(texts[:place], devices))
    for edit in _list_changes(program, devices, corrector):
        changed = reached.harden(apply_edits(text, (edit,)))
        if changed and select([*texts[:place], changed, *texts[place + 1 :]], devices):
            return changed
    return ""


def describe_published(clause: str, devices: Sequence[PublishedDevice], corrector: Corrector) -> str:
    """Return what devices have under the names of a clause, for people; empty when it names none."""
    program = compile_selector(clause)
    if isinstance(program, CelCompileError):
        return ""
    names = dict.fromkeys(use.name for use in find_uses(program.checked.tree, clause))
    found = [(name, corrector.published.describe_values(name, devices)) for name in names]
    return "; ".join(f"published {name.id}: {values}" for name, values in found if values)


def _clauses(program: Program) -> tuple[Program, ...]:
    """The parts of a selector that are of use by themselves; the whole when one of them is no bool."""
    parts = program.clauses()
    return parts if all(part.output_type in ("bool", "dyn", "any") for part in parts) else (program,)


def _list_changes(program: Program, devices: Sequence[PublishedDevice], corrector: Corrector) -> Iterator[Edit]:
    """Yield changes of one constant each, for the constants that stand in one part with a name, the nearest first."""
    text, tree = program.text, program.checked.tree
    uses = find_uses(tree, text)
    for clause in _list_comparisons(tree):
        inside = [use for use in uses if clause.start <= use.node.start and use.node.end <= clause.end]
        names = {use.name for use in inside}
        if len(names) == 1:
            values = corrector.published.values(names.pop(), devices)
        elif not names and _reads_driver(clause):
            values = {item.id.driver: item.id.driver for item in devices}
        else:
            continue
        for constant in _list_constants(clause, inside):
            yield from _list_values(constant, tuple(values.values()))


def _list_comparisons(tree: Expr) -> Iterator[Expr]:
    """Yield the parts between logical operators."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function in ("_&&_", "_||_", "!_"):
            pending.extend(reversed(node.args))
        else:
            yield node


def _reads_driver(clause: Expr) -> bool:
    return any(
        isinstance(node, Select) and node.field == "driver" and isinstance(node.operand, Ident) for node in walk(clause)
    )


def _list_constants(clause: Expr, uses: Sequence[PathUse]) -> Iterator[Constant]:
    """Yield the constants of a part that are no part of a name."""
    taken = {span for use in uses for span in (use.domain, use.id)}
    for node in walk(clause):
        if isinstance(node, Constant) and (node.start, node.end) not in taken and node.end > node.start:
            yield node


def _list_values(constant: Constant, values: Sequence[object]) -> Iterator[Edit]:
    """Yield the published values in place of a constant, the nearest first; values of another type are left out.

    Of texts the nearest is the one that `claimsmith explain` proposes too.
    """
    old = constant.value
    found: list[tuple[tuple[object, ...], str]] = []
    for value in values:
        if isinstance(old, bool) and isinstance(value, bool):
            found.append(((0,), str(value).lower()))
        elif type(old) is int and type(value) is int:
            found.append(((abs(old - value),), str(value)))
        elif isinstance(old, str) and isinstance(value, str):
            if is_near(old, value) or find_similarity(old, value) >= _CLOSE:
                found.append((rank_text(old, value), quote(value)))
        elif isinstance(old, str) and isinstance(value, Quantity | Semver):
            found += [((away,), text) for away, text in _rank_wrapped(old, value)]
    for _, text in sorted(found)[:_TRIED_MAX]:
        yield Edit(constant.start, constant.end, text)


def _rank_wrapped(old: str, value: Quantity | Semver) -> list[tuple[float, str]]:
    """A quantity or version in place of a text that stands for one, with how far it is away."""
    if isinstance(value, Quantity):
        amount = find_quantity(old)
        return [] if amount is None else [(float(abs(amount.nanos - value.nanos)), quote(str(value)))]
    version = find_semver(old)
    if version is None:
        return []
    parts = ((version.major, value.major), (version.minor, value.minor), (version.patch, value.patch))
    away = sum(abs(one - other) * 1e6 ** (2 - place) for place, (one, other) in enumerate(parts))
    return [(away, quote(str(value)))]
