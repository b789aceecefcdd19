from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.cluster.overlay import ClaimOverlay
from claimsmith.model.claim import ResourceClaim
from claimsmith.testing.builders import allocated, claim, claim_ref

REF = claim_ref("c")
State = tuple[str, bool] | None


def free(version: int, uid: str = "u1") -> ResourceClaim:
    return claim("c", uid=uid, resource_version=str(version))


def held(version: int, uid: str = "u1") -> ResourceClaim:
    return allocated(free(version, uid), "gpu-0", reserved_for=["p"])


@pytest.fixture
def overlay() -> ClaimOverlay:
    found = ClaimOverlay()
    found.see(None, free(5))
    return found


def state(overlay: ClaimOverlay) -> State:
    found = overlay.find(REF)
    return None if found is None else (found.metadata.resource_version, found.allocation is not None)


def test_a_claim_in_flight_wins_over_whatever_the_server_shows(overlay: ClaimOverlay) -> None:
    overlay.start(held(5))
    overlay.see(free(5), free(6))

    assert state(overlay) == ("5", True)


def test_the_answer_of_the_server_wins_until_the_watch_has_caught_up(overlay: ClaimOverlay) -> None:
    overlay.start(held(5))
    overlay.confirm(held(7))
    overlay.see(free(5), free(6))
    behind = state(overlay)
    overlay.see(free(6), held(7))
    overlay.see(held(7), free(9))

    assert (behind, state(overlay)) == (("7", True), ("9", False))


def test_a_newer_state_that_the_watch_showed_first_is_not_undone_by_the_answer(overlay: ClaimOverlay) -> None:
    overlay.start(held(5))
    overlay.see(free(5), free(9))
    overlay.confirm(held(7))

    assert state(overlay) == ("9", False)


def test_versions_are_compared_as_numbers(overlay: ClaimOverlay) -> None:
    overlay.confirm(held(10))
    overlay.see(free(5), free(9))

    assert state(overlay) == ("10", True)


def test_a_new_decision_wins_over_the_answer_to_the_one_before(overlay: ClaimOverlay) -> None:
    overlay.confirm(free(7))
    overlay.start(held(7))

    assert state(overlay) == ("7", True)


def test_a_dropped_decision_shows_what_the_server_has(overlay: ClaimOverlay) -> None:
    overlay.start(held(5))
    overlay.drop(REF)

    assert state(overlay) == ("5", False)


def test_a_deleted_claim_is_gone_although_it_was_assumed(overlay: ClaimOverlay) -> None:
    overlay.confirm(held(7))
    overlay.see(free(5), None)

    assert state(overlay) is None


def test_an_answer_that_comes_after_the_deletion_does_not_bring_the_claim_back(overlay: ClaimOverlay) -> None:
    overlay.start(held(5))
    overlay.see(free(5), None)
    overlay.confirm(held(7))

    assert state(overlay) is None


def test_a_claim_made_anew_is_not_covered_by_what_was_assumed_of_the_old_one(overlay: ClaimOverlay) -> None:
    overlay.confirm(held(7))
    overlay.see(free(5), free(9, uid="u2"))

    assert state(overlay) == ("9", False)


def test_a_created_claim_takes_the_place_of_the_one_decided_without_name() -> None:
    overlay, decided = ClaimOverlay(), held(0, uid="")
    waiting = replace(decided, metadata=replace(decided.metadata, name="<special>"))
    overlay.start(waiting)
    overlay.confirm(held(7), decided_as=waiting.ref)

    assert list(overlay.claims) == [REF]


def test_a_claim_that_turned_out_to_be_gone_can_be_lost() -> None:
    overlay = ClaimOverlay()
    overlay.confirm(held(7))
    overlay.lose(held(7))

    assert state(overlay) is None


def test_listeners_hear_each_change_of_what_counts_once(overlay: ClaimOverlay) -> None:
    heard: list[tuple[State, State]] = []

    def listen(old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        def short(found: ResourceClaim | None) -> State:
            return None if found is None else (found.metadata.resource_version, found.allocation is not None)

        heard.append((short(old), short(new)))

    overlay.subscribe(listen)
    overlay.start(held(5))
    overlay.see(free(5), free(6))
    overlay.confirm(held(7))
    overlay.see(free(6), held(7))

    assert heard == [
        (None, ("5", False)),
        (("5", False), ("5", True)),
        (("5", True), ("7", True)),
        (("7", True), ("7", True)),
    ]
