"""Reading a cluster once, by lists alone."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import KINDS, NODE, OLDER_KINDS, POD, POD_GROUP, RESOURCE_QUOTA, RESOURCE_SLICE, Kind
from claimsmith.cluster.read import READ_BY_SNAPSHOT, read_cluster
from claimsmith.errors import ForbiddenError, NotFoundError
from claimsmith.kube.client import ObjectList


class ListedObjects:
    """A server that lists what it is given, and refuses what it is told to refuse.

    Args:
        objects: Items by kind, without `apiVersion` and `kind`, as servers list them.
        unserved: Kinds that it does not know, in that version.
        forbidden: Kinds that may not be listed.
    """

    def __init__(
        self,
        objects: dict[Kind, list[dict[str, Any]]],
        *,
        unserved: tuple[Kind, ...] = (),
        forbidden: tuple[Kind, ...] = (),
    ) -> None:
        self._objects, self._unserved, self._forbidden = objects, unserved, forbidden
        self.asked: list[Kind] = []

    async def list(self, kind: Kind) -> ObjectList:
        self.asked.append(kind)
        if kind in self._unserved:
            raise NotFoundError(f"{kind.plural}: not found; ask for another")
        if kind in self._forbidden:
            raise ForbiddenError(f"{kind.plural}: forbidden; ask for the right")
        return ObjectList(items=self._objects.get(kind, []), resource_version=str(100 + len(self.asked)))


V1BETA1_SLICE: dict[str, Any] = {
    "metadata": {"name": "gpus"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "alpha",
        "pool": {"name": "alpha", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "one", "basic": {"attributes": {"model": {"string": "T4"}}}}],
    },
}


async def test_everything_that_decisions_read_is_listed_once() -> None:
    server = ListedObjects({NODE: [{"metadata": {"name": "alpha"}}], POD: [pod("a"), pod("b")]})
    read = await read_cluster(server)

    assert server.asked == list(READ_BY_SNAPSHOT)
    assert list(read.snapshot.nodes) == ["alpha"]
    assert [str(ref) for ref in read.snapshot.pods] == ["team/a", "team/b"]
    assert (read.snapshot.resource_version, read.left_out) == (str(100 + len(READ_BY_SNAPSHOT)), ())


async def test_an_older_server_is_read_in_the_version_that_it_has() -> None:
    newest, middle, oldest = (kind for kind in server_versions(RESOURCE_SLICE))
    server = ListedObjects({oldest: [V1BETA1_SLICE]}, unserved=(newest, middle))
    read = await read_cluster(server)

    assert [device.attributes["model"].value for item in read.snapshot.slices for device in item.devices] == ["T4"]


async def test_kinds_that_are_not_served_are_taken_for_empty() -> None:
    read = await read_cluster(ListedObjects({}, unserved=(POD_GROUP,)))

    assert (read.snapshot.pod_groups, read.left_out) == ({}, ())


async def test_a_kind_that_is_useful_and_may_not_be_listed_is_named() -> None:
    read = await read_cluster(ListedObjects({}, forbidden=(RESOURCE_QUOTA,)))

    assert read.left_out == (
        "left out resourcequotas, which may not be listed; grant the right to list them, or read answers without",
    )


@pytest.mark.parametrize("kind", [NODE, POD, RESOURCE_SLICE], ids=str)
async def test_without_the_right_to_list_what_is_needed_there_is_no_answer(kind: Kind) -> None:
    with pytest.raises(ForbiddenError, match=kind.plural):
        await read_cluster(ListedObjects({}, forbidden=(kind,)))


async def test_a_server_without_devices_is_refused() -> None:
    with pytest.raises(NotFoundError, match="resourceslices"):
        await read_cluster(ListedObjects({}, unserved=tuple(server_versions(RESOURCE_SLICE))))


def test_nothing_that_may_hold_secrets_is_read() -> None:
    kinds = {kind.kind for kind in READ_BY_SNAPSHOT}

    assert not kinds & {"Secret", "ConfigMap", "ServiceAccount", "Event"}
    assert kinds <= {kind.kind for kind in KINDS} | {"PodDisruptionBudget", "ResourceQuota"}


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


def server_versions(kind: Kind) -> list[Kind]:
    return [kind, *(older for older in OLDER_KINDS if older.hub is kind)]
