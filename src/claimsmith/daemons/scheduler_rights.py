"""The rights of the scheduler's ServiceAccount, and how schedulers are deployed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from claimsmith.daemons.agent_manifests import DEFAULT_IMAGE, DEFAULT_NAMESPACE, user_of
from claimsmith.daemons.agent_rights import rule
from claimsmith.daemons.leader_manifests import plan_deployment, plan_leader_rights
from claimsmith.daemons.policy_manifests import cel_list, check, guard, keeps, keeps_but, plan_policy
from claimsmith.daemons.scheduler import SCHEDULER_NAME
from claimsmith.daemons.scheduler_process import SCHEDULER_ACCOUNT
from claimsmith.model.claim import FINALIZER
from claimsmith.schedule.extended import EXTENDED_CLAIM_ANNOTATION

__all__ = ["plan_scheduler_manifests", "plan_scheduler_policy", "plan_scheduler_rules"]

_RESOURCE: Final = "resource.k8s.io"
_MEMORY: Final = "256Mi"
_READ: Final = ("get", "list", "watch")
_EVERY: Final = ("CREATE", "UPDATE", "DELETE")
_FOLLOW: Final = ("list", "watch")
_WRITTEN: Final = "['conditions', 'extendedResourceClaimStatus', 'nodeAllocatableResourceClaimStatuses']"
"""What a scheduler writes of a pod's status; of the conditions PodScheduled alone."""


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


def plan_scheduler_policy(names: Iterable[str], *, namespace: str) -> list[dict[str, Any]]:
    """Return the policy that leaves to a scheduler what one writes: of its own pods, and of claims.

    Where a pod runs and which devices a claim gets is what a scheduler is for; no policy can know better.

    Args:
        names: Values of `spec.schedulerName` that it serves.
        namespace: Namespace of its ServiceAccount.
    """
    metadata = ("metadata.labels", "metadata.annotations")
    written = f"k in {_WRITTEN}"
    conditions = "variables.{}Status.?conditions.orValue([])"
    new, old = conditions.format("new"), conditions.format("old")
    special = f"variables.target.metadata.?annotations[?'{EXTENDED_CLAIM_ANNOTATION}'].orValue('') == 'true'"
    others = "{}.metadata.?finalizers.orValue([]).filter(name, name != '" + FINALIZER + "')"
    return plan_policy(
        SCHEDULER_ACCOUNT,
        user=user_of(SCHEDULER_ACCOUNT, namespace),
        guards=[guard("", "pods/status", "UPDATE"), guard("resource.k8s.io", "resourceclaims", *_EVERY)],
        variables={
            "target": "request.operation == 'DELETE' ? oldObject : object",
            "newStatus": "variables.kind == 'pods' ? dyn(object.?status.orValue({})) : dyn({})",
            "oldStatus": "variables.kind == 'pods' ? dyn(oldObject.?status.orValue({})) : dyn({})",
        },
        checks=[
            check(
                "pods",
                f"object.spec.schedulerName in {cel_list(names)}",
                "'the scheduler may write the status of its own pods only'",
            ),
            check(
                "pods",
                f"{keeps(*metadata, 'metadata.finalizers')} && "
                + keeps_but("variables.newStatus", "variables.oldStatus", may_come=written, may_go=written)
                + f" && {new}.all(c, c.type == 'PodScheduled' || c in {old})"
                f" && {old}.all(c, c.type == 'PodScheduled' || c in {new})",
                "'the scheduler may write what a scheduler finds out of a pod only'",
            ),
            check(
                "resourceclaims",
                f"request.operation == 'UPDATE' || {special}",
                "'the scheduler may create and delete claims for extended resources only'",
            ),
            check(
                "resourceclaims",
                f"request.operation != 'UPDATE' || {keeps(*metadata, 'metadata.ownerReferences')} && "
                f"{others.format('object')} == {others.format('oldObject')}",
                "'the scheduler may change its own finalizer of claims only'",
            ),
        ],
    )


def plan_scheduler_manifests(
    *,
    names: Iterable[str] = (SCHEDULER_NAME,),
    arguments: Sequence[str] = (),
    namespace: str = DEFAULT_NAMESPACE,
    image: str = DEFAULT_IMAGE,
    port: int | None = None,
) -> list[dict[str, Any]]:
    """Return what an operator applies to run schedulers, in that order.

    Args:
        names: Values of `spec.schedulerName` that it serves.
        arguments: Further arguments of the command.
        namespace: Namespace of the scheduler and its Lease.
        image: Its image.
        port: Where the kubelet and Prometheus reach it; None when it listens to nobody outside of the pod.
    """
    command = ("claimsmith", "scheduler", "--namespace", namespace, *arguments, "--log-format", "json")
    return [
        *plan_leader_rights(SCHEDULER_ACCOUNT, namespace=namespace, rules=plan_scheduler_rules()),
        *plan_scheduler_policy(names, namespace=namespace),
        plan_deployment(
            SCHEDULER_ACCOUNT, namespace=namespace, image=image, command=command, memory=_MEMORY, port=port
        ),
    ]
