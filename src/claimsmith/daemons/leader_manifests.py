"""What an operator applies for a daemon of which one leads: account, rights, Lease, Deployment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from claimsmith.daemons.agent_manifests import account, role_binding
from claimsmith.daemons.agent_rights import rule

__all__ = ["plan_deployment", "plan_leader_rights"]

_Object = dict[str, Any]


def plan_leader_rights(name: str, *, namespace: str, rules: Sequence[_Object]) -> list[_Object]:
    """Return namespace, account, the rights for the whole cluster, and those on the Lease.

    Args:
        name: Name of the daemon, and of all that is made here.
        namespace: Namespace of the daemon and its Lease.
        rules: What it may do in the whole cluster.
    """
    role: _Object = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    leases = [
        # A name can't be asked for when an object is made.
        rule("coordination.k8s.io", "leases", "create"),
        rule("coordination.k8s.io", "leases", "get", "update", names=[name]),
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        account(name, namespace),
        {**role, "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)},
        role_binding("ClusterRole", name, namespace=namespace),
        {**role, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": leases},
        role_binding("Role", name, namespace=namespace),
    ]


def plan_deployment(
    name: str, *, namespace: str, image: str, command: Sequence[str], memory: str = "64Mi", port: int | None = None
) -> _Object:
    """Return the Deployment: two of them, so that one goes on soon after the other.

    Args:
        name: Name of the daemon; the container has its last word.
        namespace: Its namespace.
        image: Its image.
        command: What it runs.
        memory: What it asks for.
        port: Where the kubelet and Prometheus reach it; None when it listens to nobody outside of the pod.
    """
    labels = {"app.kubernetes.io/name": name}
    container: _Object = {
        "name": name.rpartition("-")[2],
        "image": image,
        "command": list(command),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": memory}},
    }
    if port is not None:
        container["ports"] = [{"name": "http", "containerPort": port}]
        container["livenessProbe"] = _probe("/healthz", failures=6)
        container["readinessProbe"] = _probe("/readyz", failures=1)
    pod = {"serviceAccountName": name, "priorityClassName": "system-cluster-critical", "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _probe(path: str, *, failures: int) -> _Object:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5, "failureThreshold": failures}
