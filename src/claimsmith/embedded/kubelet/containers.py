"""Pretended containers: what a container would see is put together as a runtime does, and printed as its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from claimsmith.embedded.api.logs import LogLine
from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry, DeviceNode, MergedEdits, Mount
from claimsmith.embedded.kubelet.grants import ContainerGrant
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.embedded.kubelet.views import EXIT_CODE, ContainerView, PodView
from claimsmith.errors import PodStartError

__all__ = ["ContainerRuntime", "find_exit_code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuntime:
    """Starts containers on one node.

    Args:
        registry: The node's CDI files.
        logs: Takes what the containers print.
    """

    registry: CdiRegistry
    logs: ContainerLogs

    def start(self, pod: PodView, grants: Mapping[str, ContainerGrant], *, now_s: float) -> None:
        """Start all containers of a pod, or none; each prints its environment, devices and mounts.

        Args:
            pod: The pod.
            grants: What containers get of their devices, by container.
            now_s: Seconds since 1970.

        Raises:
            PodStartError: A CDI id can't be resolved.
        """
        containers = (*pod.init_containers, *pod.containers)
        given = {item.name: grants.get(item.name, ContainerGrant()) for item in containers}
        edits = {name: self.registry.resolve(grant.cdi_ids) for name, grant in given.items()}
        for item in containers:
            lines = describe_container(pod, item, edits[item.name], given[item.name])
            self.logs.write(pod.uid, item.name, [LogLine(time_s=now_s, text=line) for line in lines])
            if item in pod.init_containers and not item.sidecar:
                self.logs.end(pod.uid, item.name)

    def stop(self, pod: PodView) -> None:
        """Stop all containers of a pod; stopped ones are no error."""
        for item in (*pod.init_containers, *pod.containers):
            self.logs.end(pod.uid, item.name)


def describe_container(
    pod: PodView, container: ContainerView, edits: MergedEdits, grant: ContainerGrant
) -> tuple[str, ...]:
    """Return what a container sees, one fact a line: first its environment, then devices, mounts, hooks and CDI ids."""
    env = {**grant.env, **container.env, "HOSTNAME": pod.name, **edits.env}
    return (
        f"container {container.name} of pod {pod} on node {pod.node_name}",
        *(f"env {name}={_one_line(value)}" for name, value in env.items()),
        *(f"device {_describe_node(node)}" for node in (*grant.devices, *edits.device_nodes)),
        *(f"mount {_describe_mount(mount)}" for mount in (*grant.mounts, *edits.mounts)),
        *(f"hook {hook.hook_name} {hook.path}" for hook in edits.hooks),
        *(f"cdi {name}" for name in grant.cdi_ids),
    )


def find_exit_code(pod: PodView) -> int:
    """Return the exit code that the pod's annotation gives its containers; 0 without one.

    Raises:
        PodStartError: It is no exit code.
    """
    text = pod.annotations.get(EXIT_CODE, "0")
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        raise PodStartError(
            f"annotation {EXIT_CODE}: found {text[:80]!r}, allowed 0 to 255; correct it", reason="InvalidAnnotation"
        )
    return int(text)


def _describe_node(node: DeviceNode) -> str:
    numbers = [str(number) for number in (node.major, node.minor) if number is not None]
    facts = [
        node.path,
        f"from {node.host_path}" if node.host_path else "",
        f"{node.type} {':'.join(numbers)}".strip(),
        node.permissions or "rwm",
    ]
    return " ".join(fact for fact in facts if fact)


def _describe_mount(mount: Mount) -> str:
    return f"{mount.container_path} from {mount.host_path} {','.join(mount.options)}".rstrip()


def _one_line(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
