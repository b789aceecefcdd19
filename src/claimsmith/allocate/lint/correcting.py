"""Corrected texts of selectors: each is tried on the published devices before anybody sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from claimsmith.allocate.lint.paths import Edit, PathUse, apply_edits, find_uses, guard_text, quote
from claimsmith.allocate.lint.published import Name, Published, PublishedDevice
from claimsmith.cel import CelEnvironment, Program, compile_expression
from claimsmith.cel.ast import Call, Comprehension, Expr
from claimsmith.errors import CelCompileError, CelRuntimeError

__all__ = ["Corrector", "Judgement", "compile_selector"]

_ENVIRONMENT: Final = CelEnvironment(is_stored=False, list_attributes=True)
"""What the API accepts in a new object."""
_LOGIC: Final = frozenset({"_&&_", "_||_", "!_", "_?_:_"})
_KNOWN_MAX: Final = 256

Judgement = tuple[bool | CelRuntimeError, ...]
"""What an expression says of each device."""


def compile_selector(text: str) -> Program | CelCompileError:
    """Return the program of a new selector, or why the API refuses it."""
    try:
        return compile_expression(text, environment=_ENVIRONMENT)
    except CelCompileError as error:
        return error


class Corrector:
    """Makes and tries corrected selectors.

    Args:
        published: All devices.
        devices: Those that the selectors are asked about; None: all.
    """

    def __init__(self, published: Published, devices: Sequence[PublishedDevice] | None = None) -> None:
        self.published = published
        self.devices = published.devices if devices is None else tuple(devices)
        self.judge: Callable[[str], Judgement | None] = lru_cache(maxsize=_KNOWN_MAX)(self._judge)
        """Tells what an expression says of each device; None when it can't be compiled."""

    def narrow(self, devices: Sequence[PublishedDevice]) -> Corrector:
        """Return one for selectors that are asked about these devices alone."""
        return Corrector(self.published, devices)

    def _judge(self, text: str) -> Judgement | None:
        program = compile_selector(text)
        if isinstance(program, CelCompileError):
            return None
        return tuple(evaluate(program, item) for item in self.devices)

    def correct(self, text: str, edits: Iterable[Edit]) -> str:
        """Return the text with edits, guarded so that it fails on no device; empty when that can't be."""
        changes = tuple(edits)
        return self.harden(apply_edits(text, changes)) if changes else ""

    def harden(self, text: str) -> str:
        """Return a text that says the same and fails on no device; empty when none is found.

        Where the text fails, the returned one says no: first by the driver, then by what the whole needs, then by what
        each of its parts needs.
        """
        said = self.judge(text)
        program = compile_selector(text)
        if said is None or isinstance(program, CelCompileError):
            return ""
        if not any(isinstance(answer, CelRuntimeError) for answer in said):
            return text
        return next((item for item in self._guard(text, program, said) if self._is_as_good(item, said)), "")

    def _is_as_good(self, text: str, said: Judgement) -> bool:
        """Whether a text says of each device what another one says, and no where that fails."""
        found = self.judge(text)
        if found is None:
            return False
        return all(
            new is (False if isinstance(old, CelRuntimeError) else old) for old, new in zip(said, found, strict=True)
        )

    def _guard(self, text: str, program: Program, said: Judgement) -> Iterator[str]:
        tree = program.checked.tree
        uses = find_uses(tree, text)
        whole = f"({text})" if isinstance(tree, Call) and tree.function in ("_||_", "_?_:_") else text
        drivers = {item.id.driver for item, answer in zip(self.devices, said, strict=True) if answer is True}
        owners = {driver for use in uses if not use.is_safe for driver in self.published.owners(use.name)}
        for driver in sorted(drivers if len(drivers) == 1 else owners if len(owners) == 1 else ()):
            yield f"device.driver == {quote(driver)} && {whole}"
        risky = [use for use in uses if not use.is_safe and self._is_missing(use.name)]
        if risky:
            guards = " && ".join(dict.fromkeys(guard_text(use.name) for use in risky))
            yield f"{guards} && {whole}"
            yield apply_edits(text, _guard_parts(tree, text, risky))

    def _is_missing(self, name: Name) -> bool:
        return any(not self.published.has(item, name) for item in self.devices)


def evaluate(program: Program, item: PublishedDevice) -> bool | CelRuntimeError:
    """Return what an expression says of one device, or how it fails there."""
    try:
        return program.evaluate(item.cel)
    except CelRuntimeError as error:
        return error


def _guard_parts(tree: Expr, text: str, risky: Sequence[PathUse]) -> tuple[Edit, ...]:
    """Return edits that guard each part between the logical operators by what it needs."""
    edits = []
    for part in _list_parts(tree):
        needed = [use.name for use in risky if part.start <= use.node.start and use.node.end <= part.end]
        if needed and part.end > part.start:
            guards = " && ".join(dict.fromkeys(guard_text(name) for name in needed))
            edits.append(Edit(part.start, part.end, f"({guards} && {text[part.start : part.end]})"))
    return tuple(edits)


def _list_parts(tree: Expr) -> Iterator[Expr]:
    """Yield the largest parts that hold no logical operator at their top."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function in _LOGIC and not isinstance(node, Comprehension):
            pending.extend(reversed(node.args))
        else:
            yield node
