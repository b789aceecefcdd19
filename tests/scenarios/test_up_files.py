"""What `claimsmith up` makes of people's files: edits while it runs, published slices, standard input, kubeconfigs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.cli_process import UpProcess, run_claimsmith, start_claimsmith, up
from tests.scenarios.one_card import ONE_CARD

pytestmark = pytest.mark.kubectl

CARDS = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  nodes: [alpha]
  driver: gpu.example.com
  gpus:
  - {model: T4, name: one}
"""
SLICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: left-old}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {name: left, generation: 1, resourceSliceCount: 1}
  devices: [{name: gone}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: left}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {name: left, generation: 2, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: right}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {name: right, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: L4}}, taints: [{key: cooling, effect: NoSchedule}]}
"""


def pod(name: str, *, template: str = "one") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  restartPolicy: Never
  containers:
  - {{name: main, image: 'registry.example.test/job:1', resources: {{claims: [{{name: gpu}}]}}}}
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: {template}}}]
"""


def rewrite(file: Path, text: str) -> None:
    """Put another text into a file in one step, so that nobody reads a part of it."""
    hidden = file.with_name(f".{file.name}.new")
    hidden.write_text(text)
    hidden.replace(file)


def join(*texts: str) -> str:
    return "\n---\n".join(texts)


def wait_running(cluster: UpProcess, *names: str) -> None:
    pods = [f"pod/{name}" for name in names]
    cluster.kubectl("wait", *pods, "--for=jsonpath={.status.phase}=Running", "--timeout=60s")


def read(cluster: UpProcess, *what: str) -> Any:
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def devices(cluster: UpProcess) -> list[tuple[str, str]]:
    """Return pool and name of all published devices."""
    found = [item["spec"] for item in read(cluster, "resourceslices")["items"]]
    return sorted((spec["pool"]["name"], device["name"]) for spec in found for device in spec.get("devices", ()))


def held(cluster: UpProcess) -> list[tuple[str, str]]:
    """Return pool and name of all allocated devices."""
    found = [item["status"].get("allocation") for item in read(cluster, "resourceclaims")["items"]]
    return sorted(
        (r["pool"], r["device"]) for allocation in found if allocation for r in allocation["devices"]["results"]
    )


def test_a_card_that_is_added_to_the_file_runs_the_pod_that_waits(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(join(CARDS, ONE_CARD, pod("first"), pod("second")))
    with up("-f", str(file), home=tmp_path) as cluster:
        cluster.kubectl("wait", "pod/second", "--for=condition=PodScheduled=False", "--timeout=60s")
        rewrite(file, file.read_text().replace("name: one}\n", "name: one}\n  - {model: T4, name: two}\n", 1))
        wait_running(cluster, "first", "second")

        assert devices(cluster) == held(cluster) == [("alpha", "one"), ("alpha", "two")]


def test_an_edit_that_can_not_be_used_is_told_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CARDS)
    with up("-f", str(file), home=tmp_path) as cluster:
        with (tmp_path / "stderr").open(encoding="utf-8") as errors:
            rewrite(file, CARDS.replace("model: T4", "modle: T4"))
            line = ""
            while not line.endswith("\n"):
                line += errors.readline()

        assert "ERROR claimsmith.agent: Devices can't be listed" in line
        assert "spec.gpus[0].modle" in line
        assert devices(cluster) == [("alpha", "one")]


def test_published_slices_are_served_pool_by_pool_by_stand_ins(tmp_path: Path) -> None:
    tolerant = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: any, namespace: default}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu, tolerations: [{key: cooling, operator: Exists}]}}
