"""The rights of the controller's and the scheduler's ServiceAccounts, and how a controller is deployed. Pure."""

from __future__ import annotations

from typing import Any, Final

from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, DEFAULT_NAMESPACE, account, role_binding
from claimsmith.daemons.agent_rights import rule
from claimsmith.daemons.controller import CONTROLLER_NAME

__all__ = ["SCHEDULER_NAME", "plan_controller_manifests", "plan_scheduler_manifests"]

SCHEDULER_NAME: Final = "claimsmith-scheduler"
"""Name of the scheduler's ServiceAccount and roles."""
_RESOURCE: Final = "resource.k8s.io"
_READ: Final = ("get", "list", "watch")


def plan_controller_manifests(
    *, namespace: str = DEFAULT_NAMESPACE, image: str = DEFAULT_IMAGE
) -> list[dict[str, Any]]:
    """Return what an operator applies to run controllers, in that order."""
    rules = [
        # The annotations of waiting pods are changed; RBAC knows no smaller right.
        rule("", "pods", *_READ, "patch"),
        rule("", "events", *_READ, "create", "patch"),
        rule(_RESOURCE, "resourceclaims", *_READ),
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *_rights(CONTROLLER_NAME, namespace, rules),
        _deployment(namespace, image),
    ]


def plan_scheduler_manifests(*, namespace: str = DEFAULT_NAMESPACE) -> list[dict[str, Any]]:
    """Return account and rights of a scheduler that decides on devices and nodes, in the order they are applied.

    Writing allocations takes `resourceclaims/binding` for the whole cluster besides the status.

    Source: AuthorizedForBinding in pkg/registry/resource/utils.go of kubernetes v1.37.2.
    """
    rules = [
        rule("", "pods", *_READ, "patch"),
        rule("", "pods/binding", "create"),
        rule("", "pods/status", "patch"),
        rule("", "nodes namespaces", *_READ),
        rule("", "events", "create", "patch"),
        rule(_RESOURCE, "resourceslices deviceclasses devicetaintrules resourceclaimtemplates", *_READ),
        rule(_RESOURCE, "resourceclaims", *_READ, "create", "update", "patch", "delete"),
        rule(_RESOURCE, "resourceclaims/status", "update", "patch"),
        rule(_RESOURCE, "resourceclaims/binding", "update", "patch"),
        rule("scheduling.k8s.io", "podgroups workloads", *_READ),
        rule("scheduling.k8s.io", "podgroups/status", "patch"),
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *_rights(SCHEDULER_NAME, namespace, rules),
    ]


def _rights(name: str, namespace: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return account, cluster-wide rules, and those on its own Lease."""
    role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    leases = [
        # A name can't be asked for when an object is made.
        rule("coordination.k8s.io", "leases", "create"),
        rule("coordination.k8s.io", "leases", "get", "update", names=[name]),
    ]
    return [
        account(name, namespace),
        {**role, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        role_binding("ClusterRole", name, namespace=namespace),
        {**role, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": leases},
        role_binding("Role", name, namespace=namespace),
    ]


def _deployment(namespace: str, image: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": CONTROLLER_NAME}
    container = {
        "name": "controller",
        "image": image,
        "command": ["claimsmith", "controller", "--namespace", namespace, "--log-format", "json"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }
    pod = {
        "serviceAccountName": CONTROLLER_NAME,
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CONTROLLER_NAME, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
