"""Judges the explanations of recorded problems; run as a program, all of them.

python -m tests.conformance.explained [FILE…]
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from claimsmith.allocate.explain.case import ClauseBook
from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.finding import Asked, NodeFinding, find_reasons
from claimsmith.allocate.explain.fixes import FixFinder, NodeSet
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.explain.values import Fix
from claimsmith.allocate.explain.wording import GATES, word_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import allocate
from claimsmith.model.decision import Allocation, Reason, Refused
from claimsmith.testing.conformance.records import parse_problem
from claimsmith.testing.conformance.shares import ShareIds
from tests.conformance.everything import count_devices, fits_somehow
from tests.conformance.recorded import read_lines

__all__ = ["EXPLAINED", "Judged", "judge_explanations"]

EXPLAINED: Final = ("allocator", "probes", "hard", "upstream-table", "drawn")
"""Recorded files of problems whose explanations are judged."""
FEW_DEVICES: Final = 8
FEW_WANTED: Final = 6
"""Devices that a node has, and that are wanted, up to which everything is tried."""
SEARCH_STEPS: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is wrong with the explanation of one problem on one node.

    Args:
        reasons: How many reasons it has.
        fixes: How many fixes.
        is_brute: Everything was tried.
        faults: What is wrong; empty when nothing is.
    """

    name: str
    reasons: int
    fixes: int
    is_brute: bool
    faults: tuple[str, ...]


def judge_explanations(file: str, *, every: int = 1, start: int = 0) -> Iterator[Judged]:
    """Judge the explanation of each problem of a file that does not fit, or of every n-th of its problems."""
    for line in read_lines(file)[start::every]:
        record: dict[str, Any] = json.loads(line)
        if "claims" not in record:
            continue
        recorded = parse_problem(record)
        for node in recorded.nodes:
            problem = AllocationProblem(
                node=node,
                claims=recorded.claims,
                slices=recorded.slices,
                classes=recorded.classes,
                allocated=recorded.allocated,
                state=recorded.state,
                features=recorded.features,
            )
            finding = find_reasons(
                Asked(ClauseBook(PreparedCluster.from_problem(problem), problem.claims), budget_steps=SEARCH_STEPS),
                node,
            )
            if finding.fits is False or (finding.fits is None and finding.oracle.refused is None):
                yield _judge(f"{recorded.name} on {node.name}", problem, finding)


def _judge(name: str, problem: AllocationProblem, finding: NodeFinding) -> Judged:
    is_brute = count_devices(problem) <= FEW_DEVICES
    reasons = word_reasons(finding)
    fixes = FixFinder([NodeSet(nodes=(problem.node.name,), finding=finding)]).find()
    faults = [
        *_judge_set(finding, is_brute=is_brute),
        *(f"reason names nothing: {reason.text}" for reason in reasons if not _names_something(reason, finding)),
        *(f"does not help: {fix.text}" for fix in fixes if not _helps(problem, finding, fix)),
    ]
    return Judged(name=name, reasons=len(reasons), fixes=len(fixes), is_brute=is_brute, faults=tuple(faults))


def _judge_set(finding: NodeFinding, *, is_brute: bool) -> Iterator[str]:
    """See that the reasons alone are enough, and that they are not with any piece of any of them gone."""
    if not finding.kept or not finding.is_irreducible:
        yield f"no irreducible set: {finding.fits}"
        return
    if _fits(finding.relax(finding.kept), is_brute=is_brute):
        yield "fits with nothing but the reasons"
    for relaxation, keep in finding.kept.items():
        if not _fits(finding.relax({**finding.kept, relaxation: keep - 1}), is_brute=is_brute):
            yield f"does not fit without {relaxation.id}"
        yield from _judge_pieces(finding, relaxation, keep, is_brute=is_brute)


