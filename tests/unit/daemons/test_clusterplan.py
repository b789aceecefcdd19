"""What an embedded cluster is made of, out of manifests."""

from __future__ import annotations

import pytest

from claimsmith.api.manifests import Manifest, parse_manifests
from claimsmith.daemons.clusterplan import ONLY_NODE, ClusterPlan, NodePlan, plan_cluster
from claimsmith.errors import FieldError, InputError

SETTINGS = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec: {nodes: [alpha, "gpu-*"], gpus: [{model: T4}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team}
spec: {containers: [{name: main, image: 'example/web:1'}]}
"""
FROM_A_SERVER = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: team
  uid: 11111111-2222-3333-4444-555555555555
  resourceVersion: "7"
  creationTimestamp: "2020-01-01T00:00:00Z"
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: x}]
spec: {nodeName: alpha, containers: [{name: main, image: 'example/web:1'}]}
status: {phase: Running}
"""


def plan(*texts: str) -> ClusterPlan:
    return plan_cluster(manifests(*texts))


def manifests(*texts: str) -> tuple[Manifest, ...]:
    return parse_manifests("\n---\n".join(texts), source="files")


def published(name: str, *, pool: str, generation: int = 1, devices: str = "[{name: gpu-0}]", more: str = "") -> str:
    """Return a ResourceSlice of node alpha."""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {{name: {pool}, generation: {generation}, resourceSliceCount: 1}}
  devices: {devices}
{more}"""


def stand_ins(found: ClusterPlan) -> dict[str, list[str]]:
    """Return the names of the devices of each stand-in by its pool."""
    return {item.object["spec"]["pool"]: [d["name"] for d in item.object["spec"]["devices"]] for item in found.settings}


def test_nodes_come_from_settings_that_name_them_in_full() -> None:
    assert [node.name for node in plan(SETTINGS).nodes] == ["alpha"]


def test_settings_for_every_node_make_one() -> None:
    found = plan(SETTINGS.replace('nodes: [alpha, "gpu-*"], ', ""))

    assert found.nodes == (NodePlan(name=ONLY_NODE),)


def test_without_settings_and_nodes_there_is_none() -> None:
    assert plan(POD).nodes == ()


def test_a_node_has_labels_and_amounts_of_its_manifest() -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: alpha, labels: {tier: gold}}
status: {capacity: {cpu: 8}, allocatable: {cpu: 7}}
"""
    (node,) = plan(text, SETTINGS).nodes

    assert (node.name, node.labels, node.capacity) == ("alpha", {"tier": "gold"}, {"cpu": "7"})


def test_node_manifests_are_not_created_twice() -> None:
    assert plan("apiVersion: v1\nkind: Node\nmetadata: {name: alpha}").objects == ()


def test_what_others_need_is_created_first() -> None:
    template = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
    device_class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}"

    found = [item.kind.kind for item in plan(POD, template, device_class, namespace).objects]

    assert found == ["Namespace", "DeviceClass", "ResourceClaimTemplate", "Pod"]


def test_namespaces_that_nobody_makes_are_made() -> None:
    assert plan(POD).namespaces == ("team",)
    assert plan(POD, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}").namespaces == ()


def test_an_object_without_a_namespace_goes_to_default() -> None:
    (item,) = plan(POD.replace(", namespace: team", "")).objects

    assert item.namespace == "default"


def test_an_object_that_was_written_by_hand_is_created_as_it_stands_without_its_status() -> None:
    (item,) = plan(POD + "status: {phase: Running}\n").objects

    assert item.content == {key: value for key, value in item.manifest.object.items() if key != "status"}


def test_an_object_of_another_cluster_begins_anew() -> None:
    (item,) = plan(FROM_A_SERVER).objects

    assert item.content["metadata"] == {"name": "web", "namespace": "team", "labels": {"app": "web"}}
    assert item.content["spec"] == {"containers": [{"name": "main", "image": "example/web:1"}]}
    assert "status" not in item.content


