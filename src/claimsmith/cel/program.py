"""Compiled expressions: the public face of the engine.

Source: cel/compile.go and cel/cache.go in k8s.io/dynamic-resource-allocation v0.37.2.

Deviates: nesting, internal-error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from claimsmith.cel.ast import Call, Expr, walk
from claimsmith.cel.checker import CheckedExpression, check
from claimsmith.cel.codegen import Compiled, compile_function
from claimsmith.cel.codegen_support import FALLBACK
from claimsmith.cel.device import CelDevice
from claimsmith.cel.environment import DEFAULT, CelEnvironment
from claimsmith.cel.estimate import estimate_cost
from claimsmith.cel.frames import Failure, Frame, Step
from claimsmith.cel.interpreter import plan
from claimsmith.cel.meter import CostMeter
from claimsmith.cel.parser import parse
from claimsmith.cel.reads import DeviceRead, find_reads
from claimsmith.cel.types import ANY, BOOL, DYN, INT, SEMVER, STRING, CelType
from claimsmith.cel.validators import validate
from claimsmith.cel.values import Value, is_list, type_name
from claimsmith.errors import CelAbort, CelCompileError, CelCostError, CelCostLimitReached, CelRuntimeError
from claimsmith.model.device import AttributeKind, DeviceAttribute
from claimsmith.model.semver import Semver

COST_LIMIT: Final = 1_000_000
"""Largest cost of one evaluation, and largest estimate that the API allows. Source: CELSelectorExpressionMaxCost."""

MAX_EXPRESSION_BYTES: Final = 10 * 1024
"""Longest expression that the API allows, in UTF-8 bytes. Source: CELSelectorExpressionMaxLength."""

CACHE_SIZE: Final = 4096
"""How many compiled expressions are kept; upstream keeps 10."""

Purpose = Literal["selector", "derived-attribute", "part"]
"""What an expression is for: a selector gives a bool, a derived attribute a scalar or list, a part anything."""

ESTIMATE_MARGIN: Final = 4
"""How many times its estimate an evaluation may cost: upstream's estimates are no strict bounds."""

