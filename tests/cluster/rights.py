"""Rights in a real cluster: those that operators apply for a daemon, and those that make a kubelet's doings certain."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from tests.cluster.cluster import RealCluster
from tests.cluster.recipe import NODE

__all__ = ["SPACE", "granted", "nodes_read_claims"]

SPACE: Final = "claimsmith-system"
"""The namespace that is printed."""
_NEED_IMAGES: Final = ("kind: DaemonSet", "kind: Deployment")
_READS: Final = {"pods": "", "resourceclaims": "resource.k8s.io"}
_NAME: Final = "nodes-read-claims"
_GRANTED_S: Final = 60.0


@contextlib.contextmanager
def granted(cluster: RealCluster, *words: str) -> Iterator[None]:
    """Apply what `claimsmith` prints with some words while the context is open."""
    command = [sys.executable, "-m", "claimsmith", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    manifests = [text for text in printed.split("---\n") if not any(kind in text for kind in _NEED_IMAGES)]
    applied = "---\n".join(manifests)
    cluster.kubectl("apply", "-f", "-", stdin=applied)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", "--wait=false", stdin=applied)
        cluster.kubectl("wait", "--for=delete", f"namespace/{SPACE}", "--timeout=60s")


@contextlib.contextmanager
def nodes_read_claims(cluster: RealCluster) -> Iterator[None]:
    """Let kubelets read every pod and claim while the context is open.

    The authorizer of nodes learns of a pod a moment after its binding, and until then refuses the node's kubelet the
    claims: now and then a kubelet fails to prepare for this reason alone, and tries again after 60 to 90 seconds.
    """
    applied = json.dumps({"apiVersion": "v1", "kind": "List", "items": _allow_nodes()})
    cluster.kubectl("apply", "-f", "-", stdin=applied)
    as_node = ("--as", f"system:node:{NODE}", "--as-group", "system:nodes")
    try:
        deadline_s = time.monotonic() + _GRANTED_S
        for resource, group in _READS.items():
            what = f"{resource}.{group}".rstrip(".")
            while (said := cluster.try_kubectl("auth", "can-i", "get", what, *as_node)).status:
                assert time.monotonic() < deadline_s, f"nodes may not read {what}: {said.out}{said.err}"
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=applied)


def _allow_nodes() -> list[dict[str, object]]:
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [group], "resources": [name], "verbs": ["get"]} for name, group in _READS.items()]
    common = {"apiVersion": f"{api}/v1", "metadata": {"name": _NAME}}
    subject = {"apiGroup": api, "kind": "Group", "name": "system:nodes"}
    role = {"apiGroup": api, "kind": "ClusterRole", "name": _NAME}
    return [
        {**common, "kind": "ClusterRole", "rules": rules},
        {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]
