"""The cluster itself, what the tests stand on; and an agent in it with more feature gates than the defaults."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from claimsmith.api.kinds import POD
from claimsmith.kube.client import KubeClient
from tests.cluster import test_claims, test_health, test_prepare
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.plugins import install_plugin
from tests.cluster.watching import wait_for_object, wait_phase


@pytest.mark.gates("defaults", "beta", "all")
async def test_a_pod_runs_and_its_log_says_so(real_cluster: RealCluster, client: KubeClient) -> None:
    await client.create(POD, pod("plain", "echo it runs"))
    ended = await wait_phase(client, "plain")

    assert await real_cluster.wait_printed(ended, "it runs") == "it runs"


@pytest.mark.gates("defaults", "beta", "all")
async def test_the_api_server_has_the_gates(real_cluster: RealCluster, client: KubeClient) -> None:
    metrics = await asyncio.to_thread(real_cluster.kubectl, "get", "--raw", "/metrics")
    enabled = dict(re.findall(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} (\d)$', metrics, re.MULTILINE))
    group = json.loads(await asyncio.to_thread(real_cluster.kubectl, "get", "--raw", "/apis/resource.k8s.io"))

    assert (enabled["DRAFractionalCapacityRange"], enabled["DRADerivedAttributes"]) == {
        "defaults": ("0", "0"),
        "beta": ("1", "0"),
        "all": ("1", "1"),
    }[real_cluster.gates]
    assert {version["version"] for version in group["versions"]} == {
        "defaults": {"v1"},
        "beta": {"v1", "v1beta1", "v1beta2"},
        "all": {"v1", "v1beta1", "v1beta2", "v1alpha3"},
    }[real_cluster.gates]


async def test_a_node_without_kubelet_takes_no_harm(real_cluster: RealCluster, client: KubeClient) -> None:
    await asyncio.to_thread(real_cluster.add_node, "paper", labels={"made-of": "paper"})
    await client.create(POD, pod("there", nodeSelector={"made-of": "paper"}))
    bound = await wait_for_object(client, POD, "there", lambda found: "nodeName" in found["spec"])

    assert bound["spec"]["nodeName"] == "paper"


async def test_a_service_account_may_do_what_it_is_granted(real_cluster: RealCluster, client: KubeClient) -> None:
    account = await asyncio.to_thread(real_cluster.service_account, "reader", bound_to_node="node-a")
    who = await asyncio.to_thread(real_cluster.kubectl, "auth", "whoami", "-o", "json", kubeconfig=account)
    said = await asyncio.to_thread(real_cluster.try_kubectl, "get", "nodes", kubeconfig=account)
    user = json.loads(who)["status"]["userInfo"]

    assert user["username"] == "system:serviceaccount:default:reader"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-a"]
    assert said.status == 1
    assert "forbidden" in said.err


@pytest.mark.gates("beta", "all")
async def test_shares_are_given_with_more_gates(real_cluster: RealCluster, client: KubeClient) -> None:
    await test_claims.test_a_share_carries_its_id_and_its_amount(real_cluster, client)


@pytest.mark.gates("beta", "all")
async def test_pods_are_evicted_by_taint_rules_with_more_gates(real_cluster: RealCluster, client: KubeClient) -> None:
    await test_health.test_a_pod_is_evicted_from_a_device_that_fails_for_good(real_cluster, client, "rules")


@pytest.mark.gates("beta", "all")
async def test_metadata_is_read_with_more_gates(real_cluster: RealCluster, client: KubeClient, tmp_path: Path) -> None:
    packages = install_plugin(tmp_path, "odd", test_prepare.ODD)

    await test_prepare.test_a_program_reads_of_its_device_and_users_of_the_claims_status(real_cluster, client, packages)
