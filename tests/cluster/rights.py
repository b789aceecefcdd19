"""Rights in a real cluster: those that operators apply for a daemon, and those that make a kubelet's doings certain."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from claimsmith.errors import ForbiddenError, InvalidObjectError
from tests.cluster.cluster import RealCluster

__all__ = ["SPACE", "granted", "list_rights", "nodes_read_claims", "why_refused"]

SPACE: Final = "claimsmith-system"
"""The namespace that is printed."""
_NEED_IMAGES: Final = ("kind: DaemonSet", "kind: Deployment")
_NAME: Final = "nodes-read-claims"
_RBAC: Final = "rbac.authorization.k8s.io"
_POLICIES: Final = "admissionregistration.k8s.io/v1"
_GRANTED_S: Final = 60.0


@contextlib.contextmanager
def granted(cluster: RealCluster, *words: str) -> Iterator[None]:
    """Apply what `claimsmith` prints with some words; it is in force while the context is open."""
    command = [sys.executable, "-m", "claimsmith", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    manifests = [text for text in printed.split("---\n") if not any(kind in text for kind in _NEED_IMAGES)]
    applied = "---\n".join(manifests)
    cluster.kubectl("apply", "-f", "-", stdin=applied)
    try:
        _wait_served(cluster, applied)
        _wait_in_force(cluster)
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", "--timeout=180s", stdin=applied)


def list_rights(cluster: RealCluster, account: Path) -> set[tuple[str, str]]:
    """Return what an account may do with which resources of the default namespace, beyond what everybody may."""
    nobody = cluster.service_account("nobody")
    return _list_all(cluster, account) - _list_all(cluster, nobody)


def _list_all(cluster: RealCluster, account: Path) -> set[tuple[str, str]]:
    said = cluster.kubectl("auth", "can-i", "--list", "--namespace", "default", "--no-headers", kubeconfig=account)
    return set(re.findall(r"^(\S+) .* (\[[^\]]*\])$", said, re.MULTILINE))


async def why_refused(request: Awaitable[object]) -> str:
    """Return why the server refuses a request; empty when it does not."""
    try:
        await request
    except (ForbiddenError, InvalidObjectError) as error:
        return str(error)
    return ""


def _wait_served(cluster: RealCluster, applied: str) -> None:
    """Return once the API server serves the kinds that manifests define."""
    for item in yaml.safe_load_all(applied):
        if item and item["kind"] == "CustomResourceDefinition":
            spec = item["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            _repeat(partial(_is_served, cluster, path), path)


def _is_served(cluster: RealCluster, path: str) -> bool:
    return cluster.try_kubectl("get", "--raw", path).status == 0


def _wait_in_force(cluster: RealCluster) -> None:
    """Return once the API server heeds all rights and policies that were written so far.

    It reads each kind in the order in which objects were written: once it heeds a role, a binding and a policy that
    nobody has seen before, it heeds all that are older.
    """
    mark = f"mark-{secrets.token_hex(4)}"
    applied = json.dumps({"apiVersion": "v1", "kind": "List", "items": _make_marks(mark)})
    cluster.kubectl("create", "-f", "-", stdin=applied)
    try:
        for resource in ("nodes", "pods"):
            _repeat(partial(_may_get, cluster, mark, resource), f"right of {mark} to get {resource}")
        create = ("-n", "default", "create", "configmap", mark, "--dry-run=server")
        _repeat(lambda: f"{mark} is in force" in cluster.try_kubectl(*create).err, f"policy {mark}")
    finally:
        cluster.kubectl("delete", "-f", "-", "--wait=false", stdin=applied)


def _may_get(cluster: RealCluster, user: str, resource: str) -> bool:
    return cluster.try_kubectl("auth", "can-i", "get", resource, "-n", "default", "--as", user).status == 0


def _repeat(ask: Callable[[], bool], what: str) -> None:
    """Ask until it is so."""
    deadline_s = time.monotonic() + _GRANTED_S
    while not ask():
        assert time.monotonic() < deadline_s, f"{what}: not in force after {_GRANTED_S:g} s"


def _make_marks(mark: str) -> list[dict[str, Any]]:
    """Return roles by which a user of that name reads nodes, and pods of one namespace, and a policy on a ConfigMap."""
    everywhere, here = {"name": mark}, {"name": mark, "namespace": "default"}
    constraints = {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
         "resourceNames": [mark]},
    ]}  # fmt: skip
    refusal = {"expression": "false", "message": f"{mark} is in force"}
    policy = {"matchConstraints": constraints, "validations": [refusal]}
    return [
        *_grant("ClusterRole", everywhere, {"": ["nodes"]}, kind="User", name=mark),
        *_grant("Role", here, {"": ["pods"]}, kind="User", name=mark),
        {"apiVersion": _POLICIES, "kind": "ValidatingAdmissionPolicy", "metadata": everywhere, "spec": policy},
        {
            "apiVersion": _POLICIES,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": everywhere,
            "spec": {"policyName": mark, "validationActions": ["Deny"]},
        },
    ]


def _grant(role: str, metadata: Mapping[str, str], reads: Mapping[str, Sequence[str]], **subject: str) -> list[Any]:
    """Return a role that gets resources, by their groups, and its binding to a subject."""
    rules = [{"apiGroups": [group], "resources": [*names], "verbs": ["get"]} for group, names in reads.items()]
    common = {"apiVersion": f"{_RBAC}/v1", "metadata": dict(metadata)}
    reference = {"apiGroup": _RBAC, "kind": role, "name": metadata["name"]}
    return [
        {**common, "kind": role, "rules": rules},
        {**common, "kind": f"{role}Binding", "roleRef": reference, "subjects": [{"apiGroup": _RBAC, **subject}]},
    ]


@contextlib.contextmanager
def nodes_read_claims(cluster: RealCluster) -> Iterator[None]:
    """Let kubelets read every pod and claim while the context is open.

    The authorizer of nodes learns of a pod a moment after its binding, and until then refuses the node's kubelet the
    claims: now and then a kubelet fails to prepare for this reason alone, and tries again after 60 to 90 seconds.
    """
    reads = {"": ["pods"], "resource.k8s.io": ["resourceclaims"]}
    items = _grant("ClusterRole", {"name": _NAME}, reads, kind="Group", name="system:nodes")
    applied = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.kubectl("apply", "-f", "-", stdin=applied)
    try:
        _wait_in_force(cluster)
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=applied)
