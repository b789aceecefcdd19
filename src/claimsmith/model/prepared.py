"""Preparing devices for a claim on a node: what a driver is asked, and what it answers.

Source: NodePrepareResources of the kubelet DRA API v1; CDI specification 0.8.0 (container edits).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.names import DeviceId
from claimsmith.model.quantity import Quantity

__all__ = [
    "ClaimKey",
    "ContainerEdits",
    "DeviceConfiguration",
    "DeviceNode",
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
    """The devices of one driver that a claim got on this node. A driver sees no claim object."""

    claim: ClaimKey
    devices: tuple[RequestedDevice, ...]


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
class PreparedDevice:
    """One device, ready for containers.

    Args:
        device: The requested device that this is the answer for.
        edits: What its containers get.
    """

    device: RequestedDevice
    edits: ContainerEdits = field(default_factory=ContainerEdits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevices:
    """The answer for one claim; `common` goes to each container that uses any device of the claim."""

    devices: tuple[PreparedDevice, ...]
    common: ContainerEdits = field(default_factory=ContainerEdits)
