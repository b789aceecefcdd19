"""What the tests of double booking look at can tell it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from claimsmith.node.grants import GIVEN_AGAIN
from tests.cluster.views import Views, find_double, find_given_twice, parse_given_again

BOTH = {"gpu-0": frozenset({"claim a", "pod b"})}
ONE = {"gpu-0": frozenset({"claim a"}), "gpu-1": frozenset({"pod b"})}


@pytest.mark.parametrize(
    ("views", "who"),
    [(Views(kubelet=BOTH), "kubelet"), (Views(claims=BOTH), "claims"), (Views(ledger=BOTH, kubelet=ONE), "ledger")],
)
def test_a_device_with_two_holders_is_told(views: Views, who: str) -> None:
    assert find_double(views) == [f"{who}: gpu-0 is held by claim a and pod b"]


def test_pods_to_which_the_kubelet_had_one_device_given_twice_are_told_apart() -> None:
    pods = {"gpu-0": frozenset({"pod a", "pod b"})}
    seen = Views(kubelet=pods, given_again=frozenset({"gpu-0"}))

    assert (find_double(seen), find_given_twice(seen)) == ([], ["gpu-0 is held by pod a and pod b"])


@pytest.mark.parametrize("again", [set(), {"gpu-1"}])
def test_pods_that_have_one_device_without_a_word_of_the_agent_are_told(again: set[str]) -> None:
    seen = Views(kubelet={"gpu-0": frozenset({"pod a", "pod b"})}, given_again=frozenset(again))

    assert (find_double(seen), find_given_twice(seen)) == (["kubelet: gpu-0 is held by pod a and pod b"], [])


def test_a_claim_and_pods_that_have_one_device_are_told_whatever_was_given_again() -> None:
    seen = Views(kubelet={"gpu-0": frozenset({"claim c", "pod a", "pod b"})}, given_again=frozenset({"gpu-0"}))

    assert (len(find_double(seen)), find_given_twice(seen)) == (1, [])


def test_what_agents_gave_again_is_read_from_their_log() -> None:
    fields = {"resource": "nvidia.com/gpu", "ids": "gpu-0,gpu-3"}
    again = {"time": "2026-01-02T03:04:05.678+00:00", "message": GIVEN_AGAIN, "fields": fields}
    log = "\n".join(["no JSON", json.dumps({**again, "message": "Devices given to a container"}), json.dumps(again)])

    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert list(parse_given_again(log)) == [("gpu-0", at), ("gpu-3", at)]


def test_devices_with_a_holder_each_are_none() -> None:
    assert find_double(Views(kubelet=ONE, claims=ONE, ledger=ONE)) == []


@pytest.mark.parametrize("left", [Views(kubelet=ONE), Views(claims=ONE), Views(ledger=ONE), Views(cdi=("a.json",))])
def test_whatever_is_left_is_seen(left: Views) -> None:
    assert not left.is_empty
    assert Views().is_empty
