"""What the tests of double booking look at can tell it."""

from __future__ import annotations

import pytest

from tests.cluster.views import Views, find_double

BOTH = {"gpu-0": frozenset({"claim a", "pod b"})}
ONE = {"gpu-0": frozenset({"claim a"}), "gpu-1": frozenset({"pod b"})}


@pytest.mark.parametrize(
    ("views", "who"),
    [(Views(kubelet=BOTH), "kubelet"), (Views(claims=BOTH), "claims"), (Views(ledger=BOTH, kubelet=ONE), "ledger")],
)
def test_a_device_with_two_holders_is_told(views: Views, who: str) -> None:
    assert find_double(views) == [f"{who}: gpu-0 is held by claim a and pod b"]


def test_pods_to_which_the_kubelet_gave_one_device_by_their_limits_are_none() -> None:
    pods = {"gpu-0": frozenset({"pod a", "pod b"})}

    assert find_double(Views(kubelet=pods)) == []
    assert find_double(Views(kubelet={"gpu-0": pods["gpu-0"] | {"claim c"}})) != []


def test_devices_with_a_holder_each_are_none() -> None:
    assert find_double(Views(kubelet=ONE, claims=ONE, ledger=ONE)) == []


@pytest.mark.parametrize("left", [Views(kubelet=ONE), Views(claims=ONE), Views(ledger=ONE), Views(cdi=("a.json",))])
def test_whatever_is_left_is_seen(left: Views) -> None:
    assert not left.is_empty
    assert Views().is_empty
