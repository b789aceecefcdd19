"""The policy that holds an agent to its own node, its own drivers, and its own fields of what others write too. Pure.

RBAC can't tell nodes apart. A token of a pod names the pod's node; what is written with it must belong to that node.
What belongs to a node must be told from the object alone: slices and rules by the name of their pool, rules and reports
by their own names too, so that no agent takes a name that another one needs.

Source: the policy of dra-example-driver for ResourceSlices, which this one widens; GatherPools in structured/internal
of k8s.io/dynamic-resource-allocation v0.37.2, where a slice of any node may outdate a pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from claimsmith.daemons.agent_options import AgentOptions
from claimsmith.daemons.agent_pools import NODE_MARK, PoolRule
from claimsmith.daemons.policy_manifests import cel_list, cel_text, check, guard, keeps, keeps_but, plan_policy
from claimsmith.publish.labels_nvidia import NVIDIA_KEYS
from claimsmith.publish.labels_write import LABEL_MANAGER
from claimsmith.publish.nodestatus import CONFIGURED_ANNOTATION, WISHES_ANNOTATION
from claimsmith.publish.releases import RELEASE_ANNOTATION

__all__ = ["plan_agent_policy"]

_NODE_CLAIM: Final = "authentication.kubernetes.io/node-name"
"""Where the API server tells the node of a token's pod. Source: pkg/serviceaccount/util.go of kubernetes v1.37.2."""
_RESOURCE: Final = "resource.k8s.io"
_EVERY: Final = ("CREATE", "UPDATE", "DELETE")
_AMOUNTS: Final = "['capacity', 'allocatable']"
_NODE_NEEDED: Final = {
    "expression": "variables.node != ''",
    "message": "this user has no node: it must be a pod's own token (ServiceAccountTokenPodNodeInfo)",
}


def plan_agent_policy(
    name: str, options: AgentOptions, drivers: Iterable[str], *, user: str, pools: Iterable[PoolRule] = ()
) -> list[dict[str, Any]]:
    """Return the policy and its binding.

    Slices for several nodes are refused: they would be in everybody's way. A driver that needs them is published by
    something with other rights.

    Args:
        name: Name of both, and the source of the agent's events.
        options: What is switched on: which labels and amounts are the agent's.
        drivers: Names of its drivers.
        user: Name of its user.
        pools: Pools that are not named after their node.
    """
    return plan_policy(
        name,
        user=user,
        guards=[
            guard(_RESOURCE, "resourceslices devicetaintrules", *_EVERY),
            guard("", "nodes nodes/status", "UPDATE"),
            guard("", "events", "CREATE", "UPDATE"),
            guard("claimsmith.dev", "devicereports devicereports/status", *_EVERY),
        ],
        variables={
            "node": f"request.userInfo.extra[?'{_NODE_CLAIM}'][0].orValue('')",
            "target": "request.operation == 'DELETE' ? oldObject : object",
            "drivers": cel_list(drivers),
            **_plan_pools(pools),
            **_plan_rules(),
            **_plan_node(options),
        },
        checks=[_NODE_NEEDED, *_check_devices(), *_check_node(), *_check_amounts(), *_check_told(name)],
    )


def _test(kind: str, expression: str, text: str) -> dict[str, str]:
    return check(kind, expression, f"'the agent of node ' + variables.node + ' {text}'")


def _plan_pools(pools: Iterable[PoolRule]) -> Mapping[str, str]:
    """Return the variables that tell whether a pool is the node's."""
    listed = ", ".join(
        f"{{'name': {cel_text(pool.name)}, 'nodes': {cel_text(pool.node_pattern)}}}" for pool in sorted(pools)
    )
    named = f"named.name.replace('{NODE_MARK}', variables.node) == variables.pool"
    return {
        "pools": f"[{listed}]",
        "pool": "variables.kind == 'resourceslices' ? variables.target.spec.pool.name : "
        "variables.kind == 'devicetaintrules' ? variables.target.spec.?deviceSelector.?pool.orValue('') : ''",
        # Names of nodes have no slash.
        "ownsPool": "variables.pool == variables.node || variables.pool.startsWith(variables.node + '/') || "
        f"variables.pools.exists(named, {named} && variables.node.matches(named.nodes))",
    }


