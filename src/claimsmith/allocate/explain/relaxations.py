"""What can be relaxed about a problem, one by one. A further kind is one more source of relaxations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from claimsmith.allocate.explain.case import NodeCase
from claimsmith.allocate.explain.draft import Draft, Place
from claimsmith.model.claim import DeviceRequest, SubRequest
from claimsmith.model.decision import ReasonKind

__all__ = ["CLAIM_SOURCES", "Part", "Relax", "Relaxation", "Source", "list_places"]

Part = Literal[
    "request", "count", "all", "gate", "use", "taint", "operations", "binding", "partitions", "group", "counter",
    "pool", "constraint", "capacity", "clause", "class-clause", "class",
]  # fmt: skip
"""What is relaxed. In this order things are tried to be done without: what holds now before what holds for good.

What a class rejects was never meant, so that of what is asked of it as well nothing need be said.
"""

Relax = Callable[[Draft, int], None]
"""Writes into a draft that only so many pieces are kept; 0 for none."""

_PARTS: Final[dict[Part, ReasonKind]] = {
    "request": "count",
    "count": "count",
    "all": "count",
    "gate": "feature-off",
    "use": "in-use",
    "taint": "taint",
    "operations": "node-operations",
    "binding": "binding-conditions",
    "partitions": "counter",
    "group": "compatibility-group",
    "counter": "counter",
    "pool": "pool-incomplete",
    "constraint": "constraint",
    "capacity": "capacity",
    "clause": "selector",
    "class-clause": "class-selector",
    "class": "no-class",
}
_ORDER: Final = {part: rank for rank, part in enumerate(_PARTS)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxation:
    """One thing that speaks against the claims and can be relaxed, all of it or by degrees. Compared by identity.

    Args:
        levels: How many equal pieces it has: devices of a count, equal devices in use; 1 for most.
        place: The alternative that it is about, or the claim with zeros; None when it is about devices.
        position: Of a clause or a constraint among its like.
        name: Of a class, capacity, pool, taint or the like; the text of a clause.
        subject: What its source needs to tell the reason; equal on nodes of a group where `key` is.
        uses: Positions of the uses that its pieces are.
        key: Identity, where it takes more than the fields above.
    """

    part: Part
    relax: Relax
    levels: int = 1
    place: Place | None = None
    position: int = 0
    name: str = ""
    subject: object = None
    uses: tuple[int, ...] = ()
    key: tuple[object, ...] = ()

    @property
    def id(self) -> tuple[object, ...]:
        """Identity among the relaxations of a node; the same on nodes that are equal."""
        return (self.part, *self.key) if self.key else (self.part, self.place, self.position, self.name)

    @property
    def is_passing(self) -> bool:
        """Whether it is so for the moment: devices in use, and taints."""
        return self.part in ("use", "taint")

    @property
    def kind(self) -> ReasonKind:
        """The kind of reason that it is."""
        return _PARTS[self.part]

    @property
    def rank(self) -> int:
        """Place in the order in which things are tried to be done without."""
        return _ORDER[self.part]


Source = Callable[[NodeCase], Iterable[Relaxation]]
"""Finds the relaxations of one kind."""


def list_places(case: NodeCase) -> Iterator[tuple[Place, DeviceRequest, SubRequest]]:
    """Give every alternative with its request and its place."""
    for claim, item in enumerate(case.claims):
        for place, request in enumerate(item.spec.requests):
            for number, spec in enumerate(request.alternatives):
                yield (claim, place, number), request, spec


def _find_requests(case: NodeCase) -> Iterator[Relaxation]:
    """The requests themselves, and how many devices they want."""
    for place, request, spec in list_places(case):
        single = not request.first_available and spec.allocation_mode != "All"
        if place[2] == 0 and not single:
            yield Relaxation(part="request", place=place, relax=_want_fewer(place, 0))
        if spec.allocation_mode == "All":
            yield Relaxation(part="all", place=place, relax=_note("some", place))
        elif single:
            yield Relaxation(part="count", place=place, relax=_want_fewer(place, 0), levels=spec.count)
        elif spec.count > 1:
            yield Relaxation(part="count", place=place, relax=_want_fewer(place, 1), levels=spec.count - 1)


def _note(edits: str, value: object) -> Relax:
    """Return what adds a value to one of a draft's sets of edits when nothing is kept."""

    def relax(draft: Draft, keep: int) -> None:
        if not keep:
            getattr(draft, edits).add(value)

    return relax


def _want_fewer(place: Place, least: int) -> Relax:
    """Return what lowers a count to what is kept, or leaves the request out."""

    def relax(draft: Draft, keep: int) -> None:
        if keep + least:
            draft.counts[place] = keep + least
        else:
            draft.gone.add(place[:2])

    return relax


def _find_clauses(case: NodeCase) -> Iterator[Relaxation]:
    """The clauses of the requests' selectors, and of their classes'."""
    for place, _, spec in list_places(case):
        for position, selector in enumerate(spec.selectors):
            relax = _note("clauses", (place, position))
            text = selector.expression or ""
            yield Relaxation(part="clause", place=place, position=position, name=text, relax=relax)
    for name, item in case.classes.items():
        for position, selector in enumerate(item.selectors):
            relax = _note("class_clauses", (name, position))
            text = selector.expression or ""
            key = (name, position)
            yield Relaxation(part="class-clause", position=position, name=text, subject=name, relax=relax, key=key)


def _find_missing_classes(case: NodeCase) -> Iterator[Relaxation]:
    """Classes that do not exist; relaxed, they are there and select everything."""
    for name in dict.fromkeys(spec.device_class for _, _, spec in list_places(case)):
        if name and name not in case.classes:
            relax = _note("made_classes", name)
            yield Relaxation(part="class", name=name, relax=relax)


def _find_constraints(case: NodeCase) -> Iterator[Relaxation]:
    for number, claim in enumerate(case.claims):
        for position, constraint in enumerate(claim.spec.constraints):
            relax = _note("constraints", (number, position))
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            yield Relaxation(
                part="constraint", place=(number, 0, 0), position=position, name=name, subject=constraint, relax=relax
            )


def _find_capacities(case: NodeCase) -> Iterator[Relaxation]:
    """Amounts that requests ask for; relaxed, they ask for nothing of it, and every device has at least that."""
    for place, _, spec in list_places(case):
        for name, amount in (spec.capacity or {}).items():
            relax = _ask_nothing(place, name)
            yield Relaxation(part="capacity", place=place, name=name, subject=amount, relax=relax)


def _ask_nothing(place: Place, name: str) -> Relax:
    def relax(draft: Draft, keep: int) -> None:
        if not keep:
            draft.amounts.add((place, name))
            draft.slices.lacking.add(name)

    return relax


def _find_gates(case: NodeCase) -> Iterator[Relaxation]:
    """Gates that are off, without which a claim can't be served at all."""
    features, wanted = case.features, dict[str, None]()
    for _, request, spec in list_places(case):
        needs = {
            "prioritized_list": bool(request.first_available),
            "consumable_capacity": spec.capacity is not None,
            "derived_attributes": bool(spec.derived_attributes),
            "admin_access": spec.admin_access is not None,
        }
        wanted.update((name, None) for name, need in needs.items() if need and not getattr(features, name))
    for name in wanted:
        yield Relaxation(part="gate", name=name, relax=_note("gates", name))


CLAIM_SOURCES: Final[tuple[Source, ...]] = (
    _find_requests,
    _find_gates,
    _find_constraints,
    _find_capacities,
    _find_clauses,
    _find_missing_classes,
)
"""What the claims themselves ask for."""
