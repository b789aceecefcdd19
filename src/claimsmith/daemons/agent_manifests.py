"""What an operator applies to run agents: account, rights, policy, configuration and DaemonSet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from claimsmith import __version__
from claimsmith.api.reports import build_device_report_crd
from claimsmith.daemons.agent_options import AgentOptions
from claimsmith.daemons.agent_policy import plan_agent_policy
from claimsmith.daemons.agent_pools import PoolRule
from claimsmith.daemons.agent_rights import AGENT_NAME, plan_agent_rules

__all__ = ["DEFAULT_IMAGE", "DEFAULT_NAMESPACE", "account", "plan_agent_manifests", "role_binding", "user_of"]

DEFAULT_NAMESPACE: Final = "claimsmith-system"
"""Namespace of our daemons."""
DEFAULT_IMAGE: Final = f"claimsmith:{__version__}"
"""Image with this package, which operators build: `pip install claimsmith` and their drivers."""
_CONFIG_FOLDER: Final = "/etc/claimsmith"
_ROOT: Final = "/var/lib/kubelet"
_FOLDERS: Final = (
    ("plugins", f"{_ROOT}/plugins"),
    ("plugins-registry", f"{_ROOT}/plugins_registry"),
    ("device-plugins", f"{_ROOT}/device-plugins"),
    ("pod-resources", f"{_ROOT}/pod-resources"),
    ("cdi", "/var/run/cdi"),
)
"""Folders of the node, by the name of their volume; each has the same path inside."""


def plan_agent_manifests(
    options: AgentOptions,
    drivers: Iterable[str],
    *,
    pools: Iterable[PoolRule] = (),
    files: Mapping[str, str] = MappingProxyType({}),
    namespace: str = DEFAULT_NAMESPACE,
    image: str = DEFAULT_IMAGE,
) -> list[dict[str, Any]]:
    """Return the manifests, in the order in which they are applied.

    Args:
        options: What is switched on, which decides on the rights.
        drivers: Names of the drivers.
        pools: Their pools that are not named after the node.
        files: The configuration, and the settings that it names, by file name; none to leave out what runs.
        namespace: Namespace of the agent.
        image: Its image.
    """
    names = sorted(drivers)
    has_reports = any(front.report is not None for front in options.fronts.values())
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *([build_device_report_crd()] if has_reports else []),
        account(AGENT_NAME, namespace),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": AGENT_NAME},
            "rules": plan_agent_rules(options, names),
        },
        role_binding("ClusterRole", AGENT_NAME, namespace=namespace),
        *plan_agent_policy(AGENT_NAME, options, names, user=user_of(AGENT_NAME, namespace), pools=pools),
    ]
    if files:
        metadata = {"name": AGENT_NAME, "namespace": namespace}
        manifests.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)})
        manifests.append(_daemon_set(next(iter(files)), namespace, image))
    return manifests


def account(name: str, namespace: str) -> dict[str, Any]:
    """Return a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def user_of(name: str, namespace: str) -> str:
    """Return the name of the user that a ServiceAccount is."""
    return f"system:serviceaccount:{namespace}:{name}"


def role_binding(kind: str, name: str, *, namespace: str) -> dict[str, Any]:
    """Return what gives a Role or a ClusterRole to the ServiceAccount of the same name.

    Args:
        kind: Role or ClusterRole.
        name: Name of role, binding and ServiceAccount.
        namespace: Namespace of the ServiceAccount, and of a Role.
    """
    metadata = {"name": name} if kind == "ClusterRole" else {"name": name, "namespace": namespace}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }


def _daemon_set(config: str, namespace: str, image: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": AGENT_NAME}
    template = {"metadata": {"labels": labels}, "spec": _pod(config, image)}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENT_NAME, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            # Two agents at a time for a moment: the kubelet always has one to call.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
            "template": template,
        },
    }


def _pod(config: str, image: str) -> dict[str, Any]:
    mounts = [{"name": name, "mountPath": path} for name, path in _FOLDERS]
    volumes = [{"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in _FOLDERS]

    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    container = {
        "name": "agent",
        "image": image,
        "command": ["claimsmith", "agent", "--config", f"{_CONFIG_FOLDER}/{config}", "--log-format", "json"],
        "env": [field("NODE_NAME", "spec.nodeName"), field("POD_UID", "metadata.uid")],
        "securityContext": {"privileged": True},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "volumeMounts": [*mounts, {"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True}],
    }
    return {
        "serviceAccountName": AGENT_NAME,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [*volumes, {"name": "config", "configMap": {"name": AGENT_NAME}}],
    }
