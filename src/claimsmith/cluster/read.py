"""A snapshot read from an API server once, with nothing but the rights to list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    OLDER_KINDS,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    Kind,
)
from claimsmith.api.objects import ModelObject, find_parser
from claimsmith.cluster.build import build_snapshot
from claimsmith.errors import ForbiddenError, NotFoundError
from claimsmith.kube.client import ObjectList
from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["READ_BY_SNAPSHOT", "Lister", "ReadCluster", "read_cluster"]

_NEEDED: Final = (NODE, POD, RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM)
"""Without these, no decision can be told."""
_USEFUL: Final = (
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    PRIORITY_CLASS,
    POD_DISRUPTION_BUDGET,
    RESOURCE_QUOTA,
    POD_GROUP,
)
"""A server may not serve these, or its caller may not read them: decisions are told without."""
READ_BY_SNAPSHOT: Final[tuple[Kind, ...]] = (*_NEEDED, *_USEFUL)
"""What is listed: the caller needs the verb `list` on these and nothing else."""


class Lister(Protocol):
    """Lists objects of a kind, as `KubeClient` does."""

    async def list(self, kind: Kind, /) -> ObjectList:
        """Return all objects of a kind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCluster:
    """What was read.

    Args:
        snapshot: The cluster.
        left_out: One sentence for each kind that may not be read; of a kind that is not served there are no objects.
    """

    snapshot: ClusterSnapshot
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    objects: tuple[ModelObject, ...] = ()
    version: str = ""
    missing: str = ""


async def read_cluster(client: Lister) -> ReadCluster:
    """Return a snapshot of a cluster.

    The kinds are listed side by side, so that they may be a moment apart, as for a scheduler's watches.

    Raises:
        ForbiddenError: The caller may not list nodes, pods, slices, classes or claims.
        NotFoundError: The server serves none of these.
        UnreachableError: It does not answer.
        InputError: An object can't be understood.
    """
    found = await asyncio.gather(*(_read_kind(client, kind) for kind in READ_BY_SNAPSHOT))
    versions = [item.version for item in found if item.version.isdigit()]
    return ReadCluster(
        snapshot=build_snapshot(
            (value for item in found for value in item.objects), resource_version=max(versions, key=int, default="")
        ),
        left_out=tuple(item.missing for item in found if item.missing),
    )


async def _read_kind(client: Lister, kind: Kind) -> _Found:
    try:
        served, listed = await _list(client, kind)
    except NotFoundError:
        if kind in _NEEDED:
            raise
        return _Found()  # there are none of a kind that is not served
    except ForbiddenError:
        if kind in _NEEDED:
            raise
        text = f"left out {kind.plural}, which may not be listed; grant the right to list them, or read answers without"
        return _Found(missing=text)
    parse = find_parser(kind)
    assert parse is not None
    named = {"apiVersion": served.api_version, "kind": served.kind}
    objects = tuple([parse(_name(item, named), source=f"{kind.plural} of the cluster") for item in listed.items])
    return _Found(objects=objects, version=listed.resource_version)


async def _list(client: Lister, kind: Kind) -> tuple[Kind, ObjectList]:
    """List a kind in the newest version that the server has.

    Raises:
        NotFoundError: It has none.
    """
    older = [item for item in OLDER_KINDS if item.hub is kind]
    for version in (kind, *older[:-1]):
        try:
            return version, await client.list(version)
        except NotFoundError:
            if not older:
                raise
    return older[-1], await client.list(older[-1])


def _name(item: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, Any]:
    return {**item, **named}
