"""The rights of an agent's ServiceAccount: no more than what is switched on needs, and only for its own node.

RBAC can't tell nodes apart, so a ValidatingAdmissionPolicy does: see `agent_policy`. The status of claims is guarded by
the API server itself since Kubernetes 1.36: `resourceclaims/driver` names the drivers, and `associated-node:` demands
that the claim is allocated on that node.

Source: AuthorizedForDeviceStatus in pkg/registry/resource/utils.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from claimsmith.daemons.agent_options import AgentOptions, FrontEnds

__all__ = ["AGENT_NAME", "plan_agent_rules", "rule"]

AGENT_NAME: Final = "claimsmith-agent"
"""Name of the agent's ServiceAccount, ClusterRole, policy and DaemonSet."""
_RESOURCE: Final = "resource.k8s.io"
_OURS: Final = "claimsmith.dev"
_FOLLOW: Final = ("list", "watch")


def rule(group: str, resources: str, *verbs: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return one rule of a role.

    Args:
        group: API group; empty for the core group.
        resources: Names separated by spaces.
        names: Names of the objects that it is for; none for all.
    """
    found: dict[str, Any] = {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
    return {**found, "resourceNames": sorted(names)} if names else found


def plan_agent_rules(options: AgentOptions, drivers: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rules of the ClusterRole.

    Args:
        options: How the agent works.
        drivers: Names of its drivers.
    """
    names = sorted(drivers)
    fronts = {name: options.fronts.get(name) or FrontEnds() for name in names}
    by_claims = [name for name, front in fronts.items() if front.dra]
    shares = any(front.dra and front.device_plugin is not None for front in fronts.values())
    with_rules = any(front.loop is not None and front.loop.health.taints == "rules" for front in fronts.values())
    releases = any(front.loop is not None and front.loop.health.keeps_some_out for front in fronts.values())
    counts = options.keeps_capacity or any(front.amounts for front in fronts.values())
    follows = counts or releases
    labels = options.labels.place == "node" and any(front.labels for front in fronts.values())
    rules = [rule("", "events", "create", "patch")]
    # Also an agent without claims withdraws the slices that it has published when it still had them.
    rules.append(rule(_RESOURCE, "resourceslices", *_FOLLOW, "create", "update", "delete"))
    rules.append(rule("", "nodes", "get", *(_FOLLOW if follows else ()), *(("patch",) if follows or labels else ())))
    if by_claims:
        # Which claims have the devices that vanish; with both protocols, which claims have devices at any time.
        rules.append(rule(_RESOURCE, "resourceclaims", "get", "list", *(("watch",) if shares else ())))
        rules.append(rule(_RESOURCE, "resourceclaims/status", "patch"))
        rules.append(rule(_RESOURCE, "resourceclaims/driver", "associated-node:patch", names=by_claims))
        # Whether a pod whose prepare waits is being deleted.
        rules.append(rule("", "pods", "get"))
    if counts:
        rules.append(rule("", "nodes/status", "patch"))
    if any(front.report is not None for front in fronts.values()):
        rules.append(rule(_OURS, "devicereports", "create"))
        rules.append(rule(_OURS, "devicereports/status", "patch"))
    if with_rules:
        rules.append(rule(_RESOURCE, "devicetaintrules", *_FOLLOW, "create", "patch", "delete"))
    return rules
