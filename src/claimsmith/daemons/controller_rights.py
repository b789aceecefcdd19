"""The rights of the controller's ServiceAccount, and how controllers are deployed. Pure."""

from __future__ import annotations

from typing import Any

from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, DEFAULT_NAMESPACE, user_of
from claimsmith.daemons.agent_rights import rule
from claimsmith.daemons.controller import CONTROLLER_NAME
from claimsmith.daemons.controller_retries import RETRY_ANNOTATION
from claimsmith.daemons.leader_manifests import plan_deployment, plan_leader_rights
from claimsmith.daemons.policy_manifests import cel_list, check, guard, keeps, keeps_but, plan_policy
from claimsmith.schedule.returns import RETURN_ANNOTATION

__all__ = ["plan_controller_manifests", "plan_controller_policy", "plan_controller_rules"]


def plan_controller_rules() -> list[dict[str, Any]]:
    """Return what a controller may do in the whole cluster."""
    return [
        # RBAC knows no smaller right; the policy leaves nothing but the annotations of it.
        rule("", "pods", "get", "list", "patch"),
        rule("", "events", "list", "watch"),
        rule("resource.k8s.io", "resourceclaims", "get"),
    ]


def plan_controller_policy(*, namespace: str) -> list[dict[str, Any]]:
    """Return the policy that lets a controller touch pods and not change them: two annotations, and nothing else.

    Args:
        namespace: Namespace of its ServiceAccount.
    """
    ours = f"k in {cel_list((RETRY_ANNOTATION, RETURN_ANNOTATION))}"
    others = ("spec", "metadata.labels", "metadata.finalizers", "metadata.ownerReferences")
    return plan_policy(
        CONTROLLER_NAME,
        user=user_of(CONTROLLER_NAME, namespace),
        guards=[guard("", "pods", "UPDATE")],
        variables={
            "newNotes": "object.metadata.?annotations.orValue({})",
            "oldNotes": "oldObject.metadata.?annotations.orValue({})",
        },
        checks=[
            check("pods", keeps(*others), "'the controller may change annotations of pods only'"),
            check(
                "pods",
                keeps_but("variables.newNotes", "variables.oldNotes", may_come=ours, may_go=ours),
                "'the controller may change its own annotations of pods only'",
            ),
        ],
    )


def plan_controller_manifests(
    *, namespace: str = DEFAULT_NAMESPACE, image: str = DEFAULT_IMAGE
) -> list[dict[str, Any]]:
    """Return what an operator applies to run controllers, in that order."""
    command = ("claimsmith", "controller", "--namespace", namespace, "--log-format", "json")
    return [
        *plan_leader_rights(CONTROLLER_NAME, namespace=namespace, rules=plan_controller_rules()),
        *plan_controller_policy(namespace=namespace),
        plan_deployment(CONTROLLER_NAME, namespace=namespace, image=image, command=command),
    ]
