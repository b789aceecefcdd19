"""The rights of the controller's ServiceAccount, and how controllers are deployed. Pure."""

from __future__ import annotations

from typing import Any, Final

from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, DEFAULT_NAMESPACE
from claimsmith.daemons.agent_rights import rule
from claimsmith.daemons.controller import CONTROLLER_NAME
from claimsmith.daemons.leader_manifests import plan_deployment, plan_leader_rights

__all__ = ["plan_controller_manifests"]

_READ: Final = ("get", "list", "watch")


def plan_controller_manifests(
    *, namespace: str = DEFAULT_NAMESPACE, image: str = DEFAULT_IMAGE
) -> list[dict[str, Any]]:
    """Return what an operator applies to run controllers, in that order."""
    rules = [
        # The annotations of waiting pods are changed; RBAC knows no smaller right.
        rule("", "pods", *_READ, "patch"),
        rule("", "events", *_READ, "create", "patch"),
        rule("resource.k8s.io", "resourceclaims", *_READ),
    ]
    command = ("claimsmith", "controller", "--namespace", namespace, "--log-format", "json")
    return [
        *plan_leader_rights(CONTROLLER_NAME, namespace=namespace, rules=rules),
        plan_deployment(CONTROLLER_NAME, namespace=namespace, image=image, command=command),
    ]