_EVALUATIONS_BEFORE_COMPILING: Final = 8
_ATTRIBUTE_TYPES: Final = (BOOL, INT, STRING, ANY, DYN, SEMVER)
_TOO_DEEP: Final = "nested too deeply for the calling program's stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one metered evaluation gave.

    Args:
        cost: Cost in upstream's units.
        value: The value; None when there is an error.
        error: Why there is no value.
    """

    cost: int
    value: Value = None
    error: CelRuntimeError | None = None


class Program:
    """An expression that is compiled, to be evaluated on many devices.

    Args:
        checked: The expression with its types.
        steps: The same for the interpreter.
    """

    __slots__ = ("_checked", "_compiled", "_countdown", "_estimate", "_node_count", "_steps", "text")

    def __init__(self, checked: CheckedExpression, steps: Step) -> None:
        self.text = checked.text
        self._checked, self._steps = checked, steps
        self._node_count = max(node.id for node in walk(checked.tree))
        self._estimate: int | None = None
        self._countdown = _EVALUATIONS_BEFORE_COMPILING
        self._compiled: Compiled = self._warm_up

    def __repr__(self) -> str:
        return f"Program({self.text!r})"

    @property
    def checked(self) -> CheckedExpression:
        """The expression with its types, for other evaluators; not to be changed."""
        return self._checked

    @property
    def environment(self) -> CelEnvironment:
        """The environment that the expression was compiled in."""
        return self._checked.environment

    @property
    def output_type(self) -> str:
        """The type of the result, as upstream names it: `bool`, `dyn`, …."""
        return str(self._checked.output_type)

    @property
    def estimated_cost(self) -> int:
        """The largest cost on any device that the API allows; the API refuses more than COST_LIMIT.

        Source: MaxCost of CompilationResult in compile.go.
        """
        if self._estimate is None:
            self._estimate = estimate_cost(self._checked)
        return self._estimate

    def evaluate(self, prepared: CelDevice) -> bool:
        """Tell whether a device matches.

        Raises:
            CelRuntimeError: The evaluation failed, costs too much (CelCostError), or gave no bool. Upstream then
                fails the whole allocation.
        """
        result = self._compiled(prepared)
        if result is True or result is False:
            return result
        value = self._evaluate_exactly(prepared)
        if value is True or value is False:
            return value
        raise CelRuntimeError(
            f"the result is of type {type_name(value)}, allowed bool",
            text=self.text,
            offset=0,
            hint="compare the value, as in … == true",
        )

    def evaluate_value(self, prepared: CelDevice) -> Value:
        """Return the value of the expression on a device, whatever its type.

        Raises:
            CelRuntimeError: The evaluation failed or costs too much (CelCostError).
        """
        result = self._compiled(prepared)
        return self._evaluate_exactly(prepared) if result is FALLBACK else result

    def evaluate_attribute(self, prepared: CelDevice) -> DeviceAttribute:
        """Return the value of a derived attribute on a device.

        Raises:
            CelRuntimeError: The evaluation failed, or its value can't be an attribute.

        Source: valToDeviceAttribute in compile.go.
        """
        value = self.evaluate_value(prepared)
        attribute = _to_attribute(value)
        if attribute is None:
            raise CelRuntimeError(
                f"the result is of type {type_name(value)}, allowed int, bool, string, version or a list of one",
                text=self.text,
                offset=0,
            )
        return attribute

    def measure(self, prepared: CelDevice, *, cost_limit: int = COST_LIMIT) -> Outcome:
        """Return the exact outcome of an evaluation together with its cost.

        Args:
            cost_limit: Largest cost, in upstream's units.

        Source: CostTracker in cel-go v0.29.2, interpreter/runtimecost.go.
        """
        meter = CostMeter(cost_limit, self._node_count)
        try:
            value = self._steps.run(Frame(meter, prepared.as_value()))
        except CelCostLimitReached:
            message = f"costs more than {cost_limit} on this device"
            error = CelCostError(message, text=self.text, offset=0, hint="use smaller lists or fewer nested loops")
            return Outcome(cost=meter.cost, error=error)
        except CelAbort as abort:
            return Outcome(cost=meter.cost, error=CelRuntimeError(str(abort), text=self.text, offset=0))
        except RecursionError:
            return Outcome(cost=meter.cost, error=CelRuntimeError(_TOO_DEEP, text=self.text, offset=0))
        if isinstance(value, Failure):
            return Outcome(cost=meter.cost, error=self._error(value))
        return Outcome(cost=meter.cost, value=value)

    def attributes_read(self) -> frozenset[DeviceRead]:
        """Return which fields, domains and ids of a device the expression reads."""
        return find_reads(self._checked.tree)

    def clauses(self) -> tuple[Program, ...]:
        """Return the parts joined by && at the top, in the order of the text, each as a program of its own."""
        parts = _split_conjunction(self._checked.tree)
        if len(parts) == 1:
            return (self,)
        texts = [self.text[part.start : part.end] for part in parts]
        return tuple(compile_expression(text, environment=self.environment, purpose="part") for text in texts)

    def _warm_up(self, prepared: CelDevice) -> Value:
        """Stand in for the compiled function, until it is worth making one."""
        del prepared
        self._countdown -= 1
        if self._countdown <= 0:
            is_cheap = self.estimated_cost * ESTIMATE_MARGIN <= COST_LIMIT
            compiled = compile_function(self._checked) if is_cheap else None
            self._compiled = compiled or _fall_back
        return FALLBACK

    def _evaluate_exactly(self, prepared: CelDevice) -> Value:
        outcome = self.measure(prepared)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def _error(self, failure: Failure) -> CelRuntimeError:
        """Return the error of a failed evaluation, with what to do about it."""
        hint = ""
        if failure.message.startswith("no such key: "):
            key = failure.message.removeprefix("no such key: ")
            hint = f"guard it with has(….{key}) && …, or give a default with ….?{key}.orValue(…)"
        elif failure.message.startswith("no such overload"):
            hint = _overload_hint(failure.message)
        return CelRuntimeError(failure.message, text=self.text, offset=max(failure.offset, 0), hint=hint)


def compile_expression(text: str, *, environment: CelEnvironment = DEFAULT, purpose: Purpose = "selector") -> Program:
    """Return the program of an expression; the same text gives the same program while it is remembered.

    Args:
        text: The expression; at most 100,000 characters here, MAX_EXPRESSION_BYTES in the API.
        environment: What the expression may use; the default is the scheduler's.
        purpose: Which types the result may have.

    Raises:
        CelCompileError: The expression is wrong whatever the device.

    Source: CompileCELExpression in compile.go.
    """
    return _compile(text, environment, purpose)


@lru_cache(maxsize=CACHE_SIZE)
def _compile(text: str, environment: CelEnvironment, purpose: Purpose) -> Program:
    try:
        checked = check(parse(text), text=text, environment=environment)
        validate(checked)
        _check_output(checked, purpose)
        return Program(checked, plan(checked))
    except RecursionError as error:
        raise CelCompileError(_TOO_DEEP, text=text, offset=0, hint="split the expression") from error


def _check_output(checked: CheckedExpression, purpose: Purpose) -> None:
    """Refuse a result of the wrong type. Source: validateOutputType in compile.go."""
    found, environment = checked.output_type, checked.environment
    if purpose == "part" or (purpose == "selector" and found in (BOOL, environment.attribute_type)):
        return
    if purpose == "selector":
        allowed = "bool, or an attribute that is a bool"
    else:
        allowed = "string, int, bool or semver"
        if environment.has_lists:
            allowed += ", or a list of one of them"
        if _is_attribute_type(found, with_lists=environment.has_lists):
            return
    offset = checked.tree.offset
    raise CelCompileError(f"the result is of type '{found.text}', allowed {allowed}", text=checked.text, offset=offset)


def _is_attribute_type(found: CelType, *, with_lists: bool) -> bool:
    if with_lists and found.kind == "list":
        found = found.params[0]
    return found in _ATTRIBUTE_TYPES


def _overload_hint(message: str) -> str:
    """Return what to do about values of a type that the expression doesn't expect."""
    if "kubernetes.Semver" in message:
        return 'compare versions with a.compareTo(semver("1.2.3")), a.isGreaterThan(b) or a.isLessThan(b)'
    if "kubernetes.Quantity" in message:
        return 'compare quantities with a.compareTo(quantity("10Gi")), a.isGreaterThan(b) or a.isLessThan(b)'
    return "the value on this device is of another type than the expression expects"


def _fall_back(prepared: CelDevice) -> Value:
    """Stand in for a compiled function where only the interpreter will do."""
    del prepared
    return FALLBACK


def _split_conjunction(tree: Expr) -> list[Expr]:
    """Return the nodes joined by && at the top, in the order of the text."""
    parts, pending = list[Expr](), [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == "_&&_":
            pending.extend(reversed(node.args))
        else:
            parts.append(node)
    return parts


_KINDS: Final[dict[type, AttributeKind]] = {bool: "bool", int: "int", str: "string", Semver: "version"}
_LIST_KINDS: Final[dict[type, AttributeKind]] = {bool: "bools", int: "ints", str: "strings", Semver: "versions"}


def _to_attribute(value: Value) -> DeviceAttribute | None:
    """Return a value as an attribute; None when it can't be one. An empty list is a list of strings."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return DeviceAttribute(kind, str(value) if kind == "version" else value)
    if not is_list(value):
        return None
    if not value:
        return DeviceAttribute("strings", ())
    list_kind = _LIST_KINDS.get(type(value[0]))
    if list_kind is None or any(type(item) is not type(value[0]) for item in value):
        return None
    return DeviceAttribute(list_kind, tuple(str(item) if list_kind == "versions" else item for item in value))
