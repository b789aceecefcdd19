"""The pods of workloads."""

from __future__ import annotations

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.api.workload_pods import expand_workloads, find_pod_templates

POD = """
{metadata: {labels: {app: x}}, spec: {containers: [{name: main}]}}
"""


def expand(text: str, known: tuple[tuple[str, str], ...] = ()) -> list[tuple[str, str]]:
    found = expand_workloads(parse_manifests(text, source="f.yaml"), known=known)
    return [(item.object["kind"], item.object["metadata"]["name"]) for item in found]


def workload(kind: str, spec: str) -> str:
    return f"apiVersion: {kind.replace(' ', chr(10) + 'kind: ')}\nmetadata: {{name: w}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("kind", "spec", "names"),
    [
        ("apps/v1 Deployment", f"{{replicas: 2, template: {POD}}}", ["w-0", "w-1"]),
        ("apps/v1 ReplicaSet", f"{{template: {POD}}}", ["w-0"]),
        ("apps/v1 StatefulSet", f"{{replicas: 0, template: {POD}}}", []),
        ("v1 ReplicationController", f"{{replicas: many, template: {POD}}}", ["w-0"]),
        ("batch/v1 Job", f"{{parallelism: 3, completions: 2, template: {POD}}}", ["w-0", "w-1"]),
        ("batch/v1 CronJob", f"{{jobTemplate: {{spec: {{template: {POD}}}}}}}", ["w-0"]),
        (
            "jobset.x-k8s.io/v1alpha2 JobSet",
            "{replicatedJobs: [{name: a, replicas: 2, template: {spec: {template: "
            f"{POD}}}}}}}, {{name: b, template: {{spec: {{template: {POD}}}}}}}]}}",
            ["w-a-0", "w-a-1", "w-b-0"],
        ),
        (
            "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet",
            f"{{replicas: 2, leaderWorkerTemplate: {{size: 2, leaderTemplate: {POD}, workerTemplate: {POD}}}}}",
            ["w-leader-0", "w-leader-1", "w-worker-0", "w-worker-1"],
        ),
    ],
    ids=lambda value: value.partition(" ")[2] if isinstance(value, str) and value[:1] != "{" else "",
)
def test_a_workload_becomes_the_pods_that_it_makes(kind: str, spec: str, names: list[str]) -> None:
    assert expand(workload(kind, spec)) == [("Pod", name) for name in names]


def test_a_pod_has_the_labels_and_spec_of_its_template_and_the_namespace_of_its_workload() -> None:
    text = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: w, namespace: team}}\nspec: {{template: {POD}}}"
    (made,) = expand_workloads(parse_manifests(text, source="f.yaml"))

    assert made.object == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"app": "x"}, "name": "w-0", "namespace": "team"},
        "spec": {"containers": [{"name": "main"}]},
    }


def test_a_field_of_a_pod_is_found_in_its_workload() -> None:
    lines = ["- apiVersion: apps/v1", "  kind: Deployment", "  spec:", "    template:", "      spec:", "        x: 1"]
    text = "\n".join(["kind: List", "apiVersion: v1", "items:", *lines])
    (made,) = expand_workloads(parse_manifests(text, source="f.yaml"))

    assert made.locate("spec.x") == "f.yaml, document 1, line 9"


def test_a_daemon_set_stays_as_its_pods_depend_on_the_nodes() -> None:
    assert expand(workload("apps/v1 DaemonSet", f"{{template: {POD}}}")) == [("DaemonSet", "w")]


def test_pods_that_are_there_are_not_made_again() -> None:
    text = workload("apps/v1 StatefulSet", f"{{replicas: 2, template: {POD}}}")

    assert expand(text, known=(("default", "w-0"), ("other", "w-1"))) == [("Pod", "w-1")]


def test_other_kinds_have_no_pod_templates() -> None:
    assert find_pod_templates({"apiVersion": "example.com/v1", "kind": "Deployment"}) == ()
