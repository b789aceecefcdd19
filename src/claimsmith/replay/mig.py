"""Partitions of boards that come and go: how many requests each rule refuses.

Every request is a claim on real pools with shared counters. Policies are asked through the placer that the scheduler
uses; heuristics to compare with only name a device, and the allocator's search decides. A request that does not fit
when it comes is lost. The first fifth of the requests fills the boards and is not counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.policy.moves import plan_move
from claimsmith.allocate.policy.objective import FIRST, FRAGMENTATION
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.errors import FieldError, ReplayError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.replay.mig_arrivals import PROFILES, Arrival, Mix, draw_arrivals
from claimsmith.replay.mig_boards import build_board_claim, build_boards
from claimsmith.replay.mig_books import Books
from claimsmith.replay.mig_repack import expect_refused, find_refused_by_repacking
from claimsmith.replay.mig_rules import decide_picked, pick_best_fit, pick_by_fragments

__all__ = ["EXPECTED", "REPACKED", "RULES", "MigOptions", "MigResult", "replay_mig"]

WARM_UP: Final = 5
"""One of so many requests is not counted."""
RULES: Final = ("first fit", "best fit", "fgd", "claimsmith")
"""What decides, in the order of the report."""
REPACKED: Final = "full repack"
"""Name of what laying all partitions out anew for each request makes of the same requests."""
EXPECTED: Final = "full repack, on average"
"""Name of the same for a run without end, to tell whether the runs that were drawn are heavy or light."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigOptions:
    """What is replayed.

    Args:
        load: Offered compute slices as a share of those of all boards.
        events: Requests of one run.
        seeds: One run for each.
        moves: Most partitions that may be moved so that a request fits; 0 or 1.
        boards: Number of boards.

    Raises:
        FieldError: A number is out of its bounds.
    """

    mix: Mix
    load: float = 0.9
    events: int = 12_000
    seeds: tuple[int, ...] = (1,)
    moves: int = 0
    boards: int = 100

    def __post_init__(self) -> None:
        if self.moves not in (0, 1):
            raise FieldError("moves", self.moves, allowed="0 or 1", hint="correct the number")
        if not self.seeds:
            raise FieldError("seeds", self.seeds, allowed="at least one", hint="name a seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigResult:
    """What a rule made of the counted requests of all runs.

    Args:
        refused: Lost requests of each run.
        refused_slices: Their compute slices, over all runs.
        moved: Partitions that were moved.
        verified: Allocations that were checked, moves and the first fifth of the requests included; 0 for repacking.
    """

    rule: str
    requests: int
    slices: int
    refused: tuple[int, ...]
    refused_slices: int
    moved: int = 0
    verified: int = 0

    @property
    def total(self) -> int:
        """Lost requests over all runs."""
        return sum(self.refused)


def replay_mig(
    options: MigOptions, *, rules: Sequence[str] = RULES, tell: Callable[[str], None] = lambda _: None
) -> tuple[MigResult, ...]:
    """Return the results of the rules, of ours with moves if any are allowed, and of full repacking, then on average.

    Args:
        rules: Of `RULES`.
        tell: Told what runs next.

    Raises:
        FieldError: An option is out of its bounds.
        ReplayError: An allocation breaks a rule, or no decision was made.
    """
    snapshot = build_boards(options.boards)
    runs = [
        draw_arrivals(options.mix, load=options.load, boards=options.boards, events=options.events, seed=seed)
        for seed in options.seeds
    ]
    chosen = [(rule, 0) for rule in rules]
    if options.moves and "claimsmith" in rules:
        chosen.append(("claimsmith", options.moves))
    found = []
    for rule, moves in chosen:
        tell(f"{options.mix.name}: {rule}{', one move' if moves else ''}")
        found.append(_replay(rule, options, snapshot, runs=runs, moves=moves))
    lost = [find_refused_by_repacking(arrivals, options.boards) for arrivals in runs]
    repacked = _sum_up(REPACKED, options, runs, lost)
    return (*found, repacked, _expect(options, repacked))


def _replay(
    rule: str, options: MigOptions, snapshot: ClusterSnapshot, *, runs: Sequence[tuple[Arrival, ...]], moves: int
) -> MigResult:
    lost, moved, verified = list[tuple[Arrival, ...]](), 0, 0
    for arrivals in runs:
        replayed = _Replay(snapshot, rule, options.mix, moves=moves)
        lost.append(tuple(arrival for arrival in arrivals if not replayed.accept(arrival)))
        moved, verified = moved + replayed.moved, verified + replayed.verified
    name = f"{rule}, one move" if moves else rule
    return replace(_sum_up(name, options, runs, lost), moved=moved, verified=verified)


def _sum_up(
    rule: str, options: MigOptions, runs: Iterable[tuple[Arrival, ...]], lost: Iterable[tuple[Arrival, ...]]
) -> MigResult:
    """Count what came after the first fifth of each run."""
    warm = options.events // WARM_UP
    counted = [arrival for arrivals in runs for arrival in arrivals[warm:]]
    refused = [[arrival for arrival in arrivals if arrival.number >= warm] for arrivals in lost]
    return MigResult(
        rule=rule,
        requests=len(counted),
        slices=sum(arrival.slices for arrival in counted),
        refused=tuple(len(arrivals) for arrivals in refused),
        refused_slices=sum(arrival.slices for arrivals in refused for arrival in arrivals),
    )


def _expect(options: MigOptions, repacked: MigResult) -> MigResult:
    """Return what full repacking refuses on average of so many requests, the same for each run."""
    mix, shares = options.mix, expect_refused(options.mix, load=options.load, boards=options.boards)
    lost = [share * shares[size] / sum(mix.shares) for share, size in zip(mix.shares, PROFILES, strict=True)]
    lost_slices = sum(share * slices for share, slices in zip(lost, PROFILES.values(), strict=True))
    runs = len(repacked.refused)
    return replace(
        repacked,
        rule=EXPECTED,
        refused=(round(sum(lost) * repacked.requests / runs),) * runs,
        refused_slices=round(lost_slices * repacked.slices / mix.mean_slices),
    )


class _Replay:
    """One run of one rule."""

    def __init__(self, snapshot: ClusterSnapshot, rule: str, mix: Mix, *, moves: int) -> None:
        self._moves = moves
        self._nodes: tuple[Node, ...] = tuple(snapshot.nodes.values())
        self._cluster = PreparedCluster.from_snapshot(snapshot)
        self._placer = Placer(self._cluster, FIRST if rule == "first fit" else FRAGMENTATION)
        self._pick = {"best fit": pick_best_fit, "fgd": pick_by_fragments(mix)}.get(rule)
        self._books = Books(snapshot)
        self._leaving: list[tuple[float, int, ClaimRef]] = []
        self.moved = 0

    @property
    def verified(self) -> int:
        """Number of allocations that were checked."""
        return self._books.verified

    def accept(self, arrival: Arrival) -> bool:
        """Let go what has ended, and place a request; False when it is lost.

        Raises:
            ReplayError: An allocation breaks a rule, or no decision was made.
        """
        while self._leaving and self._leaving[0][0] <= arrival.at:
            self._cluster.release(self._books.remove(heapq.heappop(self._leaving)[2]))
        claim = build_board_claim(arrival)
        decision = self._decide(arrival, claim)
        if isinstance(decision, Pending) and self._moves:
            decision = self._make_room(claim) or decision
        if isinstance(decision, Pending):
            return False
        if not isinstance(decision, Allocation):
            raise ReplayError(f"request {arrival.number}: no decision: {decision}")
        self._start(claim, decision)
        heapq.heappush(self._leaving, (arrival.until, arrival.number, claim.ref))
        return True

    def _decide(self, arrival: Arrival, claim: ResourceClaim) -> Decision:
        if self._pick is None:
            self._placer.observe((claim,))
            return self._placer.place((claim,), nodes=self._nodes, share_ids=_no_share)
        pick = self._pick(self._books.board, self._books.held, arrival.profile)
        if pick is None:
            return Pending()
        return decide_picked(self._cluster, claim, self._books.nodes[pick[0]], pick[1])

    def _make_room(self, claim: ResourceClaim) -> Allocation | None:
        """Move one partition so that the claim fits; None when that doesn't help."""
        move = plan_move(
            self._placer, (claim,), holders=self._books.list_holders(), nodes=self._nodes, share_ids=_no_share
        )
        if move is None:
            return None
        holder = move.holder.claim
        self._cluster.release(self._books.remove(holder.ref))
        self._start(replace(holder, allocation=None), move.moved)
        self.moved += 1
        return move.placed

    def _start(self, claim: ResourceClaim, decision: Allocation) -> None:
        self._cluster.hold(self._books.add(claim, decision))


def _no_share() -> str:
    raise ReplayError("boards have no devices that are shared, yet a share was given out")