def _judge_pieces(finding: NodeFinding, relaxation: Relaxation, keep: int, *, is_brute: bool) -> Iterator[str]:
    """See that each device in use is needed, not just the last of equal ones."""
    if relaxation.part != "use" or keep < 2:
        return
    for gone in range(keep - 1):
        uses = (*relaxation.uses[:gone], *relaxation.uses[gone + 1 :], relaxation.uses[gone])
        draft = finding.oracle.draft(
            {**dict.fromkeys(finding.relaxations, 0), **{r: k for r, k in finding.kept.items() if r is not relaxation}}
        )
        draft.freed.difference_update(uses[: keep - 1])
        if not _fits(draft.build(), is_brute=is_brute):
            yield f"does not fit without {finding.case.uses[relaxation.uses[gone]].device}"


def _fits(problem: AllocationProblem, *, is_brute: bool) -> bool:
    """Whether devices can be had; a node selector that no allocation can carry does not count."""
    few = count_devices(problem) <= FEW_DEVICES and _count_wanted(problem) <= FEW_WANTED
    if is_brute and few and _has_names(problem):
        return fits_somehow(problem)
    decision = allocate(problem, share_ids=ShareIds(), budget_steps=SEARCH_STEPS)
    return isinstance(decision, Allocation) or (isinstance(decision, Refused) and decision.kind == "node-selector")


def _has_names(problem: AllocationProblem) -> bool:
    """Whether requests can be told apart; in some rows of upstream's table they have one name."""
    names = [[request.name for request in claim.spec.requests] for claim in problem.claims]
    return all(len(set(found)) == len(found) for found in names)


def _count_wanted(problem: AllocationProblem) -> int:
    requests = (request for claim in problem.claims for request in claim.spec.requests)
    return sum(min((spec.count for spec in request.alternatives), default=0) for request in requests)


def _names_something(reason: Reason, finding: NodeFinding) -> bool:
    """Whether the sentence names a device, a holder, a counter, a clause, or else what is missing by its name."""
    names = {str(record.device.name) for record in finding.case.records.values()}
    names |= {part.device.device for part in finding.case.uses} | {str(part.holder) for part in finding.case.uses}
    names |= {str(pool.id) for pool in finding.case.view.pools} | {finding.case.node.name}
    names |= {f"constraint {r.position} has neither" for r in finding.relaxations if r.part == "constraint"}
    names |= {relaxation.name for relaxation in finding.relaxations if relaxation.name} | set(GATES.values())
    return any(name in reason.text for name in names) and not re.search("does not fit|cannot allocate", reason.text)


def _helps(problem: AllocationProblem, finding: NodeFinding, fix: Fix) -> bool:
    """Carry out the changes on the problem as it was recorded, and solve it."""
    if any(change.op == "add-node" for change in fix.changes):
        own = {item.pool_id for item in problem.slices if item.node_name == problem.node.name}
        shared = tuple(part.standin for part in finding.case.uses if part.device.pool_id not in own)
        changed = replace(finding.case.problem, claims=problem.claims, classes=problem.classes, allocated=shared)
    else:
        held = finding.case.problem.allocated
        changed = apply_changes(
            replace(problem, allocated=held, state=AllocationProblem(node=problem.node, claims=()).state), fix.changes
        )
    choices = [changed, *(apply_changes(changed, (choice,)) for choice in fix.choices)]
    return all(
        isinstance(allocate(item, share_ids=ShareIds(), budget_steps=SEARCH_STEPS), Allocation) for item in choices
    )


def main(files: list[str]) -> int:
    """Judge all explanations; return the exit status."""
    wrong = 0
    for file in files or EXPLAINED:
        counts: Counter[str] = Counter()
        for judged in judge_explanations(file):
            counts.update(problems=1, reasons=judged.reasons, fixes=judged.fixes, brute=judged.is_brute)
            for fault in judged.faults:
                wrong += 1
                print(f"{file}: {judged.name}: {fault}", flush=True)
        print(
            f"{file}: {counts['problems']} problems that don't fit, {counts['reasons']} reasons, {counts['fixes']} "
            f"fixes; of {counts['brute']} everything was tried",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
