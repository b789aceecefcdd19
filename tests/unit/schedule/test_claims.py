from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.model.claim import FINALIZER, ConsumerReference, ResourceClaim
from claimsmith.schedule.claims import RESERVED_MAX, ClaimWriter, consumer_of
from claimsmith.testing.builders import allocated, claim, pod
from tests.unit.schedule.claim_server import ClaimServer

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
POD = consumer_of(pod("p"))


def writer(server: ClaimServer) -> ClaimWriter:
    return ClaimWriter(server, now=lambda: NOW)


def holding(*users: str, **fields: Any) -> ResourceClaim:
    return allocated(claim("claim", **fields), "gpu-0", reserved_for=users)


def users_of(found: ResourceClaim) -> list[str]:
    return [item.name for item in found.reserved_for]


def note(obj: dict[str, Any]) -> None:
    """A harmless change by somebody else."""
    obj["metadata"].setdefault("annotations", {})["note"] = "x"


def drop_allocation(obj: dict[str, Any]) -> None:
    obj["status"] = {}


async def test_allocation_writes_the_finalizer_and_then_allocation_and_reservation_at_once() -> None:
    server = ClaimServer(claim())
    allocation = holding().allocation
    assert allocation is not None

    stored = await writer(server).allocate(server.claim(), allocation, POD)

    assert server.writes == ["spec", "status"]
    assert stored == server.claim()
    assert stored.metadata.finalizers == (FINALIZER,)
    assert stored.allocation == replace(allocation, allocation_timestamp="2030-01-02T03:04:05Z")
    assert users_of(stored) == ["p"]


async def test_a_finalizer_that_an_earlier_attempt_left_is_not_written_again() -> None:
    server = ClaimServer(claim(finalizers=("other", FINALIZER)))
    allocation = holding().allocation
    assert allocation is not None

    await writer(server).allocate(server.claim(), allocation, POD)

    assert server.writes == ["status"]


async def test_allocation_survives_a_harmless_change_and_keeps_it() -> None:
    server = ClaimServer(claim())
    server.interfere = [note, note]
    allocation = holding().allocation
    assert allocation is not None

    stored = await writer(server).allocate(server.claim(), allocation, POD)

    assert users_of(stored) == ["p"]
    assert stored.metadata.annotations == {"note": "x"}


async def test_a_claim_that_somebody_else_allocated_is_left_alone() -> None:
    server = ClaimServer(claim())
    theirs = ClaimServer(holding("q")).objects["claim"]["status"]
    server.interfere = [lambda obj: obj.update(status=theirs)]
    allocation = holding().allocation
    assert allocation is not None

    with pytest.raises(ConflictError, match="claim default/claim: found that somebody else allocated it"):
        await writer(server).allocate(server.claim(), allocation, POD)
    assert users_of(server.claim()) == ["q"]


async def test_a_claim_that_was_made_anew_is_not_the_one_decided_on() -> None:
    server = ClaimServer(claim())
    server.interfere = [lambda obj: obj["metadata"].update(uid="another")]
    allocation = holding().allocation
    assert allocation is not None

    with pytest.raises(ConflictError, match="it was deleted and made anew"):
        await writer(server).allocate(server.claim(), allocation, POD)


async def test_a_claim_that_is_being_deleted_is_not_allocated() -> None:
    server = ClaimServer(claim(deletion_timestamp="2030-01-01T00:00:00Z"))
    allocation = holding().allocation
    assert allocation is not None

    with pytest.raises(ConflictError, match="it is being deleted"):
        await writer(server).allocate(server.claim(), allocation, POD)
    assert server.writes == []


async def test_writing_gives_up_when_every_try_meets_a_change() -> None:
    server = ClaimServer(claim())
    server.interfere = [note] * 20
    allocation = holding().allocation
    assert allocation is not None

    with pytest.raises(ConflictError):
        await writer(server).allocate(server.claim(), allocation, POD)
    assert server.writes == []


