"""What a container gets beside what its pod says: a value that both plugin protocols add to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.embedded.kubelet.cdi_registry import DeviceNode, Mount

__all__ = ["ContainerGrant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerGrant:
    """What a container gets of its devices.

    Args:
        env: Variables; those of the pod's own manifest win over them, those of CDI devices over both.
        devices: Device files.
        mounts: Mounts.
        annotations: Annotations of the container, which only the runtime sees.
        cdi_ids: Fully qualified names of CDI devices.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_ids: tuple[str, ...] = ()
