"""Moves pods that run, so that pods which were refused fit: few moves, nothing is evicted.

A plan is found on plain numbers (`replay.moveplans`); each placement of it is then decided by the allocator and
verified like any other. When the allocator says no to one of them, everything is as before and the next plan is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from claimsmith.replay.cluster import Placed, ReplayCluster
from claimsmith.replay.moveplans import WAYS, Plan, Way
from claimsmith.replay.rooms import Kind, Rooms, Site
from claimsmith.replay.trace import TracePod

__all__ = ["migrate"]

FAILURES_MAX: Final = 3
"""Plans of one way for one kind of pods that the allocator may refuse before the next way is tried."""


def migrate(cluster: ReplayCluster, refused: Sequence[TracePod], *, most: int) -> int:
    """Place refused pods by moving others; return the number of moves.

    Args:
        refused: Pods that did not fit; those that fit now are placed.
        most: Moves at most.

    Raises:
        ReplayError: An allocation breaks a rule.
    """
    return _Mover(cluster, refused, most).run()


class _Mover:
    def __init__(self, cluster: ReplayCluster, refused: Sequence[TracePod], most: int) -> None:
        self._cluster = cluster
        self._rooms = Rooms(cluster)
        self._waiting = Counter(self._rooms.get_kind(pod) for pod in refused)
        self._left = most

    def run(self) -> int:
        """Carry out plans, the cheapest first and for the largest pods first, until none is left; return the moves."""
        most = self._left
        while True:
            waiting = self._waiting.total()
            for least, way in WAYS:
                if least > self._left:
                    break
                for kind in sorted(self._waiting, key=lambda kind: (-kind.total_milli, kind.cpu_milli, kind.number)):
                    self._place(kind, way)
            if waiting == self._waiting.total():
                return most - self._left

    def _place(self, kind: Kind, way: Way) -> None:
        """Carry out one way's plans for pods of a kind while there are any."""
        failures, plans = 0, way(self._rooms, kind)
        while self._waiting[kind] and failures < FAILURES_MAX:
            plan = next(plans, None)
            if plan is None or plan.moves > self._left:
                break
            failures += not self._carry_out(kind, plan)

    def _carry_out(self, kind: Kind, plan: Plan) -> bool:
        """Do what the plan says, each placement by the allocator; False when one is refused: all is as before then."""
        gone: list[Placed] = []
        come: list[Placed] = []
        for number, step in enumerate(plan.steps or ((),), start=1):
            for runner, _ in step:
                self._cluster.remove(runner.placed)
                gone.append(runner.placed)
            arriving = [(runner.kind, target) for runner, target in step]
            if number >= len(plan.steps):
                arriving.insert(0, (kind, plan.site))
            for other, target in arriving:
                placed = self._place_on(other, target)
                if placed is None:
                    self._undo(gone, come)
                    return False
                come.append(placed)
        self._rooms.follow(gone, come)
        self._waiting -= Counter((kind,))
        self._left -= plan.moves
        return True

    def _place_on(self, kind: Kind, site: Site) -> Placed | None:
        return self._cluster.place(kind.pod, on=self._cluster.snapshot.nodes[site.node.name])

    def _undo(self, gone: Sequence[Placed], come: Sequence[Placed]) -> None:
        """Take away what has come, and give back what is gone."""
        for placed in come:
            self._cluster.remove(placed)
        for placed in gone:
            self._cluster.restore(placed)
