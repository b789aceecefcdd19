"""What the controller's own ServiceAccount may do, judged by the real authorizer and admission: touch pods, no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import POD
from claimsmith.daemons.controller_retries import RETRY_ANNOTATION
from claimsmith.kube.client import KubeClient
from claimsmith.schedule.returns import RETURN_ANNOTATION
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.rights import SPACE, granted, list_rights, why_refused

ACCOUNT = "claimsmith-controller"


@pytest.fixture(scope="module")
def account(real_cluster: RealCluster) -> Iterator[Path]:
    """A kubeconfig of the controller's account, after an operator has applied what the command prints.

    Without the Deployment, which has no image here.
    """
    with granted(real_cluster, "controller", "--print-manifests"):
        yield real_cluster.service_account(ACCOUNT, namespace=SPACE)


async def test_a_controller_touches_pods_and_changes_nothing_of_them(client: KubeClient, account: Path) -> None:
    # Nobody else writes to a pod with a gate.
    await client.create(POD, pod("waiting", schedulingGates=[{"name": "example.com/wait"}]))
    image = [{"name": "main", "image": "registry.example/other"}]
    patches: dict[str, dict[str, Any]] = {
        "again": {"metadata": {"annotations": {RETRY_ANNOTATION: "1"}}},
        "returned": {"metadata": {"annotations": {RETURN_ANNOTATION: "x"}}},
        "over": {"metadata": {"annotations": {RETRY_ANNOTATION: None}}},
        "image": {"spec": {"containers": image}},
        "gate": {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/wait"}]}},
        "deadline": {"spec": {"activeDeadlineSeconds": 1}},
        "note": {"metadata": {"annotations": {"example.com/note": "1"}}},
        "label": {"metadata": {"labels": {"app": "other"}}},
        "finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
        "owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
    }
    own = KubeClient.from_kubeconfig(account)
    try:
        said = {
            name: await why_refused(own.patch(POD, "waiting", patch, namespace="default", patch_type="strategic"))
            for name, patch in patches.items()
        }
    finally:
        await own.close()

    assert [name for name, why in said.items() if not why] == ["again", "returned", "over"]
    assert all("the controller may change " in why for why in said.values() if why)


def test_the_controller_may_do_no_more_than_it_needs(real_cluster: RealCluster, account: Path) -> None:
    assert list_rights(real_cluster, account) == {
        ("pods", "[get list patch]"),
        ("events", "[list watch]"),
        ("resourceclaims.resource.k8s.io", "[get]"),
    }
