"""What the doctor of a node looks at: facts as they were found, with nothing judged. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "AccessFact",
    "ApiFacts",
    "CheckpointState",
    "DriverFact",
    "FolderFact",
    "LocalFacts",
    "NodeFact",
    "PodFact",
    "ProcessFact",
    "PublishedDevice",
    "RuntimeFact",
    "SocketFact",
]

CheckpointState = Literal["good", "none", "damaged", "newer", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFact:
    """A folder that the node's parts share.

    Args:
        purpose: What it is for, in words.
        is_folder: False when there is nothing, or something else, at the path.
        is_writable: Whether this process may make files in it.
        free_bytes, free_inodes: What the file system has left for this process; None when it does not tell.
    """

    path: str
    purpose: str
    is_folder: bool
    is_writable: bool = False
    free_bytes: int | None = None
    free_inodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketFact:
    """A unix socket; `answers` tells whether somebody accepts connections, None when this process may not try."""

    path: str
    answers: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFact:
    """A running program, with those of its options that have a value, such as `root-dir`."""

    name: str
    pid: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFact:
    """How a container runtime is configured.

    Args:
        name: containerd or cri-o.
        config: The file that was read.
        is_there: Whether there is such a file; without one, the runtime's defaults hold.
        is_cdi_on: What the file says of CDI; None when it says nothing.
        cdi_folders: The folders that it reads CDI files from, with links followed; empty: the defaults.
        default_runtime: Name of the low-level runtime that containers get; empty when the file says nothing.
        trouble: Why the file can't be read; empty when it can.
    """

    name: str
    config: str
    is_there: bool
    is_cdi_on: bool | None = None
    cdi_folders: tuple[str, ...] = ()
    default_runtime: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFact:
    """What a driver of ours has left on the node.

    Args:
        name: Name of the driver.
        checkpoint: How its checkpoint is.
        claims: uids of the claims in it, with namespace and name.
        grants: uids of what the device plugin has given to containers.
        boots: Boots during which the claims were prepared.
        set_aside: Damaged files that were put aside.
        cdi_claims: For each CDI file the uid of its claim; empty for one that can't be read.
    """

    name: str
    checkpoint: CheckpointState = "none"
    claims: Mapping[str, str] = field(default_factory=dict)
    grants: frozenset[str] = frozenset()
    boots: frozenset[str] = frozenset()
    set_aside: tuple[str, ...] = ()
    cdi_claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """What was found on this machine.

    Args:
        system: Name of the operating system as the kernel has it.
        user_id: Effective uid of this process.
        boot_id: This boot of the machine; empty when the kernel does not tell.
        cgroup_version: 1 or 2; 0 when none is mounted.
        now_s: Seconds since 1970 by this machine's clock.
        kubelet_root: Folder that we take for the kubelet's.
        cdi_folder: Where our CDI files go, with links followed.
        folders, sockets, processes, runtimes, drivers: As their types say.
        kubelet_socket: Where device plugins register.
        registered: Ids of devices by the resource that a device plugin registered, as the kubelet's checkpoint has it.
        broken_cdi: CDI files of anybody that are no JSON or YAML.
        obeys_environment: Whether NVIDIA's runtime gives containers what their image asks for by a variable; None when
            it has no configuration file here.
    """

    system: str
    user_id: int
    boot_id: str
    cgroup_version: int
    now_s: float
    kubelet_root: str
    cdi_folder: str
    folders: tuple[FolderFact, ...] = ()
    sockets: tuple[SocketFact, ...] = ()
    kubelet_socket: SocketFact | None = None
    processes: tuple[ProcessFact, ...] = ()
    runtimes: tuple[RuntimeFact, ...] = ()
    drivers: tuple[DriverFact, ...] = ()
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    broken_cdi: tuple[str, ...] = ()
    obeys_environment: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """The Node as the API server has it."""

    ready: bool
    kubelet_version: str
    runtime_version: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDevice:
    """A device in a slice of this node; `ids` are what tells hardware apart: its uuid, its PCI address."""

    driver: str
    device: str
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod of the node that may see more devices than it was given.

    Args:
        name: Namespace and name.
        is_privileged: Whether one of its containers is privileged.
        sets_visible: Whether a container that asks for no device sets NVIDIA_VISIBLE_DEVICES to some.
    """

    name: str
    is_privileged: bool = False
    sets_visible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFact:
    """Whether the API server lets this user do something.

    Args:
        verb: As in a rule, such as `patch`.
        resource: With its group, such as `resourceclaims.resource.k8s.io`, or `nodes/status`.
        purpose: What it is needed for.
        is_needed: False when only an option needs it.
    """

    verb: str
    resource: str
    purpose: str
    allowed: bool
    is_needed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFacts:
    """What the API server told.

    Args:
        error: Why it can't be asked; empty when it can.
        version: Its version, such as v1.37.2.
        clock_s: Seconds since 1970 by its clock; None when it does not tell.
        dra_versions: Versions of resource.k8s.io that it serves.
        node: None when there is no such node.
        gates: Gates that the kubelet's configuration sets; None when this user may not see it.
        access: What this user may do.
        devices: All devices in slices of the node; None when they can't be listed.
        claims: uids of all claims; None when they can't be listed.
        pods: Those pods of the node that may see more devices than they were given; None when pods can't be listed.
    """

    error: str = ""
    version: str = ""
    clock_s: float | None = None
    dra_versions: tuple[str, ...] = ()
    node: NodeFact | None = None
    gates: Mapping[str, bool] | None = None
    access: tuple[AccessFact, ...] = ()
    devices: tuple[PublishedDevice, ...] | None = None
    claims: frozenset[str] | None = None
    pods: tuple[PodFact, ...] | None = None
