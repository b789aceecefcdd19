"""Labels straight onto the Node, by server-side apply: the server knows which are ours, and removes just those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from claimsmith.api.kinds import NODE, Kind
from claimsmith.errors import ConflictError, InvalidObjectError
from claimsmith.kube.client import KubeObject

__all__ = ["LABEL_MANAGER", "LabelClient", "LabelWrite", "apply_labels", "find_label_owners", "plan_label_write"]

LABEL_MANAGER: Final = "claimsmith-labels"
"""Field manager of the labels; what it owns are the labels that claimsmith has set."""
_TRIES: Final = 3
_LABEL: Final = "f:"


class LabelClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str) -> KubeObject:
        """Return one object."""
        ...

    async def apply(
        self, kind: Kind, obj: Mapping[str, Any], *, field_manager: str = "", force: bool = False
    ) -> KubeObject:
        """Apply an object on the server."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWrite:
    """What has to be written.

    Args:
        body: The object to apply; None when all is as it should be.
        left: Labels that are left as they are, since somebody else has set them to another value: who, by key.
        added, removed: Keys that come or change, and keys that go.
    """

    body: KubeObject | None
    left: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def find_label_owners(node: KubeObject) -> Mapping[str, frozenset[str]]:
    """Return who has set each label of an object, by key; labels of which nothing is recorded are left out.

    Source: managedFields of meta/v1; FieldsV1 of structured-merge-diff.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for entry in (node.get("metadata") or {}).get("managedFields") or ():
        labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
        for name in labels:
            if name.startswith(_LABEL):
                owners[name.removeprefix(_LABEL)].add(str(entry.get("manager")))
    return {name: frozenset(found) for name, found in owners.items()}


def plan_label_write(node: KubeObject, wanted: Mapping[str, str], *, force: bool = False) -> LabelWrite:
    """Return what to apply so that a node has the labels, and no other label that we have set before.

    Args:
        node: The Node as the server has it, with managedFields.
        wanted: All labels that it is to have from us.
        force: Take over labels that others have set to another value.
    """
    metadata = node.get("metadata") or {}
    present: Mapping[str, str] = metadata.get("labels") or {}
    owners = find_label_owners(node)
    left = {} if force else {key: owner for key in wanted if (owner := _find_rival(key, wanted, present, owners))}
    labels = {key: value for key, value in wanted.items() if key not in left}
    ours = {key for key, found in owners.items() if LABEL_MANAGER in found and key in present}
    added = tuple(sorted(key for key, value in labels.items() if present.get(key) != value or key not in ours))
    removed = tuple(sorted(ours - labels.keys()))
    if not added and not removed:
        return LabelWrite(body=None, left=left)
    # With the uid the server refuses to make a Node that is gone in between.
    body = {"metadata": {"name": metadata.get("name"), "uid": metadata.get("uid"), "labels": labels}}
    return LabelWrite(body=body, left=left, added=added, removed=removed)


async def apply_labels(client: LabelClient, node: str, wanted: Mapping[str, str], *, force: bool = False) -> LabelWrite:
    """Give a node its labels; none takes all away that we have set. Return what was written.

    Args:
        client: The API server.
        node: Name of the node.
        wanted: All labels that it is to have from us.
        force: Take over labels that others have set to another value.

    Raises:
        NotFoundError: There is no such node.
        ApiError: The server refused, or could not be reached.
    """
    for attempt in range(_TRIES):
        plan = plan_label_write(await client.get(NODE, node), wanted, force=force)
        if plan.body is None:
            return plan
        try:
            await client.apply(NODE, plan.body, field_manager=LABEL_MANAGER, force=force)
            return plan
        except (ConflictError, InvalidObjectError):
            # Somebody has set one of the labels since the node was read, or has made the node anew: look again.
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _find_rival(
    key: str, wanted: Mapping[str, str], present: Mapping[str, str], owners: Mapping[str, frozenset[str]]
) -> str:
    """Return who else has set a label to another value; empty when nobody has."""
    others = owners.get(key, frozenset()) - {LABEL_MANAGER}
    is_rival = bool(others) and key in present and present[key] != wanted[key]
    return ", ".join(sorted(others)) if is_rival else ""
