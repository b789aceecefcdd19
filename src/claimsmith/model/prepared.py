"""Preparing devices for a claim on a node: what a driver is asked, and what it answers.

Source: NodePrepareResources of the kubelet DRA API v1; CDI specification 0.8.0 (container edits).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.claim import NetworkData
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.names import DeviceId
from claimsmith.model.quantity import Quantity

__all__ = [
    "ClaimKey",
    "ContainerEdits",
    "DeviceCondition",
    "DeviceConfiguration",
    "DeviceMetadata",
    "DeviceNode",
    "DeviceStatus",
    "Hook",
    "Mount",
    "PrepareRequest",
    "PreparedDevice",
    "PreparedDevices",
    "RequestedDevice",
]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClaimKey:
    """A claim as kubelet names it: a claim made again under the same name has another uid."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfiguration:
    """Opaque parameters for this driver; later ones win over earlier ones.

    Args:
        source: FromClass or FromClaim.
        requests: Requests it is for; empty for all.
        parameters: The JSON value.
    """

    source: str
    parameters: object
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedDevice:
    """One device, or one share of it, to be prepared.

    Args:
        request: Request name without a sub-request.
        subrequest: The alternative that was chosen; empty for a plain request.
        share_id: uid of the share; empty for a device that the claim has for itself.
        consumed_capacity: Amounts of the share by capacity name.
        configs: Parameters for this device, class before claim.
    """

    id: DeviceId
    request: str
    subrequest: str = ""
    share_id: str = ""
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict)
    admin_access: bool = False
    configs: tuple[DeviceConfiguration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """The devices of one driver that a claim got on this node. A driver sees no claim object.

    Args:
        pod_claim_name: Name by which a pod's spec calls a claim that was made from a template; empty for others.
    """

    claim: ClaimKey
    devices: tuple[RequestedDevice, ...]
    pod_claim_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device file for the container.

    Args:
        path: Path in the container, absolute.
        host_path: Path on the host; empty: the same.
        type: b, c, u or p; empty: read from the host's file.
        permissions: Of r, w and m; empty: rwm.
    """

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    permissions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount for the container; paths absolute."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "bind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An OCI hook. `name` is one of createRuntime, createContainer, startContainer, poststart, poststop, prestart."""

    name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEdits:
    """What a container gets: environment, device files, mounts, hooks."""

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCondition:
    """One thing that a driver says of a device in the status of its claim; when it changed is noted for it.

    Args:
        type: What it is about, such as `Ready`.
        status: True, False or Unknown.
        reason: One word, for machines.
        message: For people.
    """

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatus:
    """What a driver tells users of an allocated device: it goes into the status of the claim.

    Args:
        conditions: At most 8, of different types.
        data: A JSON object of at most 10 KiB; None for none.
        network: For a network device: its name and addresses.

    Source: AllocatedDeviceStatus of resource.k8s.io/v1; KEP-4817.
    """

    conditions: tuple[DeviceCondition, ...] = ()
    data: Mapping[str, object] | None = None
    network: NetworkData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMetadata:
    """What programs in the containers may read of a device, in a file that is mounted; with `DeviceStatus.network`.

    Args:
        attributes: By qualified name, at most 32. Best all that are published, and what is known only now.

    Source: KEP-5304.
    """

    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One device, ready for containers.

    Args:
        device: The requested device that this is the answer for.
        edits: What its containers get.
        status: What the claim's status says of it; None for nothing.
        metadata: What a file in its containers says of it; None for no file, unless the agent is set to write one.
    """

    device: RequestedDevice
    edits: ContainerEdits = field(default_factory=ContainerEdits)
    status: DeviceStatus | None = None
    metadata: DeviceMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevices:
    """The answer for one claim; `common` goes to each container that uses any device of the claim."""

    devices: tuple[PreparedDevice, ...]
    common: ContainerEdits = field(default_factory=ContainerEdits)
