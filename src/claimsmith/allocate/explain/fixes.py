"""The nearest changes with which the claims fit, each found out by solving again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.devices import NAMES_SHOWN
from claimsmith.allocate.explain.finding import NodeFinding, Variant
from claimsmith.allocate.explain.ladders import Step, build_fix, find_ladder
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.explain.values import Change, Fix
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.decision import Allocation
from claimsmith.model.names import ClaimRef
from claimsmith.model.pool import ResourceSlice

__all__ = [
    "FIXES_MAX",
    "FREE_RANK",
    "HOLDERS_MAX",
    "NODE_RANK",
    "FixFinder",
    "NodePart",
    "NodeSet",
    "join_names",
    "list_kept",
    "word_choice",
    "word_together",
]

FIXES_MAX: Final = 8
"""Fixes that are told."""
SEARCHES_MAX: Final = 400
"""Searches after which no further fix is looked for."""
PARTS_MAX: Final = 12
"""Groups of nodes with the same reasons that a fix is tried on; it is not claimed for the others."""
VARIANTS_MAX: Final = 32
"""Groups of nodes with the same value of what a clause compares that a fix is tried on."""
HOLDERS_MAX: Final = 16
"""Claims that are tried one by one whether their going is enough."""
FREE_RANK: Final = 4
"""Place of claims that have to go among the ladders."""
NODE_RANK: Final = 10
"""Place of further nodes among the ladders."""
_BOTH_RANK: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """Nodes that are alike in all that decides, who holds what included.

    Args:
        reopen: Gives one of them with the claims, to be solved.
    """

    nodes: tuple[str, ...]
    reopen: Callable[[], NodeFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """Nodes with the same reasons, and what was found on the first of them.

    Args:
        parts: The nodes in groups that differ in who holds what and in taints; empty when all are alike.
    """

    nodes: tuple[str, ...]
    finding: NodeFinding
    parts: tuple[NodePart, ...] = ()


@dataclass(slots=True, eq=False)
class FixFinder:
    """Looks for fixes for the claims on all nodes.

    Attributes:
        searches: How often was searched.
    """

    sets: Sequence[NodeSet]
    searches: int = 0
    _opened: dict[int, NodeFinding] = field(default_factory=dict)
    _found: list[tuple[int, Fix]] = field(default_factory=list)

    def find(self) -> tuple[Fix, ...]:
        """Return fixes, those first that ask for the least and help on the most nodes."""
        for relaxation, sets in list_kept(self.sets):
            self._climb(relaxation, sets)
        for item in self.sets:
            if any(relaxation.part == "use" for relaxation in item.finding.kept):
                self._free(item)
        self._add_node()
        if not self._found:
            self._combine()
        self._found.sort(key=lambda entry: (entry[0], -len(entry[1].nodes)))
        fixes = {fix.text: fix for _, fix in reversed(self._found)}
        return tuple(reversed(fixes.values()))[:FIXES_MAX]

    def helps(self, changes: Iterable[Change], item: NodeSet) -> bool:
        """Tell whether the claims fit on the first of the nodes with the changes."""
        problem = apply_changes(self._base(item.finding), changes)
        return self._solves(item.finding, problem)

    def find_nodes(self, changes: Sequence[Change], item: NodeSet) -> tuple[str, ...]:
        """Return the nodes on which the claims fit with the changes."""
        if not item.parts:
            return item.nodes if self.helps(changes, item) else ()
        if not self._may_help(changes, item.finding):
            return ()
        self._opened.setdefault(id(item.parts[0]), item.finding)
        return tuple(self._find_alike_nodes(changes, item.parts[:PARTS_MAX]))

    def _find_alike_nodes(self, changes: Sequence[Change], parts: Sequence[NodePart | Variant]) -> Iterator[str]:
        """Give the nodes of those groups of which the first node fits with the changes."""
        for part in parts:
            if self.searches >= SEARCHES_MAX:
                return
            finding = self._opened.get(id(part))
            if finding is None:
                finding = self._opened[id(part)] = part.reopen()
            if self._solves(finding, apply_changes(self._base(finding), changes)):
                yield from part.nodes

    def _find_step_nodes(self, step: Step, item: NodeSet) -> tuple[str, ...]:
        if step.is_sure:
            return self.find_nodes((step.change,), item)
        if step.equals is not None and item.finding.find_variants is not None:
            operand, value = step.equals
            having = [variant for variant in item.finding.find_variants(operand) if value in variant.values]
            return tuple(self._find_alike_nodes((step.change,), having[:VARIANTS_MAX]))
        return item.nodes[:1] if self.helps((step.change,), item) else ()

    def _may_help(self, changes: Sequence[Change], finding: NodeFinding) -> bool:
        """Whether the claims fit with the changes if nothing is in use and no device is tainted."""
        passing = {relaxation: 0 for relaxation in finding.relaxations if relaxation.is_passing}
        free = finding.oracle.draft(passing).build()
        problem = replace(self._base(finding), slices=free.slices, allocated=())
        return self._solves(finding, apply_changes(problem, changes))

    def _solves(self, finding: NodeFinding, problem: AllocationProblem) -> bool:
        self.searches += 1
        return isinstance(finding.oracle.decide(problem), Allocation)

    def _base(self, finding: NodeFinding) -> AllocationProblem:
        """The problem as it was asked, nothing relaxed and no selector split."""
        case = finding.case
        classes = case.cluster.classes
        return replace(case.problem, claims=case.asked, classes=dict(classes))

    def _climb(self, relaxation: Relaxation, sets: list[NodeSet]) -> None:
        """Take the first step that helps on any node."""
        ladder = find_ladder(relaxation, [item.finding for item in sets])
        for step in ladder.steps if ladder else ():
            if self.searches >= SEARCHES_MAX:
                return
            nodes = tuple(name for item in sets for name in self._find_step_nodes(step, item))
            if nodes and ladder is not None:
                rank = ladder.rank if step.rank is None else step.rank
                fix = build_fix(step.text, nodes, (step.change,), sets[0].finding.case.context)
                self._found.append((rank, fix))
                return

    # --- devices in use -----------------------------------------------------------------------------------------------

    def _free(self, item: NodeSet) -> None:
        """Find claims of which one has to go, or else the fewest that have to go together."""
        if self.searches >= SEARCHES_MAX:
            return
        holders = _list_holders(item.finding)
        changes = [Change(op="free-claims", value=[str(holder)]) for holder in holders[:HOLDERS_MAX]]
        single = [change for change in changes if self.helps((change,), item)]
        node = item.nodes[:1]
        if single:
            names = [str(holder) for holder, change in zip(holders, changes, strict=False) if change in single]
            text = word_choice(names, untried=len(holders) - len(changes))
            fix = Fix(text=text, nodes=node, changes=(single[0],), choices=tuple(single) if single[1:] else ())
            self._found.append((FREE_RANK, fix))
            return
        together = self._find_together(item, _list_all_holders(item.finding))
        if together:
            names = [str(holder) for holder in together]
            change = Change(op="free-claims", value=names)
            fix = Fix(text=word_together(names), nodes=node, changes=(change,))
            self._found.append((FREE_RANK, fix))

    def _find_together(self, item: NodeSet, holders: tuple[ClaimRef, ...]) -> tuple[ClaimRef, ...]:
        """The claims whose going is enough, and of which none may stay; empty when even all are not enough."""

        def is_enough(kept: dict[ClaimRef, int]) -> bool:
            freed = [str(holder) for holder, keep in kept.items() if keep]
            return self.helps((Change(op="free-claims", value=freed),), item)

        kept = dict.fromkeys(holders, 1)
        if not holders or not is_enough(kept):
            return ()
        for holder in holders:
            if self.searches < SEARCHES_MAX and is_enough({**kept, holder: 0}):
                kept[holder] = 0
        return tuple(holder for holder, keep in kept.items() if keep)

    def _add_node(self) -> None:
        """Find a node whose like, with nothing in use, would serve the claims."""
        for item in self.sets:
            if self.searches >= SEARCHES_MAX:
                return
            finding = item.finding
            if not any(relaxation.part == "use" for relaxation in finding.kept):
                continue
            local = {slice.pool_id for slice in finding.case.slices if _is_local(slice, finding.case.node.name)}
            base = self._base(finding)
            free = tuple(part.standin for part in finding.case.uses if part.device.pool_id not in local)
            if local and self._solves(finding, replace(base, allocated=free)):
                name = finding.case.node.name
                change = Change(op="add-node", name=name)
                self._found.append((NODE_RANK, Fix(text=f"add one node like {name}", nodes=(), changes=(change,))))
                return

    # --- several changes ----------------------------------------------------------------------------------------------

    def _combine(self) -> None:
        """Find a few changes that help together where none does alone."""
        for item in self.sets[:2]:
            steps = list(_list_last_steps(item.finding))
            if not steps or not self.helps([step.change for step in steps], item):
                continue
            kept = list(steps)
            for step in reversed(steps):
                fewer = [other for other in kept if other is not step]
                if self.searches < SEARCHES_MAX and self.helps([other.change for other in fewer], item):
                    kept = fewer
            changes = tuple(step.change for step in kept)
            text, nodes = "; and ".join(step.text for step in kept), self._find_everywhere(kept, item)
            fix = build_fix(text, nodes, changes, item.finding.case.context)
            self._found.append((_BOTH_RANK, fix))
            return

    def _find_everywhere(self, steps: Sequence[Step], first: NodeSet) -> tuple[str, ...]:
        """The nodes of all kinds on which steps help together that help on the first node of one."""
        others = (item for item in self.sets if item is not first and self.searches < SEARCHES_MAX)
        return (*self._find_alike(steps, first), *(name for item in others for name in self._find_alike(steps, item)))

    def _find_alike(self, steps: Sequence[Step], item: NodeSet) -> tuple[str, ...]:
        """The nodes of one kind on which steps help; claims that go are held on the first node alone."""
        changes = tuple(step.change for step in steps)
        if all(step.is_sure and step.change.op != "free-claims" for step in steps):
            return self.find_nodes(changes, item)
        return item.nodes[:1] if self.helps(changes, item) else ()


def list_kept(sets: Iterable[NodeSet]) -> list[tuple[Relaxation, list[NodeSet]]]:
    """Return each reason with the nodes on which it is one; reasons of the same identity are one."""
    found: dict[tuple[object, ...], tuple[Relaxation, list[NodeSet]]] = {}
    for item in sets:
        for relaxation in item.finding.kept:
            found.setdefault(relaxation.id, (relaxation, []))[1].append(item)
    return list(found.values())


def _list_holders(finding: NodeFinding) -> tuple[ClaimRef, ...]:
    """Claims that hold what is kept as a reason."""
    numbers = [n for r, keep in finding.kept.items() if r.part == "use" for n in r.uses[:keep]]
    return _unique(finding, numbers)


def _list_all_holders(finding: NodeFinding) -> tuple[ClaimRef, ...]:
    return _unique(finding, range(len(finding.case.uses)))


def _unique(finding: NodeFinding, numbers: Iterable[int]) -> tuple[ClaimRef, ...]:
    found = (finding.case.uses[number].holder for number in numbers)
    return tuple(dict.fromkeys(holder for holder in found if holder is not None))


def _list_last_steps(finding: NodeFinding) -> Iterator[Step]:
    """The most that could be changed about everything that could speak against the claims."""
    for relaxation in sorted(finding.relaxations, key=lambda relaxation: -relaxation.rank):
        if relaxation.part == "use":
            continue
        ladder = find_ladder(relaxation, [finding])
        if ladder is not None:
            yield ladder.steps[-1]
    for holder in _list_all_holders(finding):
        change = Change(op="free-claims", value=[str(holder)])
        yield Step(change=change, text=f"free claim {holder}")


def _is_local(slice: ResourceSlice, node: str) -> bool:
    return slice.node_name == node


def word_choice(names: Sequence[str], *, untried: int) -> str:
    """Return which claims would each be enough if they went.

    Args:
        untried: How many more hold what is missing, of which that was not found out.
    """
    text = f"free claim {names[0]}" if len(names) == 1 else f"free one of the claims {join_names(names)}"
    return f"{text}; {untried} more {'was' if untried == 1 else 'were'} not tried" if untried else text


def word_together(names: Sequence[str]) -> str:
    """Return which claims would be enough if all of them went."""
    return f"free claim {names[0]}" if len(names) == 1 else f"free the claims {join_names(names, last='and')}"


def join_names(names: Sequence[str], *, last: str = "or") -> str:
    """Return names as a part of a sentence."""
    if len(names) == 1:
        return names[0]
    shown = list(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        return f"{', '.join(shown)} {last} {len(names) - NAMES_SHOWN} more"
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"
