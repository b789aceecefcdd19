"""Asks the API server what the doctor wants to know. Reads only; what is refused is told as such."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.api.resource import parse_resource_slice
from claimsmith.errors import ApiError, ClaimsmithError
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.transport import Answer
from claimsmith.model.device import Device
from claimsmith.node.doctor_facts import AccessFact, ApiFacts, NodeFact, PodFact, PublishedDevice
from claimsmith.validate.names import is_extended_resource_name

__all__ = ["RIGHTS", "Right", "collect_api"]

_REVIEW: Final = Kind(
    group="authorization.k8s.io", version="v1", kind="SelfSubjectAccessReview", plural="selfsubjectaccessreviews",
    module="", namespaced=False, verbs=("create",),
)  # fmt: skip
_GROUP: Final = "resource.k8s.io"
_VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
_NO_DEVICES: Final = (None, "", "void", "none")
_IDS: Final = ("uuid", "UUID", "resource.kubernetes.io/pciBusID", "pciBusID", "pciAddress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something that the agent must be allowed to do.

    Args:
        subresource: Part of the object, such as `status`; empty for the object itself.
        is_needed: False when only an option needs it.
    """

    verb: str
    resource: str
    purpose: str
    group: str = ""
    subresource: str = ""
    is_needed: bool = True

    @property
    def title(self) -> str:
        """Resource, group and part, as rules have them."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{name}/{self.subresource}" if self.subresource else name


RIGHTS: Final = (
    *(
        Right(verb=verb, resource="resourceslices", group=_GROUP, purpose="publishing devices")
        for verb in ("list", "watch", "create", "update", "delete")
    ),
    Right(verb="get", resource="resourceclaims", group=_GROUP, purpose="preparing claims"),
    Right(verb="list", resource="resourceclaims", group=_GROUP, purpose="releasing claims that are gone"),
    Right(verb="get", resource="nodes", purpose="owning its slices"),
    Right(verb="patch", resource="nodes", purpose="labels", is_needed=False),
    Right(verb="patch", resource="nodes", subresource="status", purpose="extended resources", is_needed=False),
    Right(verb="create", resource="events", purpose="telling of failed devices", is_needed=False),
    *(
        Right(verb=verb, resource="devicetaintrules", group=_GROUP, purpose="taints as rules", is_needed=False)
        for verb in ("list", "create", "delete")
    ),
)
"""What the agent does, besides writing the status of devices in claims, whose rules depend on the driver."""


async def collect_api(client: KubeClient, node: str) -> ApiFacts:
    """Return what the API server tells of itself, of a node, and of this user's rights."""
    try:
        version = await client.fetch("/version")
    except ApiError as error:
        return ApiFacts(error=str(error))
    served, found, gates = await asyncio.gather(
        _find_versions(client), _find_node(client, node), _find_gates(client, node)
    )
    access, devices, claims, pods = await asyncio.gather(
        asyncio.gather(*(_review(client, right) for right in RIGHTS)),
        _list_devices(client, node),
        _list_claims(client),
        _list_pods(client, node),
    )
    return ApiFacts(
        version=str(_decode(version).get("gitVersion") or ""),
        clock_s=_find_clock(version.headers),
        dra_versions=served,
        node=found,
        gates=gates,
        access=tuple(item for item in access if item is not None),
        devices=devices,
        claims=claims,
        pods=pods,
    )


async def _find_versions(client: KubeClient) -> tuple[str, ...]:
    try:
        group = _decode(await client.fetch(f"/apis/{_GROUP}"))
    except ApiError:
        return ()
    return tuple(str(item.get("version")) for item in group.get("versions") or ())


async def _find_node(client: KubeClient, name: str) -> NodeFact | None:
    try:
        obj = await client.get(NODE, name)
    except ApiError:
        return None
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    conditions = {item.get("type"): item.get("status") for item in status.get("conditions") or ()}
    return NodeFact(
        ready=conditions.get("Ready") == "True",
        kubelet_version=str(info.get("kubeletVersion") or ""),
        runtime_version=str(info.get("containerRuntimeVersion") or ""),
        boot_id=str(info.get("bootID") or ""),
    )