def _plan_rules() -> Mapping[str, str]:
    """Return the variables that tell whether a DeviceTaintRule is the node's; see `RuleOwner`."""

    def label(rule: str) -> str:
        return f"{rule}.metadata.?labels[?'claimsmith.dev/node'].orValue('')"

    def owns(rule: str) -> str:
        is_node = (
            f"variables.node.size() <= 63 ? {label(rule)} == variables.node : "
            f"{label(rule)}.startsWith(variables.node.substring(0, 46) + '-')"
        )
        managed = f"{rule}.metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'claimsmith-health'"
        return f"{managed} && ({is_node})"

    start = f"'claimsmith-health-' + {label('object')}.replace('.-', '-') + '-'"
    return {
        "ownsOldRule": f"oldObject == null || {owns('oldObject')}",
        "ownsNewRule": f"request.operation == 'DELETE' || {owns('object')} && "
        f"object.metadata.name.startsWith({start}) && "
        f"object.metadata.name.substring(({start}).size()).matches('^[0-9a-f]{{20}}$')",
    }


def _plan_node(options: AgentOptions) -> Mapping[str, str]:
    """Return the variables that tell what of a Node is the agent's."""
    fronts = options.fronts.values()
    amounts = {rule.resource for front in fronts for rule in front.amounts}
    known = "|".join(re.escape(name) for name in sorted(amounts))

    def of_node(side: str, path: str, default: str = "{}") -> str:
        return f"variables.kind == 'nodes' ? dyn({side}.{path}.orValue({default})) : dyn({default})"

    return {
        "labelKeys": cel_text(_label_pattern(options)),
        "newLabels": of_node("object", "metadata.?labels"),
        "oldLabels": of_node("oldObject", "metadata.?labels"),
        "newNotes": of_node("object", "metadata.?annotations"),
        "oldNotes": of_node("oldObject", "metadata.?annotations"),
        "newStatus": of_node("object", "?status"),
        "oldStatus": of_node("oldObject", "?status"),
        "amounts": cel_list(amounts),
        "amountsNote": cel_text(rf'^\{{("({known})":[0-9]+,?)*\}}$' if known else r"^\{\}$"),
        "keptAmounts": f"variables.oldNotes[?'{WISHES_ANNOTATION}'].orValue('') + "
        f"variables.oldNotes[?'{CONFIGURED_ANNOTATION}'].orValue('')",
    }


def _label_pattern(options: AgentOptions) -> str:
    """Return the regular expression of the keys of labels that the agent sets."""
    if options.labels.place != "node" or not any(front.labels for front in options.fronts.values()):
        return "^$"
    ours = rf"{re.escape(options.labels.prefix)}/[^/]+\.[^/]+"
    return f"^({ours}|{NVIDIA_KEYS})$" if options.labels.nvidia_names else f"^({ours})$"


def _check_devices() -> list[dict[str, str]]:
    pools = "name others in spec.drivers[].pools of the configuration, and apply the policy anew"
    return [
        _test(
            "resourceslices",
            "variables.target.spec.?nodeName.orValue('') == variables.node && "
            "variables.target.spec.driver in variables.drivers",
            "may write slices of its own drivers on its own node only",
        ),
        _test(
            "resourceslices",
            "request.operation == 'DELETE' || variables.ownsPool",
            f"may write slices of its own pools only: its name, or its name, a slash and more; {pools}",
        ),
        _test(
            "devicetaintrules",
            "request.operation == 'DELETE' || "
            "variables.target.spec.?deviceSelector.?driver.orValue('') in variables.drivers && variables.ownsPool",
            f"may write taint rules for its own pools of its own drivers only; {pools}",
        ),
        _test(
            "devicetaintrules",
            "variables.ownsOldRule && variables.ownsNewRule",
            "may write taint rules that carry its own name only",
        ),
    ]


