from __future__ import annotations

from typing import Any

import pytest

from claimsmith.embedded.kubelet.admission import PodAdmission, count_extended
from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.devices.allocator import PodDevices
from claimsmith.embedded.kubelet.views import PodView, view_pod
from claimsmith.errors import PodRejectedError

TAPE = "example.test/tape"


def container(name: str, amount: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {TAPE: str(amount), "cpu": "1"}}, **more}


def pod(name: str, *amounts: int, init: list[dict[str, Any]] | None = None, status: Any = None) -> PodView:
    spec = {"containers": [container(f"c{i}", n) for i, n in enumerate(amounts)], "initContainers": init or []}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    return view_pod({"metadata": metadata, "spec": spec, "status": status or {}})


def admission(tmp_path: Any, offered: int | None, *others: PodView) -> PodAdmission:
    allocatable = {} if offered is None else {TAPE: offered}
    devices = PodDevices(folder=tmp_path, clock=Clock())
    return PodAdmission(devices=devices, allocatable=lambda: allocatable, others=lambda: others)


async def test_a_pod_that_wants_more_than_the_node_has_left_is_rejected(tmp_path: Any) -> None:
    checks = admission(tmp_path, 3, pod("a", 2))

    with pytest.raises(PodRejectedError) as caught:
        await checks.admit(pod("b", 2), running=False)
    assert caught.value.reason == f"OutOf{TAPE}"
    assert str(caught.value) == f"Node didn't have enough resource: {TAPE}, requested: 2, used: 2, capacity: 3"


@pytest.mark.parametrize("offered", [None, 4])
async def test_what_the_node_has_or_does_not_know_keeps_no_pod_away(tmp_path: Any, offered: int | None) -> None:
    checks = admission(tmp_path, offered, pod("a", 2))
    await checks.admit(pod("b", 2), running=False)

    assert not checks.devices.table.has_pod("uid-b")


@pytest.mark.parametrize(
    ("init", "wanted"),
    [
        ([], 3),
        ([container("i", 2), container("j", 5)], 5),
        ([container("s", 1, restartPolicy="Always"), container("j", 3)], 4),
    ],
)
def test_init_containers_run_one_after_another_and_some_stay(init: list[dict[str, Any]], wanted: int) -> None:
    assert count_extended(pod("a", 1, 2, init=init)) == {TAPE: wanted}


def test_what_a_claim_serves_is_not_taken_from_the_node() -> None:
    mapping = [{"containerName": "c0", "resourceName": TAPE, "requestName": "r"}]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": mapping}}

    assert count_extended(pod("a", 1, 2, status=status)) == {TAPE: 2}
