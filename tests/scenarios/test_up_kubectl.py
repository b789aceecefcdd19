"""A stock kubectl session against `claimsmith up`, with real nodes, drivers and a scheduler behind it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.cli_process import UpProcess, up

pytestmark = pytest.mark.kubectl

CLUSTER = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  nodes: [alpha, beta]
  driver: gpu.example.com
  gpus: [{model: T4, count: 2}]
---
apiVersion: v1
kind: Node
metadata: {name: beta, labels: {tier: gold}, annotations: {team: red}}
spec: {taints: [{key: reserved, value: "yes", effect: NoSchedule}]}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "20"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
"""


def pod(name: str, *, annotations: str = "{}", more: str = "") -> str:
    """Return a pod that wants one GPU."""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team, annotations: {annotations}}}
spec:
  restartPolicy: Never
  containers:
  - {{name: main, image: 'registry.example.test/job:1', resources: {{claims: [{{name: gpu}}]}}}}
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]
  {more}
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table without its head."""
    return [line.split() for line in table.splitlines()[1:]]


def names(cluster: UpProcess, kind: str) -> list[str]:
    return [row[0] for row in rows(cluster.kubectl("get", kind, "-n", "team"))]


def read(cluster: UpProcess, *what: str) -> Any:
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    home = tmp_path_factory.mktemp("up")
    (home / "cluster.yaml").write_text(CLUSTER)
    with up("-f", str(home / "cluster.yaml"), home=home) as running:
        yield running
        ended = running.end(signal.SIGINT)

        assert (ended.code, ended.out) == (0, "")
        assert not running.kubeconfig.exists()
        assert list(running.temporary.iterdir()) == []


def test_unknown_kinds_are_named_and_left_out(cluster: UpProcess) -> None:
    assert cluster.err.count("\n") == 1
    assert "left out apps/v1 Deployment; its pods are not made here, write them as Pods" in cluster.err


def test_it_says_how_kubectl_is_used(cluster: UpProcess) -> None:
    assert cluster.lines[0].endswith(", 2 nodes")
    assert cluster.lines[1] == f"kubectl --kubeconfig {cluster.kubeconfig} get nodes,pods,resourceslices"


def test_nodes_and_slices_are_there_when_it_is_ready(cluster: UpProcess) -> None:
    assert [row[:2] for row in rows(cluster.kubectl("get", "nodes"))] == [["alpha", "Ready"], ["beta", "Ready"]]
    assert sorted(row[1:4] for row in rows(cluster.kubectl("get", "resourceslices"))) == [
        ["alpha", "gpu.example.com", "alpha"],
        ["beta", "gpu.example.com", "beta"],
    ]


def test_a_node_is_as_its_manifest_says(cluster: UpProcess) -> None:
    node = read(cluster, "node", "beta")

    assert (node["metadata"]["labels"]["tier"], node["metadata"]["annotations"]["team"]) == ("gold", "red")
    assert node["spec"]["taints"] == [{"key": "reserved", "value": "yes", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["cpu"] == "4"


def test_namespaces_that_objects_name_are_made(cluster: UpProcess) -> None:
    assert names(cluster, "resourceclaimtemplates") == ["one"]


def test_pods_run_wait_with_a_reason_and_are_freed_by_deletion(cluster: UpProcess) -> None:
    for name in ("first", "second", "third"):
        cluster.kubectl("apply", "-f", "-", text=pod(name))
    cluster.kubectl(
        "wait", "-n", "team", "pod/first", "pod/second", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"
    )
    cluster.kubectl("wait", "-n", "team", "pod/third", "--for=condition=PodScheduled=False", "--timeout=60s")
    described = cluster.kubectl("describe", "pod", "third", "-n", "team")
    output = cluster.kubectl("logs", "first", "-n", "team")

    assert "FailedScheduling" in described
    assert re.search(r"gpu-0 in use by team/\w+-gpu-\w+", described)
    assert "node beta: " in described or "reserved" in described
    assert re.search(r"env CLAIMSMITH_GPU_[01]=GPU-", output)
    assert "device /dev/claimsmith/gpu-" in output

    cluster.kubectl("delete", "pod", "first", "-n", "team")
    cluster.kubectl("wait", "-n", "team", "pod/third", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")

    assert sorted(names(cluster, "resourceclaims"))[0].startswith("second-gpu-")
    cluster.kubectl("delete", "pods", "--all", "-n", "team")
    cluster.kubectl("wait", "-n", "team", "resourceclaims", "--all", "--for=delete", "--timeout=60s")


def test_a_pod_that_tolerates_the_taint_goes_to_the_tainted_node(cluster: UpProcess) -> None:
    more = "tolerations: [{key: reserved, operator: Exists}]\n  nodeSelector: {tier: gold}"
    cluster.kubectl("create", "-f", "-", text=pod("golden", more=more))
    cluster.kubectl("wait", "-n", "team", "pod/golden", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")

    assert read(cluster, "pod", "golden", "-n", "team")["spec"]["nodeName"] == "beta"
    cluster.kubectl("delete", "pod", "golden", "-n", "team")


def test_a_watch_shows_a_pod_from_pending_to_succeeded(cluster: UpProcess) -> None:
    cluster.kubectl("apply", "-f", "-", text=pod("early", more="schedulingGates: [{name: example.test/never}]"))
    watch = cluster.start_kubectl("get", "pods", "-n", "team", "-w", "--output-watch-events", "--no-headers")
    assert watch.stdout is not None
    # A row of the pod that is there already: from now on the watch misses nothing.
    assert watch.stdout.readline().decode().split()[:2] == ["ADDED", "early"]
    cluster.kubectl("apply", "-f", "-", text=pod("short", annotations="{claimsmith.dev/run-for: 100ms}"))
    seen: list[list[str]] = []
    while not seen or seen[-1][3] != "Completed":
        seen.append(watch.stdout.readline().decode().split())
    watch.terminate()
    watch.communicate()

    assert seen[0][:2] == ["ADDED", "short"]
    assert [status for status in ("Pending", "Running", "Completed") if status in {row[3] for row in seen}] == [
        "Pending",
        "Running",
        "Completed",
    ]
    cluster.kubectl("delete", "pod", "short", "early", "-n", "team")


def test_what_is_wrong_is_refused_with_a_sentence(cluster: UpProcess) -> None:
    told = cluster.kubectl("apply", "-f", "-", text=pod("Not_OK"), fails=True)

    assert "a lowercase RFC 1123 subdomain" in told
