from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimsmith.errors import DriverError, ForbiddenError, NotFoundError, UnreachableError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.entry import PreparedClaim
from claimsmith.node.sweep import Sweeper, SweepPolicy, find_over_reason
from claimsmith.testing.builders import allocated, claim, claim_key, prepare_request, request, result

POLICY = SweepPolicy()


def entry(name: str = "claim", device: str = "gpu-0") -> PreparedClaim:
    begun = PreparedClaim.begun(prepare_request(device, claim=claim_key(name)), "boot")
    return replace(begun, finished=True)


def stored(name: str = "claim", device: str = "gpu-0", *, users: tuple[str, ...] = ("pod",)) -> ResourceClaim:
    return allocated(claim(name, request()), result(device), reserved_for=users)


class Node:
    """What is prepared, what the API server has, and a clock that a test moves."""

    def __init__(self, *names: str) -> None:
        self.entries = {name: entry(name) for name in names}
        self.claims = {ClaimRef("default", name): stored(name) for name in names}
        self.books: frozenset[str] | None = frozenset()
        self.error: Exception | None = None
        self.release_error: Exception | None = None
        self.on_release: Callable[[ClaimKey], None] = lambda key: None
        self.reads, self.time_s = 0, 0.0
        self.sweeper = Sweeper(
            lambda: tuple(self.entries.values()),
            claims=self,
            release=self.release,
            books=lambda: self.books,
            now_s=lambda: self.time_s,
        )

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        self.reads += 1
        if self.error is not None:
            raise self.error
        if ref not in self.claims:
            raise NotFoundError("none", status=404)
        return self.claims[ref]

    async def release(self, key: ClaimKey, is_left: Callable[[], bool]) -> bool:
        if self.release_error is not None:
            raise self.release_error
        if not is_left():
            return False
        del self.entries[key.name]
        self.on_release(key)
        return True

    async def pass_time(self, seconds: float) -> int:
        """Let ticks pass; return how many claims were released."""
        released, end_s = 0, self.time_s + seconds
        while self.time_s < end_s:
            self.time_s += POLICY.tick_s
            released += await self.sweeper.tick()
        return released


@pytest.fixture
def node() -> Node:
    return Node("claim", "other")


def test_a_claim_that_is_in_use_is_not_over() -> None:
    assert find_over_reason(entry(), stored()) is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "it is deleted"),
        (replace(stored(), metadata=replace(stored().metadata, uid="u2")), "it was deleted and made again"),
        (stored(users=()), "nobody uses it"),
        (stored(device="gpu-1"), "it has other devices now"),
        (replace(stored(), allocation=None), "it has other devices now"),
    ],
)
def test_a_claim_is_over_when_the_api_server_says_so(found: ResourceClaim | None, reason: str) -> None:
    assert find_over_reason(entry(), found) == reason


async def test_a_claim_that_ended_while_no_driver_ran_is_released_at_the_start(node: Node) -> None:
    del node.claims[ClaimRef("default", "claim")]

    assert await node.sweeper.tick() == 1
    assert list(node.entries) == ["other"]


async def test_a_claim_on_the_kubelets_books_is_left_to_it(node: Node) -> None:
    del node.claims[ClaimRef("default", "claim")]
    node.books = frozenset({"uid-claim"})
    kept = await node.pass_time(600.0)
    node.books = frozenset()

    assert (kept, await node.pass_time(POLICY.tick_s)) == (0, 1)


async def test_where_the_books_can_not_be_read_a_claim_must_have_been_over_for_long(node: Node) -> None:
    del node.claims[ClaimRef("default", "claim")]
    node.books = None
    early = await node.pass_time(POLICY.confirm_s)

    assert (early, await node.pass_time(2 * POLICY.tick_s)) == (0, 1)


async def test_a_claim_that_is_in_use_again_meanwhile_is_left_alone(node: Node) -> None:
    node.books = None
    node.claims[ClaimRef("default", "claim")] = stored(users=())
    await node.sweeper.tick()
    node.claims[ClaimRef("default", "claim")] = stored()

    assert await node.pass_time(120.0) == 0


async def test_a_claim_that_is_in_use_again_by_its_turn_is_left_alone_where_the_books_can_not_be_read(
    node: Node,
) -> None:
    def use_the_other(key: ClaimKey) -> None:
        node.claims = {ref: stored(ref.name) for ref in (ClaimRef("default", "claim"), ClaimRef("default", "other"))}

    node.books, node.claims, node.on_release = None, {}, use_the_other

    assert await node.pass_time(120.0) == 1
    assert list(node.entries) == ["other"]


async def test_a_claim_that_can_not_be_read_in_its_turn_waits_for_the_next_look(node: Node) -> None:
    def go_down(key: ClaimKey) -> None:
        node.error = UnreachableError("no answer")

    node.claims, node.on_release = {}, go_down
    released = await node.sweeper.tick()
    node.error = None

    assert (released, await node.pass_time(POLICY.tick_s)) == (1, 1)


async def test_nothing_is_released_on_the_word_of_a_failing_api_server(node: Node) -> None:
    node.claims.clear()
    node.error = UnreachableError("no answer")

    assert await node.pass_time(120.0) == 0


async def test_claims_are_looked_at_soon_after_the_api_server_is_back(node: Node) -> None:
    node.error = UnreachableError("no answer")
    await node.pass_time(600.0)
    node.error = None
    node.claims.clear()

    assert await node.pass_time(15.0) == 2


async def test_one_claim_that_may_not_be_read_does_not_hide_the_others() -> None:
    node = Node("a", "b")
    read = node.get_claim

    async def get_claim(ref: ClaimRef) -> ResourceClaim:
        if ref.name == "a":
            raise ForbiddenError("no", status=403)
        return await read(ref)

    node.get_claim = get_claim  # type: ignore[method-assign]
    del node.claims[ClaimRef("default", "b")]

    assert await node.sweeper.tick() == 1


async def test_a_quiet_node_reads_its_claims_once_a_minute(node: Node) -> None:
    await node.pass_time(600.0)

    assert node.reads <= 2 * 11


async def test_a_release_that_fails_is_repeated_less_and_less_often(node: Node) -> None:
    del node.claims[ClaimRef("default", "claim")]
    node.release_error, tries = DriverError("busy"), 0
    release = node.release

    async def count(key: ClaimKey, is_left: Callable[[], bool]) -> bool:
        nonlocal tries
        tries += 1
        return await release(key, is_left)

    node.sweeper._release = count
    await node.pass_time(600.0)

    assert 4 <= tries <= 8


async def test_each_new_trouble_with_the_api_server_makes_a_look_due(node: Node) -> None:
    ticks = 0
    first, second = UnreachableError("a"), UnreachableError("b")
    troubles = iter([None, first, first, second, second])

    class EndError(Exception):
        pass

    async def pause(seconds: float) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 5:
            raise EndError

    with pytest.raises(EndError):
        await node.sweeper.run(trouble=lambda: next(troubles), pause=pause)

    assert node.reads == 2 * 3
