"""What is wrong with one selector, held against the devices that it is asked about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from claimsmith.allocate.lint.amounts import guess_quantity
from claimsmith.allocate.lint.comparisons import (
    Comparison,
    complete_version,
    find_bad_quantities,
    find_comparisons,
    plan_quantity,
    plan_retyped,
    plan_version,
)
from claimsmith.allocate.lint.correcting import Corrector, compile_selector, evaluate
from claimsmith.allocate.lint.paths import Edit, PathUse, edit_name, find_uses, quote
from claimsmith.allocate.lint.published import Name, PublishedDevice
from claimsmith.allocate.lint.values import Fault
from claimsmith.cel import Program
from claimsmith.cel.parser import parse
from claimsmith.errors import CelCompileError, CelRuntimeError
from claimsmith.model.quantity import Quantity

__all__ = ["lint_selector"]

_ROUNDS_MAX: Final = 8
"""Faults of one selector that are corrected one after the other."""
_AMOUNTS_SHOWN: Final = 3
_ORDERING: Final = frozenset({"<", "<=", ">", ">="})
_LISTS: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


def lint_selector(text: str, corrector: Corrector) -> tuple[Fault, ...]:
    """Return what is wrong with a selector, apart from matching nothing.

    Args:
        text: The selector.
        corrector: Knows the devices that it is asked about: those that earlier selectors accept.
    """
    faults = _find_faults(text, corrector)
    corrected, left = text, faults
    for _ in range(_ROUNDS_MAX):
        found = next((fault.corrected for fault in left if fault.corrected), "")
        if not found:
            break
        corrected, left = found, _find_faults(found, corrector)
    kept = {(fault.rule, fault.text) for fault in left}
    is_changed = corrected != text
    return tuple(
        replace(fault, corrected=corrected if is_changed and (fault.rule, fault.text) not in kept else "")
        for fault in faults
    )


def _find_faults(text: str, corrector: Corrector) -> tuple[Fault, ...]:
    """Find what is wrong, each fault with a text in which at least that one is corrected."""
    program = compile_selector(text)
    if isinstance(program, CelCompileError):
        return tuple(_find_plain_quantities(text, corrector))
    uses = find_uses(program.checked.tree, text)
    comparisons = tuple(find_comparisons(program.checked.tree, uses))
    found = [*_find_unknown(text, uses, corrector), *_find_mismatches(text, comparisons, corrector)]
    found += _find_bad_quantities(program, uses, corrector)
    is_known_to_fail = any(fault.severity == "error" for fault in found)
    found += _find_text_versions(text, comparisons, corrector)
    if not is_known_to_fail:
        found += _find_failures(program, corrector)
    return tuple(found)


def _find_plain_quantities(text: str, corrector: Corrector) -> Iterator[Fault]:
    """Yield the fault of a selector that compares capacities with numbers or texts, which does not compile."""
    try:
        tree = parse(text)
    except CelCompileError:
        return
    capacities = tuple(use for use in find_uses(tree, text) if use.name.field == "capacity")
    edits: list[Edit] = []
    names: dict[Name, None] = {}
    unlike: dict[str, None] = {}
    for comparison in find_comparisons(tree, capacities):
        published = _list_amounts(comparison.use.name, corrector)
        edits += plan_quantity(comparison, text, published)
        names[comparison.use.name] = None
        unlike.update(dict.fromkeys(_tell_guesses(comparison, published)))
    corrected = corrector.correct(text, edits)
    if corrected:
        shown = ", ".join(map(str, names))
        sentence = f"{shown} is a quantity and can't be compared with a number or a text; compare it with quantity(…)"
        sentence += "".join(unlike)
        yield Fault(rule="quantity", severity="error", text=sentence, corrected=corrected)


def _tell_guesses(comparison: Comparison, published: Collection[Quantity]) -> Iterator[str]:
    """Yield what to say of constants that probably stand for something else than they are."""
    for constant in comparison.constants:
        text = str(constant.value)
        guess = guess_quantity(text, published)
        if guess not in ("", text):
            shown = ", ".join(sorted(map(str, published))[:_AMOUNTS_SHOWN])
            yield f"; {text} is taken for {guess}{f' (published: {shown})' if shown else ''}"


def _list_amounts(name: Name, corrector: Corrector) -> tuple[Quantity, ...]:
    """Return the amounts that devices have of a capacity."""
    values = corrector.published.values(name, corrector.devices).values()
    return tuple(value for value in values if isinstance(value, Quantity))


def _find_bad_quantities(program: Program, uses: Sequence[PathUse], corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault for each text in `quantity(…)` that is none, on which the selector fails."""
    for constant, name in find_bad_quantities(program.checked.tree, uses):
        guess = guess_quantity(str(constant.value), _list_amounts(name, corrector) if name is not None else ())
        hint = f"; write {guess}" if guess else "; write a number with a unit such as Gi or G"
        edits = (Edit(constant.start, constant.end, quote(guess)),) if guess else ()
        sentence = f"{constant.value!r} is no quantity: the selector fails where it comes to it{hint}"
        corrected = corrector.correct(program.text, edits)
        yield Fault(rule="quantity", severity="error", text=sentence, corrected=corrected)


