"""What the steps of the interpreter share: failures as values, steps, and the variables in scope.

Source: interpreter/interpretable.go (folder) and common/types/err.go in cel-go v0.29.2.
"""

from __future__ import annotations

from typing import Protocol

from claimsmith.cel.meter import CostMeter
from claimsmith.cel.values import MutableList, MutableMap, Value


class Failure:
    """A failed evaluation as a value, so that && and || can ignore it.

    Args:
        message: What failed.
        offset: Where, in characters from the start of the text; -1 until it is known.
    """

    __slots__ = ("message", "offset")

    def __init__(self, message: str, offset: int = -1) -> None:
        self.message, self.offset = message, offset

    def place(self, offset: int) -> Failure:
        """Say where it happened, unless that is known already."""
        if self.offset < 0:
            self.offset = offset
        return self


class Step(Protocol):
    """A part of an expression that can be run."""

    @property
    def id(self) -> int:
        """Identity of the node that the step's value belongs to."""
        ...

    def run(self, frame: Frame) -> Value:
        """Return the value, or a failure."""
        ...


class Frame:
    """The variables that a step can see, and the meter of the evaluation.

    Args:
        device: Value of the variable `device`.
    """

    __slots__ = ("device", "meter")

    def __init__(self, meter: CostMeter, device: Value) -> None:
        self.meter, self.device = meter, device

    def lookup(self, name: str) -> Value:
        """Return the value of a variable, or a failure."""
        if name.removeprefix(".") == "device":
            return self.device
        return Failure(f"no such attribute(s): {name}")


class LoopFrame(Frame):
    """The variables of one loop, around those of its parent.

    What the loop folds into is made when it is first read, which is what makes cel.bind() lazy.
    """

    __slots__ = ("accumulator", "first", "initial", "is_done", "is_started", "names", "parent", "second", "value")

    def __init__(self, parent: Frame, names: tuple[str, str, str], initial: Step) -> None:
        super().__init__(parent.meter, parent.device)
        self.parent, self.initial = parent, initial
        self.accumulator, self.names = names[0], names[1:]
        self.first: Value = None
        self.second: Value = None
        self.value: Value = None
        self.is_started = self.is_done = False

    def lookup(self, name: str) -> Value:
        """Return the value of a variable, or a failure."""
        if name == self.accumulator:
            if not self.is_started:
                self.is_started = True
                self.value = _make_mutable(self.initial.run(self.parent))
            return self.value
        if not self.is_done:
            if name == self.names[0]:
                return self.first
            if name == self.names[1]:
                return self.second
        return self.parent.lookup(name)

    def fold(self, value: Value) -> None:
        """Take what a step of the loop gave."""
        self.value, self.is_started = value, True


def _make_mutable(value: Value) -> Value:
    """Return a list or map that the loop can fill, for an empty one."""
    if isinstance(value, (list, tuple)) and not value:
        return MutableList()
    if isinstance(value, dict) and not value:
        return MutableMap()
    return value
