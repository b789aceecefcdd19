"""The rights of an agent's ServiceAccount: no more than what is switched on needs, and only for its own node.

RBAC can't tell nodes apart, so a ValidatingAdmissionPolicy does: a token of a pod names the pod's node, and what is
written must belong to that node. The status of claims is guarded by the API server itself since Kubernetes 1.36:
`resourceclaims/driver` names the drivers, and `associated-node:` demands that the claim is allocated on that node.

Source: AuthorizedForDeviceStatus in pkg/registry/resource/utils.go of kubernetes v1.37.2; the policy of
dra-example-driver for ResourceSlices, which this one widens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from claimsmith.daemons.agent_options import AgentOptions, FrontEnds

__all__ = ["AGENT_NAME", "build_agent_policy", "plan_agent_rules", "rule"]

AGENT_NAME: Final = "claimsmith-agent"
"""Name of the agent's ServiceAccount, ClusterRole, policy and DaemonSet."""
_RESOURCE: Final = "resource.k8s.io"
_OURS: Final = "claimsmith.dev"
_READ: Final = ("get", "list", "watch")
_NODE_CLAIM: Final = "authentication.kubernetes.io/node-name"
"""Where the API server tells the node of a token's pod. Source: pkg/serviceaccount/util.go of kubernetes v1.37.2."""


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
    with_rules = any(front.loop is not None and front.loop.health.taints == "rules" for front in fronts.values())
    releases = any(front.loop is not None and front.loop.health.keeps_some_out for front in fronts.values())
    counts = options.keeps_capacity or any(front.amounts for front in fronts.values())
    follows = counts or releases
    labels = options.labels.place == "node" and any(front.labels for front in fronts.values())
    rules = [rule("", "events", "create", "patch")]
    # Also an agent without claims withdraws the slices that it has published when it still had them.
    rules.append(rule(_RESOURCE, "resourceslices", *_READ, "create", "update", "patch", "delete"))
    rules.append(
        rule("", "nodes", "get", *(("list", "watch") if follows else ()), *(("patch",) if follows or labels else ()))
    )
    if by_claims:
        rules.append(rule(_RESOURCE, "resourceclaims", *_READ))
        rules.append(rule(_RESOURCE, "resourceclaims/status", "update", "patch"))
        verbs = ("associated-node:update", "associated-node:patch")
        rules.append(rule(_RESOURCE, "resourceclaims/driver", *verbs, names=by_claims))
        # Whether a pod whose prepare waits is being deleted.
        rules.append(rule("", "pods", "get"))
    if counts:
        rules.append(rule("", "nodes/status", "patch"))
    if any(front.report is not None for front in fronts.values()):
        rules.append(rule(_OURS, "devicereports", "get", "create"))
        rules.append(rule(_OURS, "devicereports/status", "patch"))
    if with_rules:
        rules.append(rule(_RESOURCE, "devicetaintrules", *_READ, "create", "update", "patch", "delete"))
    return rules


def build_agent_policy(drivers: Iterable[str], *, namespace: str) -> list[dict[str, Any]]:
    """Return the policy that holds an agent to its own node, and its binding.

    Slices for several nodes are refused too: they would be in everybody's way. A driver that needs them is published
    by something with other rights.

    Args:
        drivers: Names of the agent's drivers.
        namespace: Namespace of its ServiceAccount.
    """
    user = f"system:serviceaccount:{namespace}:{AGENT_NAME}"
    names = ", ".join(f"'{name}'" for name in sorted(drivers))
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": AGENT_NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": _guarded()},
            "matchConditions": [
                {"name": "is-the-agent", "expression": f"request.userInfo.username == '{user}'"},
            ],
            "variables": [
                {"name": "node", "expression": f"request.userInfo.extra[?'{_NODE_CLAIM}'][0].orValue('')"},
                {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
                {"name": "kind", "expression": "request.resource.resource"},
                {"name": "drivers", "expression": f"[{names}]"},
            ],
            "validations": _validations(),
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": AGENT_NAME},
        "spec": {"policyName": AGENT_NAME, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _guarded() -> list[dict[str, Any]]:
    """Return what the policy looks at."""

    def guarded(group: str, versions: Sequence[str], resources: Sequence[str], *operations: str) -> dict[str, Any]:
        return {
            "apiGroups": [group],
            "apiVersions": list(versions),
            "resources": list(resources),
            "operations": list(operations),
        }

    every = ("CREATE", "UPDATE", "DELETE")
    return [
        guarded(_RESOURCE, ("*",), ("resourceslices", "devicetaintrules"), *every),
        guarded("", ("v1",), ("nodes", "nodes/status"), "UPDATE"),
        guarded(_OURS, ("*",), ("devicereports", "devicereports/status"), *every),
    ]


def _validations() -> list[Mapping[str, str]]:
    """Return the tests, each with what is told when it fails."""
    return [
        {
            "expression": "variables.node != ''",
            "message": "this user has no node: it must be a pod's own token (ServiceAccountTokenPodNodeInfo)",
        },
        _test(
            "resourceslices",
            "variables.target.spec.?nodeName.orValue('') == variables.node && "
            "variables.target.spec.driver in variables.drivers",
            "may write slices of its own drivers on its own node only",
        ),
        _test(
            "devicetaintrules",
            "[variables.target, oldObject].all(rule, rule == null || "
            "rule.spec.?deviceSelector.?driver.orValue('') in variables.drivers && "
            "rule.spec.?deviceSelector.?pool.orValue('') != '')",
            "may write taint rules for pools of its own drivers only",
        ),
        _test(
            "nodes",
            "variables.target.metadata.name == variables.node && object.spec == oldObject.spec",
            "may write labels and amounts of its own node only",
        ),
        _test(
            "devicereports",
            "variables.target.spec.nodeName == variables.node && variables.target.spec.driver in variables.drivers",
            "may write reports of its own drivers on its own node only",
        ),
    ]


def _test(kind: str, expression: str, text: str) -> dict[str, str]:
    return {
        "expression": f"variables.kind != '{kind}' || ({expression})",
        "messageExpression": f"'the agent of node ' + variables.node + ' {text}'",
    }
