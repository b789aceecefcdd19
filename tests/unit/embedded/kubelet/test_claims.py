from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.resource import parse_resource_claim
from claimsmith.embedded.kubelet.claims import UsableClaim, parse_usable_claim, read_usable_claim
from claimsmith.embedded.kubelet.views import PodView, view_pod
from claimsmith.errors import NotFoundError, PodStartError
from claimsmith.model.claim import ResourceClaim

POD = view_pod({"metadata": {"namespace": "default", "name": "p", "uid": "pod-uid"}})


def claim(*drivers: str, **changes: Any) -> dict[str, Any]:
    results = [{"driver": driver, "pool": "n", "device": "d", "request": "r"} for driver in drivers]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-uid"}],
        **changes,
    }
    return {"metadata": {"namespace": "default", "name": "c", "uid": "claim-uid"}, "status": status}


def parse(found: dict[str, Any], pod: PodView = POD, *, from_template: bool = False) -> UsableClaim:
    return parse_usable_claim(parse_resource_claim(found), pod, from_template=from_template)


def test_each_driver_of_a_claim_is_named_once() -> None:
    assert parse(claim("b", "a", "b")).drivers == ("b", "a")


def test_a_driver_is_skipped_only_if_all_its_devices_say_so() -> None:
    found = claim("a", "b", "b")
    results = found["status"]["allocation"]["devices"]["results"]
    results[0]["skipNodeOperations"] = ["All"]
    results[1]["skipNodeOperations"] = ["NodePrepareResources"]
    usable = parse(found)

    assert (usable.drivers, usable.skips) == (("b",), {"a": ("All",), "b": ()})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (claim("a", allocation=None), "ResourceClaim c: not allocated"),
        (claim("a", reservedFor=[]), r"pod p \(pod-uid\) is not allowed to use ResourceClaim c \(claim-uid\)"),
    ],
)
def test_a_claim_that_a_pod_may_not_use_is_refused_in_the_kubelets_words(found: dict[str, Any], words: str) -> None:
    with pytest.raises(PodStartError, match=words):
        parse(found)


def test_a_claim_that_is_reserved_for_the_pods_group_may_be_used() -> None:
    group = view_pod({"metadata": {"name": "p"}, "spec": {"schedulingGroup": {"podGroupName": "g"}}})
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-uid"}

    assert parse(claim("a", reservedFor=[user]), group).drivers == ("a",)


def test_a_claim_that_is_reserved_for_a_group_of_another_api_may_not_be_used() -> None:
    group = view_pod({"metadata": {"name": "p"}, "spec": {"schedulingGroup": {"podGroupName": "g"}}})
    user = {"apiGroup": "example.test", "resource": "podgroups", "name": "g", "uid": "g-uid"}

    with pytest.raises(PodStartError, match="is not allowed to use ResourceClaim c"):
        parse(claim("a", reservedFor=[user]), group)


class Reader:
    """Knows an old claim, and has a new one."""

    def __init__(self, known: dict[str, Any] | None, stored: dict[str, Any] | None) -> None:
        self.known, self.stored, self.requests = known, stored, 0

    def find_known(self, namespace: str, name: str) -> ResourceClaim | None:
        return None if self.known is None else parse_resource_claim(self.known)

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        self.requests += 1
        if self.stored is None:
            raise NotFoundError('resourceclaims.resource.k8s.io "c" not found', status=404)
        return parse_resource_claim(self.stored)


async def test_a_claim_that_is_known_costs_no_request() -> None:
    reader = Reader(claim("a"), None)
    await read_usable_claim(reader, POD, "c", from_template=False)

    assert reader.requests == 0


async def test_a_claim_that_is_known_from_before_its_reservation_is_read_again() -> None:
    reader = Reader(claim("a", reservedFor=[]), claim("a"))

    assert (await read_usable_claim(reader, POD, "c", from_template=False)).drivers == ("a",)


async def test_a_claim_that_is_not_there_is_named() -> None:
    with pytest.raises(PodStartError, match=r'ResourceClaim c: resourceclaims\.resource\.k8s\.io "c" not found'):
        await read_usable_claim(Reader(None, None), POD, "c", from_template=False)
