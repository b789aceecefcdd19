"""The rights of the scheduler's ServiceAccount, and how schedulers are deployed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, DEFAULT_NAMESPACE
from claimsmith.daemons.agent_rights import rule
from claimsmith.daemons.leader_manifests import plan_deployment, plan_leader_rights
from claimsmith.daemons.scheduler_process import SCHEDULER_ACCOUNT

__all__ = ["plan_scheduler_manifests", "plan_scheduler_rules"]

_RESOURCE: Final = "resource.k8s.io"
_MEMORY: Final = "256Mi"
_READ: Final = ("get", "list", "watch")
_FOLLOW: Final = ("list", "watch")


def plan_scheduler_rules() -> list[dict[str, Any]]:
    """Return what a scheduler may do in the whole cluster.

    Writing allocations takes `resourceclaims/binding` for all claims besides their status.

    Source: AuthorizedForBinding in pkg/registry/resource/utils.go of kubernetes v1.37.2.
    """
    return [
        rule("", "pods", *_READ),
        rule("", "pods/binding", "create"),
        rule("", "pods/status", "patch"),
        rule("", "nodes namespaces", *_FOLLOW),
        rule("", "events", "create", "patch"),
        rule(_RESOURCE, "resourceslices deviceclasses devicetaintrules resourceclaimtemplates", *_FOLLOW),
        # One for the extended resources of a pod is made, and deleted when the pod gets no node after all.
        rule(_RESOURCE, "resourceclaims", *_READ, "create", "patch", "delete"),
        rule(_RESOURCE, "resourceclaims/status", "patch"),
        rule(_RESOURCE, "resourceclaims/binding", "patch"),
        rule("scheduling.k8s.io", "podgroups", *_FOLLOW),
        rule("scheduling.k8s.io", "podgroups/status", "patch"),
    ]


def plan_scheduler_manifests(
    *,
    arguments: Sequence[str] = (),
    namespace: str = DEFAULT_NAMESPACE,
    image: str = DEFAULT_IMAGE,
    port: int | None = None,
) -> list[dict[str, Any]]:
    """Return what an operator applies to run schedulers, in that order.

    Args:
        arguments: Further arguments of the command.
        namespace: Namespace of the scheduler and its Lease.
        image: Its image.
        port: Where the kubelet and Prometheus reach it; None when it listens to nobody outside of the pod.
    """
    command = ("claimsmith", "scheduler", "--namespace", namespace, *arguments, "--log-format", "json")
    return [
        *plan_leader_rights(SCHEDULER_ACCOUNT, namespace=namespace, rules=plan_scheduler_rules()),
        plan_deployment(
            SCHEDULER_ACCOUNT, namespace=namespace, image=image, command=command, memory=_MEMORY, port=port
        ),
    ]
