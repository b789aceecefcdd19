"""Amounts of extended resources in a node's status, for nodes without a device plugin. Pure but for `apply_capacity`.

What is wished stands in an annotation of the node, so that it can be set again. The kubelet keeps resources that it
does not know, over its restarts too. They are lost when the Node is deleted and registers anew, when a device plugin
of the same resource goes (the kubelet then sets 0), when somebody overwrites them, and when a kubelet registers while
the folder of its device manager is still empty; its own socket is in that folder as a rule by then.

Source: MachineInfo in pkg/kubelet/nodestatus, reconcileExtendedResource in pkg/kubelet/kubelet_node_status.go,
ShouldResetExtendedResourceCapacity in pkg/kubelet/cm/devicemanager, all kubernetes v1.37.2; seen on a real kubelet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from claimsmith.api.kinds import NODE, Kind
from claimsmith.errors import ConflictError, FieldError, InvalidObjectError, QuantityFormatError
from claimsmith.kube.client import KubeObject, PatchType
from claimsmith.model.quantity import find_quantity, parse_quantity
from claimsmith.validate.names import is_extended_resource_name

__all__ = [
    "CONFIGURED_ANNOTATION",
    "WISHES_ANNOTATION",
    "CapacityChange",
    "CapacityClient",
    "CapacityPlan",
    "apply_capacity",
    "configured_amounts",
    "find_rivals",
    "parse_amount",
    "parse_resource_name",
    "plan_capacity",
    "read_wishes",
]

WISHES_ANNOTATION: Final = "claimsmith.dev/extended-resources"
"""Annotation of a Node: a JSON object of the amounts that were set by hand."""
CONFIGURED_ANNOTATION: Final = "claimsmith.dev/configured-extended-resources"
"""The same for the amounts of an agent's configuration, so that one that leaves it is taken away."""
_AMOUNT_MAX: Final = 2**31 - 1
_TRIES: Final = 4
_LISTS: Final = ("capacity", "allocatable")


class CapacityClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str) -> KubeObject:
        """Return one object."""
        ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> KubeObject:
        """Change parts of an object."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChange:
    """What is to become of the amounts that one side keeps.

    Args:
        amounts: Amounts by resource name, to be set.
        gone: Names to be taken away; those that are not there are fine.
        annotation: Who keeps them: `WISHES_ANNOTATION` or `CONFIGURED_ANNOTATION`.
        replaces: Whether names that the annotation has, but `amounts` not, are to be taken away too.
    """

    amounts: Mapping[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    annotation: str = WISHES_ANNOTATION
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """What to write.

    Args:
        metadata: A merge patch of the node's annotations; None when they are right.
        status: A JSON patch of the node's status; empty when it is right.
        restored: Names whose amounts somebody has changed since.
    """

    metadata: Mapping[str, Any] | None
    status: tuple[Mapping[str, Any], ...]
    restored: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.metadata is None and not self.status


def parse_resource_name(text: str) -> str:
    """Return the name of an extended resource.

    Raises:
        FieldError: It is none that a node may be given.
    """
    if not is_extended_resource_name(text):
        allowed = "a domain of its own, outside of kubernetes.io, and a name, such as example.com/gpu"
        raise FieldError("resource", text, allowed=allowed, hint="correct the name")
    return text


def parse_amount(text: str) -> tuple[str, int]:
    """Return name and amount of `nvidia.com/gpu=1`.

    Raises:
        FieldError: The name is no extended resource, or the amount is no whole number that a node can have.
    """
    name, separator, amount = text.partition("=")
    if not separator:
        raise FieldError("resource", text, allowed="NAME=AMOUNT such as example.com/gpu=1", hint="add the amount")
    found = parse_resource_name(name)
    allowed = f"a whole number from 0 to {_AMOUNT_MAX}"
    try:
        quantity = parse_quantity(amount)
    except QuantityFormatError as error:
        raise FieldError(found, amount, allowed=allowed, hint="correct the amount") from error
    if quantity.nanos % 10**9 or not 0 <= quantity.value() <= _AMOUNT_MAX:
        raise FieldError(found, amount, allowed=allowed, hint="devices are counted whole; correct the amount")
    return found, quantity.value()


def read_wishes(node: KubeObject, annotation: str = WISHES_ANNOTATION) -> Mapping[str, int]:
    """Return the amounts that an annotation of a node keeps; parts that can't be read are passed over."""
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(annotation, "")
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {
        name: amount
        for name, amount in items
        if is_extended_resource_name(name) and type(amount) is int and 0 <= amount <= _AMOUNT_MAX
    }


def configured_amounts(amounts: Mapping[str, int]) -> CapacityChange:
    """Return the change that makes a configuration's amounts those of a node, and takes away those that left it."""
    return CapacityChange(amounts=amounts, annotation=CONFIGURED_ANNOTATION, replaces=True)


