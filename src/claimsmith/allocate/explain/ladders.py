"""What could be changed about each reason: ladders of changes, the smallest first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.explain.case import NodeCase, find_near_classes, split_clauses
from claimsmith.allocate.explain.comparisons import Comparison, Constant, find_comparison
from claimsmith.allocate.explain.context import ExplainContext
from claimsmith.allocate.explain.devices import format_amount
from claimsmith.allocate.explain.draft import Place
from claimsmith.allocate.explain.finding import NodeFinding
from claimsmith.allocate.explain.nearest_names import find_misspelt_key, find_nearest_name
from claimsmith.allocate.explain.obstacles import Obstacles
from claimsmith.allocate.explain.relaxations import Part, Relaxation
from claimsmith.allocate.explain.values import Change, Fix
from claimsmith.cel import CelDevice, CelEnvironment, compile_expression, prepare_device
from claimsmith.cel.ast import Call
from claimsmith.errors import CelCompileError, CelDeviceError, CelError
from claimsmith.model.claim import ResourceClaim, Selector, SubRequest
from claimsmith.model.quantity import Quantity

__all__ = ["STEPS_MAX", "Ladder", "Step", "build_fix", "find_ladder"]

OTHER_RANK: Final = 5
"""Place of changes after which devices of another sort are asked for: after claims that could go."""
STEPS_MAX: Final = 16
"""Steps of one ladder at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change and how it is told.

    Args:
        is_sure: Nodes that were alike before are alike after the change, so that solving it on one of them is enough.
        rank: Where it asks for more than the steps of its ladder do; None when it does not.
        equals: What has to equal which value after the change, so that it helps no node that has no such device.
    """

    change: Change
    text: str
    is_sure: bool = True
    rank: int | None = None
    equals: tuple[str, Constant] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Changes that relax one reason more and more.

    Args:
        rank: Ladders of a lower rank ask for less.
    """

    rank: int
    steps: tuple[Step, ...]


