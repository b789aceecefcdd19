"""The exact evaluator: runs a checked tree step by step, with upstream's costs, failures and their places.

It is the authority on what an expression means; the compiled form of `codegen` is a faster way to the same values.

Source: interpreter/planner.go, interpretable.go and decorators.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from claimsmith.cel.attributes import (
    Attribute,
    AttributeStep,
    ComputedQualifier,
    ConditionalAttribute,
    ConstantQualifier,
    Qualifier,
    StepAttribute,
    VariableAttribute,
    VariableStep,
)  # fmt: skip
from claimsmith.cel.checker import CheckedExpression
from claimsmith.cel.conversions import CONVERSION_NAMES
from claimsmith.cel.declarations import Implementation
from claimsmith.cel.frames import Failure, Frame, LoopFrame, Step
from claimsmith.cel.lib_regex import PATTERN_FUNCTIONS, compile_pattern
from claimsmith.cel.meter import LIST_COST, MAP_COST, CallCost, find_call_cost
from claimsmith.cel.values import (
    MutableList,
    MutableMap,
    Optional,
    TypeValue,
    Uint,
    Value,
    equals,
    from_key,
    is_list,
    is_map,
    is_member,
    to_key,
    type_name,
)  # fmt: skip
from claimsmith.errors import CelCompileError, CelFault

_NO_OVERLOAD: Final = "no such overload"
_KEY_TYPES: Final = frozenset({str, int, Uint, bool, float})
_SET_TYPES: Final = frozenset({str, int, Uint, bool, float})


def plan(checked: CheckedExpression) -> Step:
    """Return the steps of a checked expression, with constants folded as upstream folds them.

    Raises:
        CelCompileError: A conversion of a constant fails, or a constant pattern is wrong.
    """
    return _Planner(checked=checked).plan(checked.tree)


@dataclass(slots=True, kw_only=True)
class ConstantStep:
    """A constant, which costs nothing."""

    id: int
    value: Value

    def run(self, frame: Frame) -> Value:
        """Return the constant."""
        frame.meter.push(self.id, self.value)
        return self.value


@dataclass(slots=True, kw_only=True)
class LogicStep:
    """&& or ||: the side that decides wins, also over a failure of the other."""

    id: int
    offset: int
    terms: list[Step]
    deciding: bool

    def run(self, frame: Frame) -> Value:
        """Return True, False or the first failure."""
        result: Value = not self.deciding
        for term in self.terms:
            value = term.run(frame)
            if value is self.deciding:
                result = value
                break
            if value is not True and value is not False and not isinstance(result, Failure):
                result = value if isinstance(value, Failure) else Failure(_NO_OVERLOAD, self.offset)
        for term in self.terms:
            frame.meter.drop(term.id)
        frame.meter.push(self.id, result)
        return result


@dataclass(slots=True, kw_only=True)
class CallStep:
    """A call: all arguments first, then the function, unless an argument fails.

    Args:
        overload_id: The overload if only one is possible, else empty.
        stops_early: True to leave arguments behind a failed one alone.
    """

    id: int
    offset: int
    function: str
    overload_id: str
    args: list[Step]
    implementation: Implementation
    stops_early: bool = False
    arg_ids: list[int] = field(init=False)
    cost: CallCost = field(init=False)

    def __post_init__(self) -> None:
        self.arg_ids = [arg.id for arg in self.args]
        self.cost = find_call_cost(self.function, self.overload_id)

    def run(self, frame: Frame) -> Value:
        """Return the result of the call, or the failure of its first argument that fails."""
        values: list[Value] = []
        failure: Failure | None = None
        for arg in self.args:
            value = arg.run(frame)
            values.append(value)
            if failure is None and isinstance(value, Failure):
                failure = value
                if self.stops_early:
                    break
        result: Value = failure if failure is not None else self.call(values)
        self.observe(frame, result)
        return result

    def call(self, values: list[Value]) -> Value:
        """Run the function."""
        try:
            return self.implementation(*values)
        except CelFault as fault:
            message = fault.message
            if message == _NO_OVERLOAD:
                name = self.function.strip("_@")
                message = f"{message}: {name!r} on {' and '.join(map(type_name, values))}"
            return Failure(message, self.offset)

    def observe(self, frame: Frame, result: Value) -> None:
        """Count the call."""
        meter = frame.meter
        args = meter.take_args(self.arg_ids)
        if args is not None:
            meter.cost += self.cost(args, result)
        meter.push(self.id, result)


@dataclass(slots=True, kw_only=True)
class NotFalseStep(CallStep):
    """`@not_strictly_false`: what a loop goes on with; failures are not false."""

    def run(self, frame: Frame) -> Value:
        """Return the bool, or True for anything else."""
        value = self.args[0].run(frame)
        result = value if value is False else True
        self.observe(frame, result)
        return result


@dataclass(slots=True, kw_only=True)
class OptionalOrStep:
    """`optional.or(other)` and `optional.orValue(other)`: the other only when there is no value."""

    id: int
    offset: int
    optional: Step
    other: Step
    unwraps: bool

    def run(self, frame: Frame) -> Value:
        """Return the optional, its value, or the other."""
        value = self.optional.run(frame)
        if type(value) is Optional:
            if value.present:
                value = value.value if self.unwraps else value
            else:
                value = self.other.run(frame)
        elif not isinstance(value, Failure):
            value = Failure(_NO_OVERLOAD, self.offset)
        frame.meter.push(self.id, value)
        return value


@dataclass(slots=True, kw_only=True)
class MembershipStep:
    """`x in [constants]`, which costs nothing beyond x."""

    id: int
    element: Step
    keys: frozenset[Value]

    def run(self, frame: Frame) -> Value:
        """Tell whether the element is one of the constants."""
        value = self.element.run(frame)
        if not isinstance(value, Failure):
            value = is_member(value, self.keys)
        frame.meter.push(self.id, value)
        return value


@dataclass(slots=True, kw_only=True)
class ListStep:
    """`[a, b]`."""

    id: int
    offset: int
    elements: list[Step]
    optional: frozenset[int]

    def run(self, frame: Frame) -> Value:
        """Return the list, or the first failure."""
        result = self.collect(frame)
        frame.meter.take_args([element.id for element in self.elements])
        frame.meter.cost += LIST_COST
        frame.meter.push(self.id, result)
        return result

    def collect(self, frame: Frame) -> Value:
        """Run the elements."""
        values: list[Value] = []
        for index, element in enumerate(self.elements):
            value = element.run(frame)
            if isinstance(value, Failure):
                return value
            if index in self.optional:
                if type(value) is not Optional:
                    return Failure("cannot initialize optional list element from non-optional value", self.offset)
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values


@dataclass(slots=True, kw_only=True)
class MapStep:
    """`{key: value}`."""

    id: int
    offset: int
    entries: list[tuple[Step, Step, bool]]

    def run(self, frame: Frame) -> Value:
        """Return the map, or the first failure."""
        result = self.collect(frame)
        frame.meter.take_args([step.id for key, value, _ in self.entries for step in (key, value)])
        frame.meter.cost += MAP_COST
        frame.meter.push(self.id, result)
        return result

    def collect(self, frame: Frame) -> Value:
        """Run the entries."""
        values: dict[Value, Value] = {}
        for key_step, value_step, is_optional in self.entries:
            key = key_step.run(frame)
            if isinstance(key, Failure):
                return key
            value = value_step.run(frame)
            if isinstance(value, Failure):
                return value
            if type(key) not in _KEY_TYPES:
                return Failure("unsupported type of a map key", self.offset)
            if is_optional:
                if type(value) is not Optional:
                    return Failure("cannot initialize optional entry from non-optional value", self.offset)
                if not value.present:
                    values.pop(to_key(key), None)
                    continue
                value = value.value
            values[to_key(key)] = value
        return values


@dataclass(slots=True, kw_only=True)
class LoopStep:
    """A loop of a macro."""

    id: int
    offset: int
    names: tuple[str, str, str]
    range: Step
    initial: Step
    condition: Step
    step: Step
    result: Step

    def run(self, frame: Frame) -> Value:
        """Return what the loop folds its elements into, or a failure."""
        ranged = self.range.run(frame)
        result = ranged if isinstance(ranged, Failure) else self.fold(frame, ranged)
        frame.meter.drop(self.range.id)
        frame.meter.push(self.id, result)
        return result

    def fold(self, frame: Frame, ranged: Value) -> Value:
        """Run the loop over a list or map."""
        if not is_list(ranged) and not is_map(ranged):
            return Failure("expected iterable type", self.offset)
        loop = LoopFrame(frame, self.names, self.initial)
        for first, second in self.pairs(ranged):
            loop.first, loop.second = first, second
            condition = self.condition.run(loop)
            if condition is False:
                break
            loop.fold(self.step.run(loop))
        loop.is_done = True
        result = self.result.run(loop)
        if type(result) is MutableList:
            return list(result)
        if type(result) is MutableMap:
            return dict(result)
        return result

    def pairs(self, ranged: Value) -> list[tuple[Value, Value]]:
        """Return the values of the loop's variables, one pair for each turn."""
        if is_map(ranged):
            return [(from_key(key), value) for key, value in ranged.items()]
        if self.names[2]:
            return list(enumerate(ranged))
        return [(value, None) for value in ranged]


