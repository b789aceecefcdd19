"""Functions as the checker and the evaluators know them: overloads with types, and what runs them.

Source: common/decls/decls.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from claimsmith.cel.types import CelType
from claimsmith.cel.values import Value, matches_type, type_name
from claimsmith.errors import CelFault

Implementation = Callable[..., Value]
"""Takes the arguments of a call, the target first; raises CelFault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One signature of a function.

    Args:
        id: Upstream's name of the overload, which costs are looked up by.
        args: Types of the arguments; for methods the first is the target.
        is_method: True for `target.function(…)`, False for `function(…)`.
        run: What runs it; None where the function as a whole has one (`Function.run`) or the evaluator does it itself.
        is_guarded: False to let `run` judge the run-time types of its arguments.
    """

    id: str
    args: tuple[CelType, ...]
    result: CelType
    is_method: bool = False
    run: Implementation | None = None
    is_guarded: bool = True
    params: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = {name for a_type in (*self.args, self.result) for name in a_type.param_names()}
        object.__setattr__(self, "params", tuple(sorted(names)))

    def accepts(self, values: tuple[Value, ...]) -> bool:
        """Tell whether run-time arguments fit the signature."""
        if len(values) != len(self.args):
            return False
        return not self.is_guarded or all(map(matches_type, self.args, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with its overloads in the order in which they are tried.

    Args:
        run: What runs every overload, judging run-time types itself; None to choose by the overloads.
    """

    name: str
    overloads: tuple[Overload, ...]
    run: Implementation | None = None

    def select(self, overload_ids: tuple[str, ...]) -> tuple[Implementation, bool]:
        """Return what runs a call that was checked, and whether it stops at the first argument that fails.

        Source: Bindings in decls.go; planCall in interpreter/planner.go.
        """
        if self.run is not None:
            return self.run, False
        bound = [overload for overload in self.overloads if overload.run is not None]
        if len(overload_ids) == 1:
            chosen = [overload for overload in bound if overload.id == overload_ids[0]]
            if chosen:
                return _guard(self.name, chosen), False
        return _guard(self.name, bound), len(bound) > 1


def _guard(name: str, overloads: list[Overload]) -> Implementation:
    """Return a function that runs the first overload that fits its arguments."""

    def run(*values: Value) -> Value:
        for overload in overloads:
            if overload.accepts(values) and overload.run is not None:
                return overload.run(*values)
        raise CelFault(f"no such overload: {name}({', '.join(map(type_name, values))})")

    return run


@dataclass(slots=True, kw_only=True)
class Registry:
    """All functions of an environment, by name."""

    functions: dict[str, Function] = field(default_factory=dict)

    def add(self, functions: Iterable[Function]) -> None:
        """Add functions; overloads of a name that is known are added behind those it has."""
        for function in functions:
            known = self.functions.get(function.name)
            if known is not None:
                ids = {overload.id for overload in known.overloads}
                more = tuple(overload for overload in function.overloads if overload.id not in ids)
                function = Function(name=function.name, overloads=known.overloads + more, run=known.run or function.run)
            self.functions[function.name] = function


def function(name: str, *overloads: Overload, run: Implementation | None = None) -> Function:
    """Return a function; shorter to write than the class."""
    return Function(name=name, overloads=overloads, run=run)


def overload(
    overload_id: str, args: tuple[CelType, ...], result: CelType, run: Implementation | None = None
) -> Overload:
    """Return an overload that is called as `function(…)`."""
    return Overload(id=overload_id, args=args, result=result, run=run)


def method(overload_id: str, args: tuple[CelType, ...], result: CelType, run: Implementation | None = None) -> Overload:
    """Return an overload that is called as `target.function(…)`; the target is the first argument."""
    return Overload(id=overload_id, args=args, result=result, run=run, is_method=True)