def plan_capacity(node: KubeObject, change: CapacityChange | None = None) -> CapacityPlan:
    """Return what to write so that a node's status has the amounts, and goes on to have those of earlier.

    Args:
        node: The Node as the server has it.
        change: What is to become different; None: only restore what the annotations keep.
    """
    kept = {name: read_wishes(node, name) for name in (CONFIGURED_ANNOTATION, WISHES_ANNOTATION)}
    known = _join(kept)
    metadata, gone = None, frozenset[str]()
    if change is not None:
        before = kept[change.annotation]
        gone = change.gone | (before.keys() - change.amounts.keys() if change.replaces else frozenset())
        after = {name: amount for name, amount in {**before, **change.amounts}.items() if name not in gone}
        kept[change.annotation] = after
        metadata = _annotate(node, change.annotation, after) if after != before else None
    wanted = _join(kept)
    status = tuple(_iter_operations(node, wanted, gone - wanted.keys()))
    wrong = [name for name, amount in sorted(wanted.items()) if not _is_right(node, name, amount)]
    restored = tuple(name for name in wrong if known.get(name) == wanted[name])
    return CapacityPlan(metadata=metadata, status=status, restored=restored)


async def apply_capacity(client: CapacityClient, node: str, change: CapacityChange | None = None) -> CapacityPlan:
    """Change a node's amounts, or restore them, and return what was written.

    The annotation is written first: a stop in between is mended by whoever restores next.

    Args:
        client: The API server.
        node: Name of the node.
        change: What is to become different; None: only restore what the annotations keep.

    Raises:
        NotFoundError: There is no such node.
        ApiError: The server refused, or could not be reached.
    """
    for attempt in range(_TRIES):
        plan = plan_capacity(await client.get(NODE, node), change)
        try:
            if plan.metadata is not None:
                await client.patch(NODE, node, plan.metadata)
            if plan.status:
                await client.patch(NODE, node, plan.status, patch_type="json", subresource="status")
            return plan
        except (ConflictError, InvalidObjectError):
            # The node has changed since it was read: the tests in the patch did not hold.
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


def find_rivals(
    name: str, *, node: KubeObject, classes: Iterable[KubeObject] = (), plugins: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return who else decides about a resource of a node, one sentence each; empty when nobody does.

    Args:
        name: Name of the resource.
        node: The Node as the server has it.
        classes: DeviceClasses of the cluster.
        plugins: Resources that device plugins have registered with the node's kubelet, as far as it is known.
    """
    found = []
    kept = {**read_wishes(node), **read_wishes(node, CONFIGURED_ANNOTATION)}
    present = find_quantity(str(_amounts(node, "capacity").get(name, "")))
    if name in set(plugins):
        found.append(f"a device plugin has registered {name} at the kubelet, which will overwrite the amount")
    elif present is not None and name not in kept:
        found.append(
            f"the node has {name}={present} from somebody else, such as a device plugin, also one that is gone"
        )
    for item in classes:
        if (item.get("spec") or {}).get("extendedResourceName") == name:
            title = (item.get("metadata") or {}).get("name")
            found.append(
                f"DeviceClass {title} serves {name} by dynamic resource allocation: with an amount in the node's "
                "status, pods there get no device from it"
            )
    return tuple(found)


def _join(kept: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Return all amounts; what was set by hand wins over the configuration."""
    return {**kept[CONFIGURED_ANNOTATION], **kept[WISHES_ANNOTATION]}


def _annotate(node: KubeObject, annotation: str, amounts: Mapping[str, int]) -> Mapping[str, Any]:
    text = json.dumps(dict(sorted(amounts.items())), separators=(",", ":")) if amounts else None
    version = (node.get("metadata") or {}).get("resourceVersion")
    return {"metadata": {"annotations": {annotation: text}, "resourceVersion": version}}


def _iter_operations(node: KubeObject, wanted: Mapping[str, int], gone: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the operations of a JSON patch; `/` in names is written `~1`. Source: RFC 6901, RFC 6902."""
    status = node.get("status")
    operations: list[Mapping[str, Any]] = []
    if wanted and not isinstance(status, dict):
        operations.append({"op": "add", "path": "/status", "value": {}})
    for part in _LISTS:
        amounts = _amounts(node, part)
        if wanted and part not in (status or {}):
            operations.append({"op": "add", "path": f"/status/{part}", "value": {}})
        operations += [
            {"op": "add", "path": f"/status/{part}/{_escape(name)}", "value": str(amount)}
            for name, amount in sorted(wanted.items())
            if not _equals(amounts.get(name), amount)
        ]
        operations += [
            {"op": "remove", "path": f"/status/{part}/{_escape(name)}"} for name in sorted(gone & amounts.keys())
        ]
    if operations:
        metadata = node.get("metadata") or {}
        is_bare = any(operation["value"] == {} for operation in operations if "value" in operation)
        guard = "resourceVersion" if is_bare else "uid"
        yield {"op": "test", "path": f"/metadata/{guard}", "value": metadata.get(guard)}
        yield from operations


def _is_right(node: KubeObject, name: str, amount: int) -> bool:
    return all(_equals(_amounts(node, part).get(name), amount) for part in _LISTS)


def _amounts(node: KubeObject, part: str) -> Mapping[str, Any]:
    return (node.get("status") or {}).get(part) or {}


def _equals(found: object, amount: int) -> bool:
    quantity = find_quantity(str(found)) if found is not None else None
    return quantity is not None and quantity.nanos == amount * 10**9


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
