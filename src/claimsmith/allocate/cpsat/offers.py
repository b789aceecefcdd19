"""What a node offers to a part of a batch: for each claim the devices, told apart by the values that must match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind, Patterns
from claimsmith.allocate.prepared.plan import ClaimPlan, RequestGroup, RequestPlan
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX

__all__ = ["CELLS_MAX", "Cell", "Choice", "Offer", "find_elements", "find_offer"]

CELLS_MAX: Final = 64
"""Combinations of matching values of one claim on one node that the model tells apart."""

Element = tuple[str, object]
"""One value of an attribute, with its type."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """One alternative of a request, with the kinds of devices that serve it.

    Args:
        count: Devices that it takes.
        fixed: It takes every device of these kinds; else it may choose.
    """

    request: RequestPlan
    kinds: tuple[BatchKind, ...]
    count: int
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A claim on a node, with the value that each match constraint agrees on.

    Args:
        values: By place of the constraint; None where no device with a value is at hand.
        groups: For each request the alternatives that are possible.
    """

    claim: int
    values: Mapping[int, Element | None]
    groups: tuple[tuple[Choice, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offer:
    """A part on a node: the cells of each claim."""

    part: Part
    node: str
    claims: tuple[tuple[Cell, ...], ...]


@dataclass(slots=True, eq=False)
class _Finder:
    patterns: Patterns
    part: Part
    node: str
    obstacles: list[str] = field(default_factory=list)

    def find_cells(self, claim: ClaimPlan, place: int) -> tuple[Cell, ...]:
        """Return the cells of a claim; none when it can't be served."""
        matches = [position for position, item in enumerate(claim.constraints) if item.kind == "match"]
        domains = [self._find_domain(claim, position) or [None] for position in matches]
        total = 1
        for domain in domains:
            total *= len(domain)
        if total > CELLS_MAX:
            self.obstacles.append(f"{total} combinations of values that may match on node {self.node}")
            return ()
        cells = []
        for values in product(*domains):
            chosen = dict(zip(matches, values, strict=True))
            groups = tuple(tuple(self._find_choices(claim, group, chosen)) for group in claim.groups)
            if all(groups):
                cells.append(Cell(claim=place, values=chosen, groups=groups))
        return tuple(cells)

    def _find_domain(self, claim: ClaimPlan, position: int) -> list[Element | None]:
        """The values on which the devices of a claim may agree."""
        found: dict[Element | None, None] = {}
        for request in _list_bound(claim, position):
            for kind in self._list_kinds(request):
                found.update(dict.fromkeys(find_elements(claim, request, kind, position)))
        return list(found)

    def _find_choices(
        self, claim: ClaimPlan, group: RequestGroup, values: Mapping[int, Element | None]
    ) -> Iterator[Choice]:
        for request in group.alternatives:
            offered = self._list_kinds(request)
            fitting = tuple(kind for kind in offered if _fits(claim, request, kind, values))
            size = sum(kind.size for kind in fitting)
            if not request.takes_all:
                if size >= request.count:
                    yield Choice(request=request, kinds=fitting, count=request.count)
            elif offered and len(fitting) == len(offered) and size <= ALLOCATION_RESULTS_MAX:
                asked = (self.node, request.shape, True)
                if all(not (kind.answers[asked].blocked or kind.answers[asked].full) for kind in offered):
                    yield Choice(request=request, kinds=fitting, count=size, fixed=True)

    def _list_kinds(self, request: RequestPlan) -> list[BatchKind]:
        numbers = self.patterns.offered.get((self.node, request.shape, request.takes_all), ())
        return [self.patterns.kinds[number] for number in numbers]


def find_offer(patterns: Patterns, part: Part, node: str) -> Offer | str | None:
    """Return what a node offers to a part; None when that is not enough, a text when the model can't tell."""
    if node in patterns.closed.get(part.number, ()):
        return None
    finder = _Finder(patterns, part, node)
    claims = tuple(finder.find_cells(claim, place) for place, claim in enumerate(part.plan.claims))
    if finder.obstacles:
        return finder.obstacles[0]
    return Offer(part=part, node=node, claims=claims) if all(claims) else None


def find_elements(claim: ClaimPlan, request: RequestPlan, kind: BatchKind, position: int) -> frozenset[Element]:
    """Return the values of a device under a constraint of the claim; none when it can never satisfy it.

    A value that can't be compared satisfies a match when the device is the only one that is bound.
    """
    attribute = claim.constraints[position].attribute
    value = kind.values.get((attribute, request.derived.get(attribute, "")))
    if value is None:
        return frozenset()
    if value.kind:
        return frozenset((value.kind, item) for item in value.values)
    return frozenset({("", kind.number)}) if _binds_one(claim, position) else frozenset()


def _binds_one(claim: ClaimPlan, position: int) -> bool:
    """Whether the constraint binds a single device whatever is chosen."""
    bound = [group for group in claim.groups if any(position in plan.constraints for plan in group.alternatives)]
    return len(bound) == 1 and all(
        plan.count == 1 and not plan.takes_all for plan in bound[0].alternatives if position in plan.constraints
    )


def _list_bound(claim: ClaimPlan, position: int) -> Iterator[RequestPlan]:
    for group in claim.groups:
        for request in group.alternatives:
            if position in request.constraints:
                yield request


def _fits(claim: ClaimPlan, request: RequestPlan, kind: BatchKind, values: Mapping[int, Element | None]) -> bool:
    """Whether the device satisfies the constraints of the request, with the values that must match."""
    for position in request.constraints:
        elements = find_elements(claim, request, kind, position)
        if claim.constraints[position].kind == "match":
            if values[position] not in elements:
                return False
        elif not elements:
            return False
    return True