async def test_a_reservation_is_added_to_those_that_came_in_between() -> None:
    server = ClaimServer(holding("a"))
    known = server.claim()
    other = ConsumerReference(resource="pods", name="b", uid="uid-b")
    await writer(server).reserve(known, other)

    stored = await writer(server).reserve(known, POD)

    assert users_of(stored) == ["a", "b", "p"]


async def test_a_reservation_leaves_the_allocation_as_it_is() -> None:
    server = ClaimServer(holding("a"))

    stored = await writer(server).reserve(server.claim(), POD)

    assert stored.allocation == holding().allocation


async def test_a_reservation_that_is_there_costs_no_write() -> None:
    server = ClaimServer(holding("p"))

    await writer(server).reserve(server.claim(), POD)

    assert server.writes == []


async def test_the_257th_consumer_is_told_how_many_there_are() -> None:
    server = ClaimServer(holding(*(f"u{number}" for number in range(RESERVED_MAX))))

    with pytest.raises(ConflictError, match="it is used by 256 pods, allowed at most 256"):
        await writer(server).reserve(server.claim(), POD)
    assert server.writes == []


async def test_a_claim_that_lost_its_allocation_can_not_be_reserved() -> None:
    server = ClaimServer(holding("a"))
    server.interfere = [drop_allocation]

    with pytest.raises(ConflictError, match="it has no allocation any more"):
        await writer(server).reserve(server.claim(), POD)


async def test_release_keeps_the_allocation_for_those_that_stay() -> None:
    server = ClaimServer(holding("a", "b"))

    stored = await writer(server).release(server.claim(), {"uid-a"})

    assert (users_of(stored), stored.allocation is not None, server.writes) == (["b"], True, ["status"])


async def test_the_last_release_frees_the_devices_and_then_drops_the_finalizer() -> None:
    server = ClaimServer(holding("a", finalizers=("other",)))

    stored = await writer(server).release(server.claim(), {"uid-a"})

    assert server.writes == ["status", "spec"]
    assert (stored.allocation, stored.reserved_for, stored.metadata.finalizers) == (None, (), ("other",))


async def test_a_release_can_leave_an_unused_claim_allocated() -> None:
    server = ClaimServer(holding("a"))

    stored = await writer(server).release(server.claim(), {"uid-a"}, keep_allocation=True)

    assert stored.allocation is not None
    assert stored.metadata.finalizers == (FINALIZER,)


async def test_a_release_sees_a_consumer_that_came_in_between() -> None:
    server = ClaimServer(holding("a"))
    entry = {"resource": "pods", "name": "late", "uid": "uid-late"}
    server.interfere = [lambda obj: obj["status"]["reservedFor"].append(entry)]

    stored = await writer(server).release(server.claim(), {"uid-a"})

    assert (users_of(stored), stored.allocation is not None) == (["late"], True)


async def test_releasing_twice_writes_once() -> None:
    server = ClaimServer(holding("a"))
    known = server.claim()
    first = await writer(server).release(known, {"uid-a"})

    await writer(server).release(first, {"uid-a"})

    assert server.writes == ["status", "spec"]


async def test_releasing_a_claim_that_is_gone_says_so() -> None:
    server = ClaimServer(holding("a"))
    known = server.claim()
    server.objects.clear()

    with pytest.raises(NotFoundError):
        await writer(server).release(known, {"uid-a"})


async def test_a_driver_report_survives_a_reservation_and_goes_with_the_allocation() -> None:
    server = ClaimServer(holding("a"))
    report = {"driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0"}
    server.objects["claim"]["status"]["devices"] = [report]
    reserved = await writer(server).reserve(server.claim(), POD)
    released = await writer(server).release(reserved, {"uid-a", POD.uid})

    assert ([item.device for item in reserved.devices], released.devices) == (["gpu-0"], ())


async def test_deleting_a_claim_that_is_gone_is_fine() -> None:
    server = ClaimServer(claim())
    known = server.claim()
    await writer(server).delete(known)

    await writer(server).delete(known)

    assert server.writes == ["delete"]
