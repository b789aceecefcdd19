"""Objects are judged as the API server judges them where its documentation or its older rules say otherwise."""

from __future__ import annotations

import pytest

from claimsmith.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from tests.unit.validate.objects import Json, claim, created, device_slice, pod, request


@pytest.mark.parametrize(
    "tolerations",
    [[{"key": f"k{number}", "operator": "Exists"} for number in range(40)], [{"operator": "Equal", "value": "v"}]],
    ids=["more than 16", "no key, but a value"],
)
def test_tolerations_of_a_request_are_neither_counted_nor_asked_for_a_key(tolerations: list[Json]) -> None:
    assert created(RESOURCE_CLAIM, claim(request(tolerations=tolerations))) == []


def test_a_list_beyond_its_limit_is_reported_without_what_is_wrong_inside() -> None:
    requests = [request(f"Not-dns-{number}") for number in range(33)]

    assert created(RESOURCE_CLAIM, claim(*requests)) == [("TooMany", "spec.devices.requests")]


def test_a_qualified_name_may_have_two_slashes() -> None:
    constraint = {"matchAttribute": "example.com/a/b"}

    assert created(RESOURCE_CLAIM, claim(request(), constraints=[constraint])) == []


def test_probes_and_volumes_of_a_pod_are_left_to_a_real_server() -> None:
    odd = pod(
        containers=[{"name": "c", "image": "x", "livenessProbe": {"periodSeconds": -1}}], volumes=[{"name": "Not-dns"}]
    )

    assert created(POD, odd) == []


def test_fields_behind_gates_that_are_off_in_a_stock_server_are_checked() -> None:
    wrong = device_slice(skipNodeOperations=["Everything"])

    assert created(RESOURCE_SLICE, wrong) == [("NotSupported", "spec.skipNodeOperations[0]")]