"""
    (tmp_path / "slices.yaml").write_text(SLICES)
    (tmp_path / "pods.yaml").write_text(join(ONE_CARD, tolerant, pod("plain"), pod("tolerant", template="any")))
    arguments = ("-f", str(tmp_path / "slices.yaml"), "-f", str(tmp_path / "pods.yaml"))
    with up(*arguments, home=tmp_path) as cluster:
        wait_running(cluster, "plain", "tolerant")
        output = cluster.kubectl("logs", "tolerant")

        assert devices(cluster) == held(cluster) == [("left", "gpu-0"), ("right", "gpu-0")]
        assert "env CLAIMSMITH_RIGHT_GPU_0=gpu-0" in output
        assert "env CLAIMSMITH_LEFT" not in output
        assert "device /dev/claimsmith/right/gpu-0" in output


def test_objects_of_another_cluster_begin_anew(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(join(CARDS, ONE_CARD, pod("first")))
    with up("-f", str(tmp_path / "cluster.yaml"), home=tmp_path) as cluster:
        wait_running(cluster, "first")
        kinds = "nodes,deviceclasses,resourceclaimtemplates,resourceclaims,resourceslices,pods,events"
        dump = cluster.kubectl("get", kinds, "-o", "yaml")
    with up("-f", "-", home=tmp_path, text=dump.encode()) as again:
        wait_running(again, "first")

        assert devices(again) == held(again) == [("alpha", "one")]
        assert len(read(again, "resourceclaims")["items"]) == 1
        assert again.err == ""


def test_standard_input_is_read(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=join(CARDS, ONE_CARD, pod("first")).encode()) as cluster:
        wait_running(cluster, "first")

        assert devices(cluster) == held(cluster) == [("alpha", "one")]


def test_settings_that_name_no_node_get_one(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=CARDS.replace("  nodes: [alpha]\n", "").encode()) as cluster:
        assert devices(cluster) == [("node-1", "one")]


def test_without_nodes_it_says_so(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=ONE_CARD.encode()) as cluster:
        assert "no node in the files, so no pod can run" in cluster.err


def test_the_example_runs_without_files(tmp_path: Path) -> None:
    with up(home=tmp_path) as cluster:
        assert {item["metadata"]["name"] for item in read(cluster, "nodes")["items"]} == {
            "mixed",
            "mig",
            "big",
            "net",
            "spare",
        }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_nothing_left(tmp_path: Path, number: signal.Signals) -> None:
    with up("-f", "-", home=tmp_path, text=join(CARDS, ONE_CARD, pod("first")).encode()) as cluster:
        wait_running(cluster, "first")
        ended = cluster.end(number)

        assert (ended.code, ended.out, ended.err) == (0, "", "")
        assert not cluster.kubeconfig.exists()
        assert list(cluster.temporary.iterdir()) == []


def test_a_signal_while_it_starts_ends_it_too(tmp_path: Path) -> None:
    spec = CARDS.replace("[alpha]", f"[{', '.join(f'node-{number}' for number in range(60))}]")
    process = start_claimsmith("up", "-f", "-", temporary=tmp_path)
    assert process.stdin is not None
    process.stdin.write(spec.encode())
    process.stdin.close()
    process.stdin = None
    while not any(tmp_path.glob("cs-*/*/r/*")):
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=200)

    assert (process.returncode, out, err) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_a_kubeconfig_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("clusters: []\n")
    ran = run_claimsmith("up", "--write-kubeconfig", str(tmp_path / "kubeconfig"), temporary=tmp_path)

    assert ran.code == 2
    assert "found something that claimsmith did not write" in ran.err
    assert (tmp_path / "kubeconfig").read_text() == "clusters: []\n"


def test_a_kubeconfig_that_was_replaced_meanwhile_stays(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=CARDS.encode()) as cluster:
        cluster.kubeconfig.write_text("clusters: []\n")
        ended = cluster.end()

    assert ended.code == 0
    assert (tmp_path / "kubeconfig").read_text() == "clusters: []\n"


def test_a_kubeconfig_that_a_killed_one_left_is_written_anew(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=CARDS.encode()) as cluster:
        cluster.kill()
    assert (tmp_path / "kubeconfig").exists()
    with up("-f", "-", home=tmp_path, text=CARDS.encode()) as again:
        assert devices(again) == [("alpha", "one")]


def test_the_kubeconfig_is_its_owners_alone(tmp_path: Path) -> None:
    with up("-f", "-", home=tmp_path, text=CARDS.encode()) as cluster:
        assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_folder_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "n"
    with up("-f", "-", "--folder", str(folder), home=tmp_path, text=CARDS.encode()):
        ran = run_claimsmith("up", "-f", "-", "--folder", str(folder), temporary=tmp_path, text=CARDS.encode())

    assert ran.code == 2
    assert ran.err.startswith(f"claimsmith: folder {folder}: another process works in it, allowed one; ")