def _check_node() -> list[dict[str, str]]:
    """Return the tests of what is written to a Node but for its status: what is not the agent's stays as it is."""
    owned = "m.manager == '{}' && 'f:' + {} in m.?fieldsV1[?'f:metadata'][?'f:labels'].orValue({{}})"
    set_before = f"oldObject.metadata.?managedFields.orValue([]).exists(m, {owned.format(LABEL_MANAGER, 'k')})"
    mine = "k.matches(variables.labelKeys)"
    ours = f"k in ['{RELEASE_ANNOTATION}', '{CONFIGURED_ANNOTATION}']"
    written = f"(k != '{CONFIGURED_ANNOTATION}' || variables.newNotes[k].matches(variables.amountsNote))"
    return [
        _test(
            "nodes",
            "variables.target.metadata.name == variables.node && "
            + keeps("spec", "metadata.finalizers", "metadata.ownerReferences"),
            "may write labels and amounts of its own node only",
        ),
        _test(
            "nodes",
            keeps_but("variables.newLabels", "variables.oldLabels", may_come=mine, may_go=f"{mine} || {set_before}"),
            "may write its own labels only, matching ' + variables.labelKeys + '",
        ),
        # Else it could take over a label with the value that it has, and remove it then.
        _test(
            "nodes",
            f"object.metadata.?managedFields.orValue([]).all(n, n.manager != '{LABEL_MANAGER}' || "
            "n.?fieldsV1[?'f:metadata'][?'f:labels'].orValue({}).all(f, f.substring(2).matches(variables.labelKeys) || "
            f"oldObject.metadata.?managedFields.orValue([]).exists(m, m.manager == '{LABEL_MANAGER}' && "
            "f in m.?fieldsV1[?'f:metadata'][?'f:labels'].orValue({}))))",
            "may own its own labels only, matching ' + variables.labelKeys + '",
        ),
        _test(
            "nodes",
            keeps_but("variables.newNotes", "variables.oldNotes", may_come=f"{ours} && {written}", may_go=ours),
            "may write its own annotations only",
        ),
    ]


def _check_amounts() -> list[dict[str, str]]:
    """Return the tests of what is written to a Node's status: amounts of extended resources, and nothing else."""
    is_amount = f"k in {_AMOUNTS}"
    counted = keeps_but(
        "variables.newStatus[?part].orValue({})",
        "variables.oldStatus[?part].orValue({})",
        may_come="k in variables.amounts || variables.keptAmounts.contains('\"' + k + '\":')",
        # Whoever else counts them does so again.
        may_go=r"k.matches('^[^/]+/.+$') && !k.matches('^([^/]+\\.)?kubernetes\\.io/')",
    )
    return [
        _test(
            "nodes",
            keeps_but("variables.newStatus", "variables.oldStatus", may_come=is_amount, may_go=is_amount),
            "may write amounts of the status only",
        ),
        _test(
            "nodes",
            f"{_AMOUNTS}.all(part, {counted})",
            "may set its own extended resources only",
        ),
    ]


def _check_told(source: str) -> list[dict[str, str]]:
    """Return the tests of what an agent tells: reports and events."""
    name = "(variables.node + '.' + variables.target.spec.driver)"
    about = (
        "e.involvedObject.?kind.orValue('') == 'Node' && e.involvedObject.?name.orValue('') == variables.node && "
        f"e.?source.?component.orValue('') == '{source}'"
    )
    return [
        _test(
            "devicereports",
            "variables.target.spec.nodeName == variables.node && variables.target.spec.driver in variables.drivers && "
            f"({name}.size() <= 253 ? variables.target.metadata.name == {name} : "
            f"variables.target.metadata.name.startsWith({name}.substring(0, 200)))",
            "may write reports of its own drivers on its own node only",
        ),
        _test(
            "events",
            f"[variables.target, oldObject].all(e, e == null || {about})",
            "may write its own events about its own node only",
        ),
    ]
