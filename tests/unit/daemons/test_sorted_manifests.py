"""Manifests of a user on the way to a cluster: versions, unknown fields, rules."""

from __future__ import annotations

import pytest

from claimsmith.api.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.clusterplan import plan_cluster
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.sorted_manifests import sort_manifests
from claimsmith.errors import InputError

CLAIM = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: r
      deviceClassName: gpu
"""
SLICE = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic: {capacity: {memory: {value: 80Gi}}}
"""
CLASS = "apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata: {name: gpu}\nspec: {}\n"


def test_an_object_of_an_older_version_is_handed_on_as_it_is_kept() -> None:
    ((kind, manifest),) = sort_manifests(parse_manifests(CLAIM, source="f.yaml")).objects

    assert kind is RESOURCE_CLAIM
    assert manifest.object["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]


def test_an_unknown_field_is_left_out_with_a_sentence_that_names_the_nearest_one() -> None:
    found = sort_manifests(parse_manifests(CLAIM + "      cout: 2\n", source="f.yaml"))
    ((_, manifest),) = found.objects

    assert manifest.object["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    assert found.left_out == (
        "f.yaml, document 1, line 9: left out spec.devices.requests[0].cout, which resource.k8s.io/v1beta1 "
        "ResourceClaim does not have; write count",
    )


def test_an_unknown_field_is_refused_when_asked_for() -> None:
    with pytest.raises(InputError, match=r"f\.yaml, document 1, line 9: .*cout: found 'cout', .*; write count"):
        sort_manifests(parse_manifests(CLAIM + "      cout: 2\n", source="f.yaml"), strict=True)


def test_a_rule_that_an_older_object_breaks_is_named_with_its_place() -> None:
    with pytest.raises(InputError, match=r"f\.yaml, document 1, line 7: spec\.devices\.requests\[0\]\.exactly\.count"):
        sort_manifests(parse_manifests(CLAIM + "      count: -1\n", source="f.yaml"))


def test_one_object_in_two_versions_is_there_twice() -> None:
    newer = CLAIM.replace("v1beta1", "v1").replace("deviceClassName: gpu", "exactly: {deviceClassName: gpu}")

    with pytest.raises(InputError, match="found a second ResourceClaim default/c"):
        sort_manifests(parse_manifests(f"{CLAIM}---\n{newer}", source="f.yaml"))


def test_slices_of_older_versions_get_stand_ins_of_their_drivers() -> None:
    plan = plan_cluster(parse_manifests(SLICE, source="f.yaml"))

    assert [item.kind for item in plan.objects if item.kind is RESOURCE_SLICE] == []
    assert plan.settings[0].object["spec"]["devices"] == [{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}]


def test_a_decision_mixes_versions() -> None:
    text = "---\n".join((SLICE, CLASS, CLAIM))
    (decision,) = OfflineCluster(parse_manifests(text, source="f.yaml")).decide()

    assert (decision.outcome, decision.node) == ("allocated", "n1")


def test_the_first_item_of_a_snapshot_says_nothing_of_its_own() -> None:
    text = "apiVersion: claimsmith.dev/v1alpha1\nkind: ClusterSnapshot\nmetadata: {name: cluster}\n"
    found = sort_manifests(parse_manifests(text, source="x"))

    assert (found.objects, found.left_out) == ((), ())
