from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.driverreturn import DriverReturn
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.schedule.returns import RETURN_ANNOTATION, find_claim_refs, plan_touches
from claimsmith.testing.builders import DRIVER, allocated, claim, request, result

RETURNED = DriverReturn(driver=DRIVER, node="node-a", at="2026-01-01T10:00:00Z", event_uid="e1")
CLAIMS = {ClaimRef("default", "gpus"): allocated(claim("gpus", request()), result("gpu-0"), reserved_for=["pod"])}
WAITING = Pod(
    metadata=Metadata(name="train", namespace="default", uid="u1", creation_timestamp="2026-01-01T09:59:00Z"),
    claims=(PodClaim(name="g", claim_name="gpus"),),
    node_name="node-a",
)


def touched(*pods: Pod, returned: DriverReturn = RETURNED, claims: dict[ClaimRef, ResourceClaim] = CLAIMS) -> list[str]:
    return [touch.pod.name for touch in plan_touches(returned, pods, claims)]


def annotated(value: str) -> Pod:
    return replace(WAITING, metadata=replace(WAITING.metadata, annotations={RETURN_ANNOTATION: value}))


def test_a_pod_that_waits_for_the_driver_is_touched_with_the_time_of_its_return() -> None:
    (touch,) = plan_touches(RETURNED, [WAITING], CLAIMS)

    assert (touch.pod, touch.uid, touch.value) == (PodRef("default", "train"), "u1", "2026-01-01T10:00:00Z/e1")


@pytest.mark.parametrize(
    "pod",
    [
        replace(WAITING, phase="Running"),
        replace(WAITING, node_name="node-b"),
        replace(WAITING, metadata=replace(WAITING.metadata, creation_timestamp="2026-01-01T10:00:01Z")),
        replace(WAITING, claims=()),
        replace(WAITING, claims=(PodClaim(name="g", template_name="t"),)),
    ],
)
def test_other_pods_are_left_alone(pod: Pod) -> None:
    assert touched(pod) == []


def test_a_pod_that_waits_to_give_its_devices_back_is_touched() -> None:
    ending = replace(WAITING.metadata, deletion_timestamp="2026-01-01T09:59:30Z")

    assert touched(replace(WAITING, phase="Running", metadata=ending)) == ["train"]


def test_pods_of_other_drivers_and_of_claims_without_devices_are_left_alone() -> None:
    pending = {ClaimRef("default", "gpus"): claim("gpus", request())}

    assert touched(WAITING, returned=replace(RETURNED, driver="other.example.test")) == []
    assert touched(WAITING, claims=pending) == []
    assert touched(WAITING, claims={}) == []


def test_a_pod_is_touched_once_for_a_return_and_not_for_an_earlier_one() -> None:
    assert touched(annotated("2026-01-01T10:00:00Z/e1")) == []
    assert touched(annotated("2026-01-01T10:05:00Z/e9")) == []
    assert touched(annotated("2026-01-01T09:59:59Z/e0")) == ["train"]
    assert touched(annotated("2026-01-01T10:00:00Z/e2")) == ["train"]


def test_the_claims_of_a_pod_are_those_that_are_made_of_every_kind() -> None:
    pod = replace(
        WAITING,
        claims=(
            PodClaim(name="g", claim_name="gpus"),
            PodClaim(name="t", template_name="x"),
            PodClaim(name="u", template_name="y"),
        ),
        claim_names={"t": "train-t-1", "u": None},
        extended_claim_name="train-extended",
    )

    assert [ref.name for ref in find_claim_refs(pod)] == ["gpus", "train-t-1", "train-extended"]


def test_a_return_is_read_from_the_message_that_tells_of_it() -> None:
    message = RETURNED.describe(("default/a", "default/b"))

    assert message.endswith("serves claims of this node again; never answered: default/a, default/b")
    assert DriverReturn.find(message, node="node-a", at=RETURNED.at, event_uid="e1") == RETURNED
    assert DriverReturn.find("Started container main", node="node-a", at=RETURNED.at, event_uid="e1") is None


def test_a_message_names_only_some_of_many_claims() -> None:
    message = RETURNED.describe(tuple(f"default/c{number}" for number in range(30)))

    assert message.endswith("default/c7 and 22 more")
