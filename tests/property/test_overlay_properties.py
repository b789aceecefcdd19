"""Whatever the order of writes, answers and events, the overlay ends where the server is, and never double-books."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.cluster.overlay import ClaimOverlay
from claimsmith.model.claim import ResourceClaim
from claimsmith.testing.builders import allocated, claim, claim_ref

REF = claim_ref("c")
STEPS = ("decide", "write", "fail", "answer", "free", "delete", "create", "event")


@dataclass
class World:
    """A server with one claim, a scheduler with an overlay, and what is on its way between the two."""

    overlay: ClaimOverlay = field(default_factory=ClaimOverlay)
    server: ResourceClaim | None = None
    version: int = 0
    created: int = 0
    shown: ResourceClaim | None = None
    events: list[ResourceClaim | None] = field(default_factory=list)
    decided: ResourceClaim | None = None
    answer: ResourceClaim | None = None

    def store(self, found: ResourceClaim | None) -> ResourceClaim | None:
        if found is not None:
            self.version += 1
            found = replace(found, metadata=replace(found.metadata, resource_version=str(self.version)))
        self.server = found
        self.events.append(found)
        return found

    def step(self, name: str) -> None:
        getattr(self, name)()

    def create(self) -> None:
        if self.server is None:
            self.created += 1
            self.store(claim("c", uid=f"u{self.created}"))

    def delete(self) -> None:
        if self.server is not None:
            self.store(None)

    def free(self) -> None:
        if self.server is not None and self.server.allocation is not None:
            self.store(replace(self.server, allocation=None))

    def decide(self) -> None:
        known = self.overlay.find(REF)
        if known is not None and known.allocation is None and self.decided is None and self.answer is None:
            self.decided = allocated(known, "gpu-0")
            self.overlay.start(self.decided)

    def write(self) -> None:
        if self.decided is None:
            return
        same = self.server is not None and self.server.uid == self.decided.uid and self.server.allocation is None
        if same:
            self.answer, self.decided = self.store(replace(self.decided)), None
        else:
            self.fail()

    def fail(self) -> None:
        if self.decided is not None:
            self.overlay.drop(REF)
            self.decided = None

    def answer_(self) -> None:
        if self.answer is not None:
            self.overlay.confirm(self.answer)
            self.answer = None

    def event(self) -> None:
        if self.events:
            old, self.shown = self.shown, self.events.pop(0)
            if old is not None or self.shown is not None:
                self.overlay.see(old, self.shown)


@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
def test_the_overlay_ends_where_the_server_is(steps: list[str]) -> None:
    world = World()
    for name in steps:
        world.step("answer_" if name == "answer" else name)
    world.write()
    world.answer_()
    while world.events:
        world.event()

    assert world.overlay.find(REF) == world.server


@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
def test_a_decision_that_is_in_flight_is_always_seen(steps: list[str]) -> None:
    world = World()
    for name in steps:
        world.step("answer_" if name == "answer" else name)
        found = world.overlay.find(REF)
        if world.decided is not None or world.answer is not None:
            assert found is not None
            assert found.allocation is not None