def find_ladder(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Ladder | None:
    """Return what could be changed about a reason; None when no change of the claims or the cluster is known.

    Args:
        findings: The nodes on which it is one of the reasons.
    """
    maker = _MAKERS.get(relaxation.part)
    if maker is None:
        return None
    rank, make = maker
    steps = tuple(make(relaxation, findings))
    return Ladder(rank=rank, steps=steps) if steps else None


def build_fix(text: str, nodes: tuple[str, ...], changes: tuple[Change, ...], context: ExplainContext) -> Fix:
    """Return a fix that says what is to be made anew.

    A claim's spec never changes: what was made from a template is made anew with whom it was made for.
    """
    origins = {change.claim: context.origins.get(change.claim) for change in changes if change.claim is not None}
    owners = dict.fromkeys(f"make {origin.owner} anew" for origin in origins.values() if origin and origin.is_made)
    changed = tuple(
        replace(change, template=origin.template)
        if change.claim is not None and (origin := origins[change.claim]) is not None
        else change
        for change in changes
    )
    return Fix(text="; then ".join((text, *owners)), nodes=nodes, changes=changed)


def _find_label(case: NodeCase, place: Place) -> str:
    """The name of an alternative as results have it."""
    request = case.claims[place[0]].spec.requests[place[1]]
    name = request.alternatives[place[2]].name
    return f"{request.name}/{name}" if request.first_available else request.name


def _find_claim(finding: NodeFinding, place: Place) -> ResourceClaim:
    return finding.case.asked[place[0]]


def _find_spec(finding: NodeFinding, place: Place) -> SubRequest:
    return _find_claim(finding, place).spec.requests[place[1]].alternatives[place[2]]


def _where(finding: NodeFinding, place: Place) -> str:
    subject = finding.case.context.name_claim(_find_claim(finding, place).ref)
    return f"{subject}, request {_find_label(finding.case, place)}"


# --- selectors --------------------------------------------------------------------------------------------------------


def _relax_clause(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    """The name that was meant, the nearest values that devices have, then the selector without the clause."""
    finding, place = findings[0], relaxation.place or (0, 0, 0)
    spec = _find_spec(finding, place)
    claim, label = _find_claim(finding, place).ref, _find_label(finding.case, place)
    comparison, values = _find_values(relaxation, findings)
    where = _where(finding, place)

    def change(new: str) -> Change:
        texts = _replace_clause(spec.selectors, relaxation.position, new, finding)
        return Change(op="set-selectors", claim=claim, request=label, value=texts)

    for wrong, right in _find_misspelt(relaxation, findings).items():
        new = re.sub(rf"\.{re.escape(wrong)}\b", f".{right}", relaxation.name)
        if new != relaxation.name:
            yield Step(change=change(new), text=f"{where}: read {right} instead of {wrong}", is_sure=False)
    if comparison is not None:
        for value in values:
            text = f"{where}: relax {relaxation.name} to {comparison.describe(value)}"
            rank = None if comparison.is_near(value) else OTHER_RANK
            equals = (comparison.operand, value) if comparison.operator == "==" else None
            relaxed = change(comparison.relax_to(value))
            yield Step(change=relaxed, text=text, is_sure=equals is None, rank=rank, equals=equals)
    yield Step(change=change(""), text=f"{where}: drop the selector {relaxation.name}", rank=OTHER_RANK)


def _find_misspelt(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> dict[str, str]:
    """The names that a clause reads and devices do not have, each with the nearest one that they have."""
    found: dict[str, str] = {}
    for finding in findings:
        obstacles = Obstacles(finding)
        for record in obstacles.find_fallen(relaxation):
            answer = obstacles.evaluate(relaxation, record)
            pair = find_misspelt_key(answer.message, record.device) if isinstance(answer, CelError) else None
            if pair is not None:
                found.setdefault(*pair)
    return found


def _relax_class_clause(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    """The nearest values of an order: a class that names a driver or a model is meant to."""
    finding, name = findings[0], str(relaxation.subject)
    comparison, values = _find_values(relaxation, findings)
    if comparison is None or comparison.operator == "==":
        return
    selectors = finding.case.cluster.classes[name].selectors
    for value in values:
        texts = _replace_clause(selectors, relaxation.position, comparison.relax_to(value), finding)
        text = f"class {name}: relax {relaxation.name} to {comparison.describe(value)}"
        yield Step(change=Change(op="set-class-selectors", name=name, value=texts), text=text)


def _find_values(
    relaxation: Relaxation, findings: Sequence[NodeFinding]
) -> tuple[Comparison | None, tuple[Constant, ...]]:
    """The comparison that the clause is, and the values of devices near its constant."""
    features = findings[0].case.features
    environment = CelEnvironment.for_stored_expressions(features)
    if findings[0].case.is_whole or not relaxation.name or not _compiles(relaxation.name, environment):
        return None, ()
    comparison = find_comparison(relaxation.name, environment)
    if comparison is None:
        return None, ()
    counts = Counter[Constant]()
    for finding in findings:
        if comparison.operator == "==" and finding.find_variants is not None:
            for variant in finding.find_variants(comparison.operand):
                counts.update(variant.values)
        else:
            counts.update(comparison.count_values(_prepare_devices(finding, environment), environment))
    return comparison, comparison.find_nearest(counts)


def _compiles(text: str, environment: CelEnvironment) -> bool:
    try:
        compile_expression(text, environment=environment, purpose="part")
    except CelCompileError:
        return False
    return True


def _prepare_devices(finding: NodeFinding, environment: CelEnvironment) -> Iterator[CelDevice]:
    for record in Obstacles(finding).devices:
        try:
            yield prepare_device(record.id.driver, record.device, environment=environment)
        except CelDeviceError:
            continue


def _replace_clause(selectors: Sequence[Selector], position: int, new: str, finding: NodeFinding) -> list[str]:
    """Return the expressions with one clause, counted over all of them, replaced or left out."""
    found, number = list[str](), 0
    for selector in selectors:
        text = selector.expression or ""
        clauses = [text] if finding.case.is_whole else list(split_clauses(text, finding.case.features))
        end = number + len(clauses)
        if number <= position < end:
            clauses[position - number : position - number + 1] = [new] if new else []
            found += [_join(clauses)] if clauses else []
        else:
            found.append(text)
        number = end
    return found


def _join(clauses: list[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    return " && ".join(f"({text})" if _is_loose(text) else text for text in clauses)


def _is_loose(text: str) -> bool:
    """Whether a clause binds its parts less tightly than `&&`."""
    tree = compile_expression(text, environment=CelEnvironment(list_attributes=True), purpose="part").checked.tree
    return isinstance(tree, Call) and tree.function in ("_||_", "_?_:_")


# --- counts and amounts -----------------------------------------------------------------------------------------------


def _lower_count(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    place = relaxation.place or (0, 0, 0)
    finding = findings[0]
    spec = _find_spec(finding, place)
    most = max(f.kept.get(relaxation_of(f, relaxation), 1) for f in findings)
    first = most - 1 + (0 if relaxation.levels == spec.count else 1)
    if finding.case.context.beside:
        first = spec.count - 1  # fewer for each pod of the gang, not for the one that is left over
    yield from _count_down(finding, place, first, instead=f"{spec.count}")


def _want_some(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    place = relaxation.place or (0, 0, 0)
    most = max(len(Obstacles(finding).find_usable(place)) for finding in findings)
    yield from _count_down(findings[0], place, min(most, 32), instead="all")


def _count_down(finding: NodeFinding, place: Place, first: int, *, instead: str) -> Iterator[Step]:
    claim, label = _find_claim(finding, place).ref, _find_label(finding.case, place)
    for count in range(first, max(first - STEPS_MAX, 0), -1):
        change = Change(op="set-count", claim=claim, request=label, value=count)
        devices = "1 device" if count == 1 else f"{count} devices"
        yield Step(change=change, text=f"{_where(finding, place)}: ask for {devices} instead of {instead}")


def relaxation_of(finding: NodeFinding, relaxation: Relaxation) -> Relaxation:
    """Return the relaxation of the same identity on another node; itself when there is none."""
    return next((other for other in finding.kept if other.id == relaxation.id), relaxation)


def _lower_amount(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    """The capacity that was meant, then the amounts that devices have left, the largest first."""
    place, name, asked = relaxation.place or (0, 0, 0), relaxation.name, relaxation.subject
    if not isinstance(asked, Quantity):
        return
    yield from _rename_capacity(findings, place, name)
    rests: dict[int, Quantity] = {}
    for finding in findings:
        for record in Obstacles(finding).devices:
            capacity = record.device.capacity.get(name)
            left = capacity.value.nanos - record.use.consumed.get(name, 0) if capacity else 0
            if capacity is not None and 0 < left < asked.nanos:
                rests[left] = capacity.value
    claim, label = _find_claim(findings[0], place).ref, _find_label(findings[0].case, place)
    for nanos in sorted(rests, reverse=True)[:STEPS_MAX]:
        amount = format_amount(nanos, like=rests[nanos])
        change = Change(op="set-capacity", claim=claim, request=label, name=name, value=amount)
        yield Step(change=change, text=f"{_where(findings[0], place)}: ask for {amount} of {name} instead of {asked}")


def _rename_capacity(findings: Sequence[NodeFinding], place: Place, name: str) -> Iterator[Step]:
    """The nearest name of a capacity that devices of the class have."""
    known = {
        capacity
        for finding in findings
        for obstacles in (Obstacles(finding),)
        for record in obstacles.devices
        if obstacles.is_meant(record, place)
        for capacity in record.device.capacity
    }
    near = find_nearest_name(name, known)
    if near:
        claim, label = _find_claim(findings[0], place).ref, _find_label(findings[0].case, place)
        change = Change(op="rename-capacity", claim=claim, request=label, name=name, value=near)
        yield Step(change=change, text=f"{_where(findings[0], place)}: ask for {near} instead of {name}", is_sure=False)


# --- the rest ---------------------------------------------------------------------------------------------------------


def _drop_constraint(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    claim = _find_claim(findings[0], relaxation.place or (0, 0, 0)).ref
    constraint = findings[0].case.asked[(relaxation.place or (0, 0, 0))[0]].spec.constraints[relaxation.position]
    subject = findings[0].case.context.name_claim(claim)
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    change = Change(op="remove-constraint", claim=claim, name=relaxation.name, value=relaxation.position)
    yield Step(change=change, text=f"{subject}: drop the {kind} {relaxation.name}")


def _tolerate(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    del findings
    if not isinstance(relaxation.subject, tuple):
        return
    key, value, effect = (str(part) for part in relaxation.subject)
    operator = "Equal" if value else "Exists"
    toleration = {"key": key, "operator": operator, "value": value, "effect": effect}
    yield Step(change=Change(op="tolerate", value=toleration), text=f"tolerate the taint {relaxation.name}")


def _complete_pool(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    del findings
    change = Change(op="complete-pool", name=relaxation.name)
    yield Step(change=change, text=f"let the driver publish pool {relaxation.name} in full and without contradictions")


def _enable_gate(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    del findings
    change = Change(op="enable-gate", name=relaxation.name)
    yield Step(change=change, text=f"turn on the feature gate for {relaxation.name.replace('_', ' ')}")


def _rename_class(relaxation: Relaxation, findings: Sequence[NodeFinding]) -> Iterator[Step]:
    """Classes of nearly the same name."""
    finding = findings[0]
    for name in find_near_classes(relaxation.name, finding.case.cluster.classes):
        for place, spec in _list_specs(finding):
            if spec.device_class == relaxation.name:
                claim, label = _find_claim(finding, place).ref, _find_label(finding.case, place)
                change = Change(op="set-class", claim=claim, request=label, value=name)
                text = f"{_where(finding, place)}: name class {name} instead of {relaxation.name}"
                yield Step(change=change, text=text)


def _list_specs(finding: NodeFinding) -> Iterator[tuple[Place, SubRequest]]:
    for claim, item in enumerate(finding.case.asked):
        for place, request in enumerate(item.spec.requests):
            for number, spec in enumerate(request.alternatives):
                yield (claim, place, number), spec


_MAKERS: Final[dict[Part, tuple[int, Callable[[Relaxation, Sequence[NodeFinding]], Iterator[Step]]]]] = {
    "taint": (0, _tolerate),
    "clause": (1, _relax_clause),
    "count": (2, _lower_count),
    "all": (2, _want_some),
    "capacity": (3, _lower_amount),
    "constraint": (5, _drop_constraint),
    "class": (6, _rename_class),
    "class-clause": (7, _relax_class_clause),
    "pool": (8, _complete_pool),
    "gate": (9, _enable_gate),
}