@dataclass(slots=True, kw_only=True)
class _Planner:
    """Makes the steps of one expression."""

    checked: CheckedExpression

    def plan(self, expr: Expr) -> Step:
        """Return the step of a node."""
        if isinstance(expr, Call):
            return self.plan_call(expr)
        if isinstance(expr, Select):
            return self.plan_select(expr)
        if isinstance(expr, Ident):
            return self.plan_ident(expr)
        if isinstance(expr, Literal):
            return ConstantStep(id=expr.id, value=expr.value)
        if isinstance(expr, ListExpr):
            return self.plan_list(expr)
        if isinstance(expr, MapExpr):
            return self.plan_map(expr)
        if isinstance(expr, Comprehension):
            return self.plan_loop(expr)
        raise self.refuse(expr, "messages can't be made")

    def refuse(self, expr: Expr, message: str) -> CelCompileError:
        """Return the error of a part that fails on every device."""
        return CelCompileError(message, text=self.checked.text, offset=expr.offset)

    def plan_ident(self, expr: Ident) -> Step:
        """A variable, or a type as a constant."""
        if expr.id in self.checked.type_idents:
            return ConstantStep(id=expr.id, value=TypeValue(self.checked.type_idents[expr.id]))
        return VariableStep(id=expr.id, name=expr.name, offset=expr.offset)

    def as_attribute(self, step: Step, offset: int) -> AttributeStep:
        """Return a step that qualifiers can be added to."""
        if isinstance(step, AttributeStep) and not step.test_only:
            return step
        return AttributeStep(attribute=_to_attribute(step), offset=offset)

    def plan_select(self, expr: Select) -> Step:
        """`operand.field` or has()."""
        step = self.as_attribute(self.plan(expr.operand), expr.offset)
        step.attribute.add(ConstantQualifier(id=expr.id, key=expr.field, test_only=expr.test_only))
        step.offset = expr.offset
        step.test_only = expr.test_only
        return step

    def plan_index(self, expr: Call, *, is_optional: bool) -> Step:
        """`operand[index]`, `operand[?index]` or `operand.?field`."""
        step = self.as_attribute(self.plan(expr.args[0]), expr.offset)
        step.attribute.add(self.qualifier(expr, self.plan(expr.args[1]), is_optional=is_optional))
        step.offset = expr.offset
        return step

    def qualifier(self, expr: Call, index: Step, *, is_optional: bool) -> Qualifier:
        """Return the qualifier of an index. Source: NewQualifier in attributes.go."""
        if isinstance(index, ConstantStep):
            if type(index.value) not in _KEY_TYPES:
                raise self.refuse(expr, f"an index can't be of type {type_name(index.value)}")
            return ConstantQualifier(id=expr.id, key=index.value, is_optional=is_optional)
        if isinstance(index, AttributeStep | VariableStep):
            return ComputedQualifier(id=expr.id, attribute=_to_attribute(index), is_optional=is_optional)
        relative = StepAttribute(node_id=expr.id, operand=index)
        return ComputedQualifier(id=expr.id, attribute=relative, is_optional=is_optional, drops=True)

    def plan_call(self, expr: Call) -> Step:
        """A function, method or operator."""
        special = _SPECIAL_CALLS.get(expr.function)
        if special is not None:
            return special(self, expr)
        parts = [expr.target, *expr.args] if expr.target is not None else expr.args
        args = [self.plan(part) for part in parts]
        ids = self.checked.overloads[expr.id]
        overload_id = ids[0] if len(ids) == 1 else ""
        implementation, stops_early = self.checked.environment.functions()[expr.function].select(ids)
        step = CallStep(
            id=expr.id, offset=expr.offset, function=expr.function, overload_id=overload_id, args=args,
            implementation=implementation, stops_early=stops_early or len(args) > 2 or expr.function == "format",
        )  # fmt: skip
        return self.optimize(expr, step)

    def optimize(self, expr: Call, step: CallStep) -> Step:
        """Fold what upstream folds when it makes the program. Source: decorators.go."""
        args = step.args
        if step.function in CONVERSION_NAMES and len(args) == 1 and isinstance(args[0], ConstantStep):
            value = step.call([args[0].value])
            if isinstance(value, Failure):
                raise self.refuse(expr, value.message)
            return ConstantStep(id=step.id, value=value)
        if step.overload_id == "in_list" and isinstance(args[1], ConstantStep):
            return self.membership(step, args[1].value)
        if step.function in PATTERN_FUNCTIONS and isinstance(args[1], ConstantStep) and type(args[1].value) is str:
            try:
                compile_pattern(args[1].value)
            except CelFault as fault:
                raise self.refuse(expr, fault.message) from fault
            step.stops_early = True
        return step

    def membership(self, step: CallStep, values: list[Value]) -> Step:
        """`x in [constants]`."""
        if not values:
            return ConstantStep(id=step.id, value=False)
        if any(type(value) not in _SET_TYPES for value in values):
            return step
        return MembershipStep(id=step.id, element=step.args[0], keys=frozenset(map(to_key, values)))

    def plan_logic(self, expr: Call) -> Step:
        """&& or ||."""
        terms = [self.plan(arg) for arg in expr.args]
        return LogicStep(id=expr.id, offset=expr.offset, terms=terms, deciding=expr.function == "_||_")

    def plan_conditional(self, expr: Call) -> Step:
        """`condition ? one : other`."""
        condition, one, other = (self.plan(arg) for arg in expr.args)
        attribute = ConditionalAttribute(
            node_id=expr.id, condition=condition, one=_to_attribute(one), other=_to_attribute(other)
        )
        return AttributeStep(attribute=attribute, offset=expr.offset)

    def plan_equality(self, expr: Call) -> Step:
        """== or !=."""
        function, overload_id = expr.function, "equals" if expr.function == "_==_" else "not_equals"
        return CallStep(
            id=expr.id, offset=expr.offset, function=function, overload_id=overload_id,
            args=[self.plan(arg) for arg in expr.args], implementation=equals if function == "_==_" else _differs,
        )  # fmt: skip

    def plan_not_false(self, expr: Call) -> Step:
        """The condition of a loop."""
        return NotFalseStep(
            id=expr.id, offset=expr.offset, function=expr.function, overload_id="not_strictly_false",
            args=[self.plan(expr.args[0])], implementation=_differs,
        )  # fmt: skip

    def plan_optional_or(self, expr: Call) -> Step:
        """`optional.or(other)` or `optional.orValue(other)`."""
        assert expr.target is not None
        return OptionalOrStep(
            id=expr.id, offset=expr.offset, optional=self.plan(expr.target), other=self.plan(expr.args[0]),
            unwraps=expr.function == "orValue",
        )  # fmt: skip

    def plan_list(self, expr: ListExpr) -> Step:
        """`[a, b]`; a constant if all elements are."""
        elements = [self.plan(element) for element in expr.elements]
        if all(isinstance(element, ConstantStep) for element in elements) and not expr.optional:
            return ConstantStep(id=expr.id, value=[step.value for step in elements if isinstance(step, ConstantStep)])
        return ListStep(id=expr.id, offset=expr.offset, elements=elements, optional=expr.optional)

    def plan_map(self, expr: MapExpr) -> Step:
        """`{key: value}`; a constant if all keys and values are."""
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in expr.entries]
        constants = [
            (key.value, value.value)
            for key, value, optional in entries
            if isinstance(key, ConstantStep) and isinstance(value, ConstantStep) and not optional
        ]
        if len(constants) == len(entries) and all(type(key) in _KEY_TYPES for key, _ in constants):
            return ConstantStep(id=expr.id, value={to_key(key): value for key, value in constants})
        return MapStep(id=expr.id, offset=expr.offset, entries=entries)

    def plan_loop(self, expr: Comprehension) -> Step:
        """A loop of a macro."""
        return LoopStep(
            id=expr.id, offset=expr.offset, names=(expr.accumulator, expr.variable, expr.variable2),
            range=self.plan(expr.range), initial=self.plan(expr.initial), condition=self.plan(expr.condition),
            step=self.plan(expr.step), result=self.plan(expr.result),
        )  # fmt: skip


def _to_attribute(step: Step) -> Attribute:
    if isinstance(step, AttributeStep):
        return step.attribute
    if isinstance(step, VariableStep):
        return VariableAttribute(node_id=step.id, name=step.name)
    return StepAttribute(node_id=step.id, operand=step)


def _differs(left: Value, right: Value) -> bool:
    """`left != right`; upstream takes values that can't be compared for different."""
    try:
        return not equals(left, right)
    except CelFault:
        return True


_SPECIAL_CALLS: Final[dict[str, Callable[[_Planner, Call], Step]]] = {
    "_&&_": _Planner.plan_logic,
    "_||_": _Planner.plan_logic,
    "_?_:_": _Planner.plan_conditional,
    "_==_": _Planner.plan_equality,
    "_!=_": _Planner.plan_equality,
    "_[_]": lambda planner, expr: planner.plan_index(expr, is_optional=False),
    "_[?_]": lambda planner, expr: planner.plan_index(expr, is_optional=True),
    "_?._": lambda planner, expr: planner.plan_index(expr, is_optional=True),
    "@not_strictly_false": _Planner.plan_not_false,
    "or": _Planner.plan_optional_or,
    "orValue": _Planner.plan_optional_or,
}
