"""Claims and containers of the device plugin on one node, with a process that may end at any moment."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from claimsmith.testing import builders as b
from tests.property.granting_machine import NAMES, Claim, NodeModel, fits

moments = st.one_of(st.none(), st.integers(0, 8))
"""After how many moments the process is killed, if it is."""


class LedgerMachine(RuleBasedStateMachine):
    """What scheduler and kubelet do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="cs-")
        self.node = NodeModel(Path(self._folder.name))

    @rule(device=st.sampled_from(NAMES))
    def allocate_claim(self, device: str) -> None:
        """The scheduler allocates a device that fits to the other claims; it knows nothing of containers."""
        if fits([*(claim.device for claim in self.node.claims.values()), device]):
            self.node.made += 1
            uid = f"uid-{self.node.made}"
            self.node.claims[uid] = Claim(uid=uid, device=device)

    @precondition(lambda self: self.node.claims)
    @rule(data=st.data(), kill_in=moments)
    def prepare(self, data: st.DataObject, kill_in: int | None) -> None:
        claim = data.draw(st.sampled_from(sorted(self.node.claims.values(), key=lambda claim: claim.uid)))
        self.node.kill_in = kill_in
        self.node.prepare(claim)

    @precondition(lambda self: self.node.claims)
    @rule(data=st.data(), kill_in=moments)
    def unprepare(self, data: st.DataObject, kill_in: int | None) -> None:
        claim = data.draw(st.sampled_from(sorted(self.node.claims.values(), key=lambda claim: claim.uid)))
        self.node.kill_in = kill_in
        self.node.unprepare(claim)

    @precondition(lambda self: self.node.free_ids())
    @rule(data=st.data(), kill_in=moments)
    def admit_pod(self, data: st.DataObject, kill_in: int | None) -> None:
        """The kubelet gives away any ids that are free for it, and hands those of an init container on."""
        free = st.sampled_from(self.node.free_ids())
        first = data.draw(st.frozensets(free, max_size=2))
        rest = data.draw(
            st.frozensets(st.sampled_from(sorted(first)), min_size=1)
            if first
            else st.frozensets(free, min_size=1, max_size=2)
        )
        self.node.kill_in = kill_in
        self.node.admit(first, rest)

    @precondition(lambda self: self.node.containers)
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        self.node.end_pod(data.draw(st.sampled_from([item.pod for item in self.node.containers])))

    @rule(kill_in=moments)
    def look(self, kill_in: int | None) -> None:
        self.node.kill_in = kill_in
        self.node.keep()

    @rule(seconds=st.sampled_from([1, 30, 60]))
    def wait(self, seconds: int) -> None:
        self.node.now_s += seconds

    @rule()
    def restart(self) -> None:
        self.node.start()

    @rule()
    def kubelet_writes_its_checkpoint(self) -> None:
        self.node.write_checkpoint()

    @invariant()
    def nothing_is_handed_out_twice(self) -> None:
        used = [name for names in self.node.in_use() for name in names]

        assert fits(used), used

    @invariant()
    def what_is_in_use_is_in_the_ledger_and_prepared(self) -> None:
        held, prepared = self.node.held(), {name for names in self.node.driver.prepared.values() for name in names}
        for names in self.node.in_use():
            for name in names:
                assert b.device_id(name) in held
                assert name in prepared, "the driver has undone what is in use"

    def teardown(self) -> None:
        """Everything ends, and nothing is left."""
        try:
            self.node.start()
            self.node.containers = []
            for claim in list(self.node.claims.values()):
                self.node.unprepare(claim)
            for _ in range(12):
                self.node.keep()

            assert self.node.held() == set()
            assert self.node.driver.prepared == {}
            assert list((self.node.root / "cdi").iterdir()) == []
        finally:
            self.node.close()
            self._folder.cleanup()


LedgerMachine.TestCase.settings = settings(stateful_step_count=25)
TestLedgerMachine = LedgerMachine.TestCase