@pytest.mark.parametrize("more", ["", "  annotations: {resource.kubernetes.io/pod-claim-name: gpu}\n"])
def test_claims_that_were_made_for_a_pod_are_left_to_the_controller(more: str) -> None:
    claim = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: web-gpu-x
  uid: x
{more}spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}
"""

    assert [item.kind.kind for item in plan(claim).objects] == ([] if more else ["ResourceClaim"])


def test_slices_of_a_node_become_a_stand_in_for_each_pool() -> None:
    found = plan(published("a", pool="left"), published("b", pool="right"))

    assert stand_ins(found) == {"left": ["gpu-0"], "right": ["gpu-0"]}
    assert [node.name for node in found.nodes] == ["alpha"]
    assert found.objects == ()


def test_a_pool_named_after_its_node_is_the_usual_one() -> None:
    assert stand_ins(plan(published("a", pool="alpha"))) == {"": ["gpu-0"]}


def test_of_a_pool_the_newest_generation_counts_in_the_order_of_its_slices() -> None:
    found = plan(
        published("z", pool="p", generation=2, devices="[{name: last}]"),
        published("b", pool="p", generation=2, devices="[{name: first}]"),
        published("a", pool="p", generation=1, devices="[{name: old}]"),
    )

    assert stand_ins(found) == {"p": ["first", "last"]}


def test_slices_for_many_nodes_stay_objects() -> None:
    text = published("a", pool="p").replace("nodeName: alpha", "allNodes: true")

    assert [item.kind.kind for item in plan(text).objects] == ["ResourceSlice"]


def test_kinds_without_use_are_left_out_with_a_sentence() -> None:
    found = plan("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}", SETTINGS)

    assert found.left_out == (
        "files, document 1, line 1: left out apps/v1 Deployment; its pods are not made here, write them as Pods",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: resource.k8s.io/v0\nkind: ResourceClaim", "write apiVersion: resource.k8s.io/v1, kind: Resou"),
        ("apiVersion: v1\nkind: pod", "write apiVersion: v1, kind: Pod"),
        ("apiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevice", "allowed SimulatedDevices; correct the kind"),
    ],
)
def test_a_kind_that_is_almost_right_is_left_out_with_the_right_one(text: str, told: str) -> None:
    (sentence,) = plan(text).left_out

    assert told in sentence


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Pod", "line 1: found no apiVersion"),
        ("apiVersion: v1", "line 1: found no kind"),
        ("apiVersion: 1\nkind: Pod", "found 1 Pod, allowed are the kinds Binding, "),
        (POD.replace("name: web, ", ""), "metadata.name: found nothing, name or generateName is required; add it"),
        (POD.replace("name: web", "name: Web"), "line 4: metadata.name: found 'Web', a lowercase RFC 1123 subdomain"),
        (f"{POD}---{POD}", "document 2, line 7: found a second Pod team/web (the first: files, document 1, line 2)"),
        (SETTINGS.replace("[alpha", "[Alpha"), "line 5: spec.nodes[0]: found 'Alpha'"),
        (SETTINGS.replace("gpus:", "driver: Bad_Name, gpus:"), "spec.driver: found 'Bad_Name'"),
        (SETTINGS.replace("gpus:", "pool: Bad_Name, gpus:"), "spec.pool: found 'Bad_Name'"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(text)

    assert told in str(caught.value)


def test_a_selector_that_does_not_compile_is_refused_before_anything_starts() -> None:
    text = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.drver == "x"'}}]}
"""

    with pytest.raises(InputError, match=r"line 5: spec.selectors\[0\].cel.expression: found .*no field 'drver'"):
        plan(text)


def test_a_wrong_type_is_refused_with_its_field() -> None:
    with pytest.raises(FieldError, match="metadata: found 5, allowed an object"):
        plan("apiVersion: v1\nkind: Pod\nmetadata: 5")


def test_an_object_that_a_server_has_accepted_is_not_judged_again() -> None:
    text = FROM_A_SERVER.replace("name: main", "name: Main_Container")

    assert len(plan(text).objects) == 1


def test_the_manifests_are_not_changed() -> None:
    given = manifests(POD, SETTINGS, published("a", pool="p"), FROM_A_SERVER.replace("name: web", "name: other"))
    before = repr([item.object for item in given])
    plan_cluster(given)

    assert repr([item.object for item in given]) == before


def test_kinds_that_nothing_in_an_embedded_cluster_obeys_are_left_out_aloud() -> None:
    budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {maxUnavailable: 1}\n"
    found = plan(SETTINGS, budget)

    assert found.objects == ()
    assert "left out policy/v1 PodDisruptionBudget; an embedded cluster does not obey it" in found.left_out[0]