async def _find_gates(client: KubeClient, node: str) -> Mapping[str, bool] | None:
    """Return the gates that the kubelet's configuration sets. Source: configz of the kubelet."""
    try:
        document = _decode(await client.fetch(f"/api/v1/nodes/{node}/proxy/configz"))
    except ApiError:
        return None
    gates = (document.get("kubeletconfig") or {}).get("featureGates") or {}
    return {str(name): value is True for name, value in gates.items()}


async def _review(client: KubeClient, right: Right) -> AccessFact | None:
    attributes = {
        "verb": right.verb, "group": right.group, "resource": right.resource, "subresource": right.subresource,
    }  # fmt: skip
    try:
        answer = await client.create(_REVIEW, _body({"resourceAttributes": attributes}))
    except ApiError:
        return None
    allowed = (answer.get("status") or {}).get("allowed") is True
    return AccessFact(
        verb=right.verb, resource=right.title, purpose=right.purpose, allowed=allowed, is_needed=right.is_needed
    )


def _body(spec: Mapping[str, Any]) -> KubeObject:
    return {"apiVersion": _REVIEW.api_version, "kind": _REVIEW.kind, "metadata": {}, "spec": spec}


async def _list_devices(client: KubeClient, node: str) -> tuple[PublishedDevice, ...] | None:
    try:
        found = (await client.list(RESOURCE_SLICE, field_selector=f"spec.nodeName={node}")).items
        slices = [parse_resource_slice(obj) for obj in found]
    except ClaimsmithError:
        return None
    return tuple(
        PublishedDevice(driver=item.driver, device=device.name, ids=_hardware(device, item.driver))
        for item in slices
        for device in item.devices
    )


def _hardware(device: Device, driver: str) -> frozenset[str]:
    """Return what tells a card apart; partitions share the address of their card, and are told by their uuid alone."""
    is_partition = bool(device.consumes_counters) or any("parentuuid" in name.lower() for name in device.attributes)
    names = _IDS[:2] if is_partition else _IDS
    found = (device.attributes.get(full) for name in names for full in (name, f"{driver}/{name}"))
    return frozenset(str(item.value) for item in found if item is not None and isinstance(item.value, str))


async def _list_claims(client: KubeClient) -> frozenset[str] | None:
    try:
        found = (await client.list(RESOURCE_CLAIM)).items
    except ApiError:
        return None
    return frozenset(str((obj.get("metadata") or {}).get("uid") or "") for obj in found)


async def _list_pods(client: KubeClient, node: str) -> tuple[PodFact, ...] | None:
    try:
        found = (await client.list(POD, field_selector=f"spec.nodeName={node}")).items
    except ApiError:
        return None
    facts = map(_describe_pod, found)
    return tuple(pod for pod in facts if pod.is_privileged or pod.sets_visible)


def _describe_pod(pod: KubeObject) -> PodFact:
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return PodFact(
        name=f"{metadata.get('namespace')}/{metadata.get('name')}",
        is_privileged=not is_over and any(map(_is_privileged, containers)),
        sets_visible=not is_over and any(map(_asks_by_variable, containers)),
    )


def _is_privileged(container: Mapping[str, Any]) -> bool:
    return (container.get("securityContext") or {}).get("privileged") is True


def _asks_by_variable(container: Mapping[str, Any]) -> bool:
    """Tell whether a container wants cards by a variable and none in the way that Kubernetes counts."""
    resources = container.get("resources") or {}
    asks = bool(resources.get("claims")) or any(map(is_extended_resource_name, resources.get("limits") or {}))
    values = [item.get("value") for item in container.get("env") or () if item.get("name") == _VARIABLE]
    return not asks and any(value not in _NO_DEVICES for value in values)


def _find_clock(headers: Mapping[str, str]) -> float | None:
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        return None


def _decode(answer: Answer) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
