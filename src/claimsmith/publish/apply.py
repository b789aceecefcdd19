"""Does the writes of a plan, in its order, each only if nobody has changed the slice since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from claimsmith.api.kinds import RESOURCE_SLICE, Kind
from claimsmith.api.resource import encode_resource_slice, parse_resource_slice
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import KubeObject, Preconditions
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.plan import SlicePlan

__all__ = ["SliceWriter", "StoredSlice", "Write", "apply_plan", "decode_stored"]


class SliceWriter(Protocol):
    """What is needed of a client."""

    async def create(self, kind: Kind, obj: Mapping[str, Any]) -> KubeObject:
        """Create an object and return it as stored."""
        ...

    async def update(self, kind: Kind, obj: Mapping[str, Any]) -> KubeObject:
        """Replace an object and return it as stored."""
        ...

    async def delete(self, kind: Kind, name: str, *, preconditions: Preconditions | None = None) -> KubeObject:
        """Delete an object if it still is the one that is meant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSlice:
    """A slice as the API server has it.

    Args:
        value: What this version understands of it.
        raw: All of it, so that an update loses nothing.
    """

    value: ResourceSlice
    raw: KubeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write that was done.

    Args:
        name: Name of the slice.
        sent: What was sent; None for a deletion.
        stored: What the server made of it; None for a deletion.
    """

    name: str
    sent: ResourceSlice | None = None
    stored: ResourceSlice | None = None


def decode_stored(obj: KubeObject) -> StoredSlice:
    """Return a slice with the object that it was read from.

    Raises:
        FieldError: The object is no slice that this version understands.
    """
    return StoredSlice(value=parse_resource_slice(obj), raw=obj)


async def apply_plan(
    client: SliceWriter, plan: SlicePlan, stored: Mapping[str, StoredSlice], *, done: list[Write]
) -> None:
    """Do the writes of a plan: deletes, updates, creates.

    Args:
        client: Where to write.
        plan: What to write.
        stored: The slices that the plan was made from, by name.
        done: Takes each write as soon as it is done, so that a failure in between loses none.

    Raises:
        ConflictError: Somebody has changed a slice since: plan again.
        ApiError: The server refused, or could not be reached.
    """
    for item in plan.deletes:
        await _delete(client, item)
        done.append(Write(name=item.name))
    for item in plan.updates:
        answer = await client.update(RESOURCE_SLICE, _updated(item, stored[item.name].raw))
        done.append(_write(item, answer))
    for item in plan.creates:
        answer = await client.create(RESOURCE_SLICE, encode_resource_slice(item))
        done.append(_write(item, answer))


async def _delete(client: SliceWriter, item: ResourceSlice) -> None:
    """Delete this very version of a slice; one that is gone already is fine."""
    wanted = Preconditions(uid=item.metadata.uid, resource_version=item.metadata.resource_version)
    try:
        await client.delete(RESOURCE_SLICE, item.name, preconditions=wanted)
    except NotFoundError:
        return


def _updated(item: ResourceSlice, raw: KubeObject) -> KubeObject:
    """Return the stored object with another spec; its resourceVersion makes a change in between a conflict."""
    if (raw.get("metadata") or {}).get("resourceVersion") != item.metadata.resource_version:
        raise ConflictError(f"slice {item.name}: found another version than the plan was made from; plan again")
    head = {"apiVersion": RESOURCE_SLICE.api_version, "kind": RESOURCE_SLICE.kind}
    return {**raw, **head, "spec": encode_resource_slice(item)["spec"]}


def _write(sent: ResourceSlice, answer: KubeObject) -> Write:
    stored = parse_resource_slice(answer)
    return Write(name=stored.name, sent=sent, stored=stored)