def _find_unknown(text: str, uses: Sequence[PathUse], corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault for each name that no device publishes."""
    published = corrector.published
    for name in dict.fromkeys(use.name for use in uses):
        if published.kinds(name):
            continue
        mine = [use for use in uses if use.name == name]
        guess = published.suggest(name)
        what = "attribute" if name.field == "attributes" else "capacity"
        hint, corrected = "", ""
        if guess is not None:
            hint = f"; did you mean {guess}?"
            corrected = corrector.correct(text, [edit for use in mine for edit in edit_name(use, guess, text)])
        sentence = f"no published device has the {what} {name.qualified}{hint}"
        is_safe = all(use.is_safe for use in mine)
        yield Fault(
            rule="unknown-attribute",
            severity="warning" if is_safe else "error",
            text=sentence,
            corrected=corrected if corrected != text else "",
        )


def _find_mismatches(text: str, comparisons: Sequence[Comparison], corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault for each comparison with a constant of a type that the attribute never has."""
    for comparison in comparisons:
        kinds, types = corrector.published.kinds(comparison.use.name), comparison.types
        if not kinds or types & kinds:
            continue
        name = comparison.use.name
        shown = text[comparison.node.start : comparison.node.end]
        kind = next(iter(sorted(kinds)))
        if kinds == {"version"} and types == {"string"}:
            corrected = corrector.correct(text, plan_version(comparison, text, is_string=False))
            sentence = f"{shown}: {name.qualified} is a version, which does not compare with a text; use semver(…)"
            yield Fault(rule="version-as-string", severity="error", text=sentence, corrected=corrected)
            continue
        if kind in _LISTS:
            edits = _plan_membership(comparison, text, _LISTS[kind])
        else:
            edits = plan_retyped(comparison, kind)
        listed = ", ".join(sorted(types))
        sentence = f"{shown}: {name.qualified} is of type {', '.join(sorted(kinds))}, compared with {listed}"
        yield Fault(rule="type-mismatch", severity="error", text=sentence, corrected=corrector.correct(text, edits))


def _plan_membership(comparison: Comparison, text: str, kind: str) -> tuple[Edit, ...]:
    """Return the edit that looks for the constant in a list."""
    if comparison.operator not in ("==", "!=") or comparison.types != {kind}:
        return ()
    (constant,) = comparison.constants
    path = text[comparison.use.node.start : comparison.use.node.end]
    inside = f"{text[constant.start : constant.end]} in {path}"
    changed = inside if comparison.operator == "==" else f"!({inside})"
    return (Edit(comparison.node.start, comparison.node.end, changed),)


def _find_text_versions(text: str, comparisons: Sequence[Comparison], corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault for each text attribute that holds versions and is put in order letter by letter."""
    published = corrector.published
    for comparison in comparisons:
        name = comparison.use.name
        if comparison.operator not in _ORDERING or published.kinds(name) != {"string"}:
            continue
        constant = str(comparison.constants[0].value)
        values = published.values(name)
        if not (_is_dotted(constant) and values and all(map(_is_dotted, values))):
            continue
        shown = text[comparison.node.start : comparison.node.end]
        corrected = corrector.correct(text, plan_version(comparison, text, is_string=True))
        sentence = f'{shown}: compares versions letter by letter, by which "9.1" comes after "10.0"; use semver(…)'
        yield Fault(rule="version-as-string", severity="warning", text=sentence, corrected=corrected)


def _is_dotted(text: str) -> bool:
    return "." in text and complete_version(text) is not None


def _find_failures(program: Program, corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault when the selector fails on devices that it is asked about."""
    failed: list[tuple[PublishedDevice, CelRuntimeError]] = []
    for item in corrector.devices:
        answer = evaluate(program, item)
        if isinstance(answer, CelRuntimeError):
            failed.append((item, answer))
    if not failed:
        return
    item, error = failed[0]
    drivers = {device.id.driver for device, _ in failed}
    named = {
        owner for use in find_uses(program.checked.tree, program.text) for owner in corrector.published.owners(use.name)
    }
    is_foreign = bool(named) and not drivers & named
    count = f"{len(failed)} of {len(corrector.devices)} devices" if len(failed) > 1 else "one device"
    whose = f" of other drivers ({', '.join(sorted(drivers))})" if is_foreign else ""
    sentence = (
        f"fails on {count}{whose}, such as {item.id}: {error.message}; "
        "a scheduler of Kubernetes then refuses the whole pod"
    )
    yield Fault(
        rule="foreign-device" if is_foreign else "selector-fails",
        severity="error",
        text=sentence,
        corrected=corrector.harden(program.text),
    )
