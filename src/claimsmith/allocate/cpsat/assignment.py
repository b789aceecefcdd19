"""An answer as values of the model's variables, for the solver to start from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from claimsmith.allocate.cpsat.model import Chosen, PlacementModel, Use
from claimsmith.allocate.cpsat.offers import Cell, Offer
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId, RequestName

__all__ = ["assign"]


def assign(model: PlacementModel, solution: Solution) -> list[int]:
    """Return the values of the variables that an answer stands for; what the model can't say is left out."""
    assigner = _Assigner(model)
    for place in solution.order:
        assigner.add_member(place, solution)
    known = {variable for by_node in model.placed.values() for variable in by_node.values()}
    known.update(model.cells.values())
    known.update(chosen.variable for chosen in model.chosen)
    known.update(use.variable for use in model.uses if use.variable is not None)
    return model.linear.complete({variable: assigner.values[variable] for variable in known})


class _Assigner:
    def __init__(self, model: PlacementModel) -> None:
        self._model = model
        self._part_of = {place: part for part in model.parts.values() if part.claim is None for place in part.members}
        self._shared = {part.claim.ref: part for part in model.parts.values() if part.claim is not None}
        self._offers: dict[tuple[int, str], Offer] = {}
        self._chosen: dict[Cell, list[Chosen]] = defaultdict(list)
        for chosen in model.chosen:
            self._chosen[chosen.cell].append(chosen)
            self._offers[chosen.offer.part.number, chosen.offer.node] = chosen.offer
        self.values: Counter[int] = Counter()

    def add_member(self, place: int, solution: Solution) -> None:
        """Count a member and what was allocated for it."""
        placed, part = solution.placed[place], self._part_of.get(place)
        if placed is None or part is None or placed.node not in self._model.placed[part.number]:
            return
        self.values[self._model.placed[part.number][placed.node]] += 1
        own = self._list_own(place)
        for claim in placed.fresh:
            if claim.ref in self._shared:
                self._add_shared(self._shared[claim.ref], placed.node, claim)
            else:
                self._add_claim(part, placed.node, own.index(claim.ref), claim.allocation)

    def _list_own(self, place: int) -> list[ClaimRef]:
        claims = self._model.layout.members[place].claims
        refs = dict.fromkeys(claim.ref for claim in claims if claim.allocation is None)
        return [ref for ref in refs if ref not in self._shared]

    def _add_shared(self, part: Part, node: str, claim: ResourceClaim) -> None:
        variable = self._model.placed[part.number].get(node)
        if variable is not None:
            self.values[variable] += 1
            self._add_claim(part, node, 0, claim.allocation)

    def _add_claim(self, part: Part, node: str, place: int, allocation: AllocationResult | None) -> None:
        """Count the first cell whose alternatives and kinds are those of the allocation."""
        got: dict[RequestName, list[DeviceId]] = defaultdict(list)
        for result in allocation.results if allocation is not None else ():
            got[RequestName.parse(result.request)].append(result.device_id)
        offer = self._offers.get((part.number, node))
        for cell in offer.claims[place] if offer is not None else ():
            found = self._find_uses(cell, got)
            if found is not None:
                self._count(part, node, cell, found)
                return

    def _count(self, part: Part, node: str, cell: Cell, found: Iterable[tuple[Chosen, list[Use]]]) -> None:
        served = self._model.cells[cell]
        if served != self._model.placed[part.number][node]:
            self.values[served] += 1
        for chosen, uses in found:
            if chosen.variable != served:
                self.values[chosen.variable] += 1
            for use in uses:
                if use.variable is not None:
                    self.values[use.variable] += 1

    def _find_uses(
        self, cell: Cell, got: Mapping[RequestName, list[DeviceId]]
    ) -> list[tuple[Chosen, list[Use]]] | None:
        """The alternatives of the cell that were chosen, each with the kind of each device; None when it is another."""
        found = []
        for chosen in self._chosen[cell]:
            devices = got.get(chosen.choice.request.name, [])
            if not devices:
                continue
            kind_of = {record.id: use for use in self._model.uses_of[chosen] for record in use.kind.records}
            if any(device not in kind_of for device in devices):
                return None
            found.append((chosen, [kind_of[device] for device in devices]))
        return found if len(found) == len(got) == len(cell.groups) else None
