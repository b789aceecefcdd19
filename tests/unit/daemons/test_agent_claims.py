"""What the drivers of a node learn of claims and pods from the API server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from claimsmith.api.kinds import Kind
from claimsmith.daemons.agent_claims import ApiPods
from claimsmith.errors import ApiError, ForbiddenError, NotFoundError, UnreachableError
from claimsmith.model.claim import ConsumerReference

POD = ConsumerReference(resource="pods", name="train", uid="u1")


class Server:
    """An API server with one pod, or with one error for everybody who asks."""

    def __init__(self, metadata: dict[str, Any] | None = None, error: ApiError | None = None) -> None:
        self._metadata, self._error = metadata, error

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        if self._error is not None:
            raise self._error
        assert (kind.plural, namespace, name) == ("pods", "team", "train")
        return {"metadata": self._metadata}


async def is_needed(server: Server, consumer: ConsumerReference = POD) -> bool:
    return await ApiPods(server).is_needed(consumer, namespace="team")


async def test_a_pod_that_stays_is_needed() -> None:
    assert await is_needed(Server({"uid": "u1"}))


@pytest.mark.parametrize(
    "server",
    [
        Server({"uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        Server({"uid": "of a pod that was made again"}),
        Server(error=NotFoundError("pod team/train: found none", status=404, reason="NotFound")),
    ],
    ids=["being deleted", "made again", "gone"],
)
async def test_a_pod_that_goes_is_not_needed(server: Server) -> None:
    assert not await is_needed(server)


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError("pods is forbidden", status=403, reason="Forbidden"),
        UnreachableError("no answer"),
    ],
)
async def test_a_pod_that_can_not_be_read_counts_as_needed(error: ApiError) -> None:
    assert await is_needed(Server(error=error))


async def test_a_consumer_that_is_no_pod_counts_as_needed() -> None:
    group = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="gang", uid="u2")

    assert await is_needed(Server(), group)


COUNT_CALLS = """
import sys
from claimsmith.api.resource import parse_resource_claim
from claimsmith.daemons.agent_claims import ApiClaims

ApiClaims(client=None)
calls = []
for _ in range(2):
    made = []
    sys.setprofile(lambda frame, event, what: made.append(event))
    parse_resource_claim({"metadata": {"name": "train", "namespace": "team"}})
    sys.setprofile(None)
    calls.append(len(made))
print(*calls)
"""


def test_the_first_claim_is_read_in_as_many_steps_as_the_second() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_CALLS], check=True, capture_output=True, text=True)
    first, second = done.stdout.split()

    assert int(first) <= int(second) + 10
