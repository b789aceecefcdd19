"""`claimsmith lint` as people and programs see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from claimsmith.daemons.tour import TOUR_FOLDER
from tests.scenarios.cli_process import Ran, call_claimsmith

DEVICES = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  nodes: [alpha]
  driver: gpu.example.com
  gpus: [{model: A100-80}, {model: L4}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
"""
MODEL = 'device.attributes["gpu.example.com"].model'
MEMORY = 'device.capacity["gpu.example.com"].memory'


def claim(name: str, selector: str, *, more: str = "", kind: str = "exactly") -> str:
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
    - name: gpu
      {kind}:
        deviceClassName: gpu
        selectors:
        - cel: {{expression: '{selector}'}}
    {more}
"""


def lint(folder: Path, *texts: str, options: tuple[str, ...] = ()) -> Ran:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    return call_claimsmith("lint", "-f", str(folder), *options)


def findings(folder: Path, *texts: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lint(folder, *texts, options=("-o", "json")).out)["findings"]
    return found


def test_a_fault_is_told_with_its_place_and_what_to_write(tmp_path: Path) -> None:
    ran = lint(tmp_path, DEVICES, claim("c", 'device.attributes["gpu.example.com"].modle == "L4"'))
    place = f"{tmp_path}/1.yaml, document 1, line 12"

    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{place}: error: ResourceClaim default/c: "
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: no published device has the attribute "
        f"gpu.example.com/modle; did you mean {MODEL}? (unknown-attribute)",
        f'    write: {MODEL} == "L4"',
        "1 error, 0 warnings; 2 objects, 2 published devices",
    ]


def test_what_is_right_makes_exit_0(tmp_path: Path) -> None:
    ran = lint(tmp_path, DEVICES, claim("c", f'{MODEL} == "L4"'))

    assert (ran.code, ran.out) == (0, "0 errors, 0 warnings; 2 objects, 2 published devices\n")


def test_the_tour_has_no_fault() -> None:
    assert call_claimsmith("lint", "-f", str(TOUR_FOLDER)).code == 0


def test_a_warning_alone_makes_exit_0(tmp_path: Path) -> None:
    never = DEVICES.split("---")[1].replace("name: gpu}", "name: never}").replace("gpu.example.com", "gpu.example.org")
    ran = lint(tmp_path, DEVICES, never)

    assert ran.code == 0
    assert "warning: DeviceClass never" in ran.out
    assert '    write: device.driver == "gpu.example.com"' in ran.out


def test_programs_get_all_parts_of_a_finding(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, DEVICES, claim("c", f'{MODEL} == "L5"'))

    assert found == {
        "severity": "error",
        "rule": "request-never-matches",
        "kind": "ResourceClaim",
        "namespace": "default",
        "name": "c",
        "path": "spec.devices.requests[0].exactly.selectors[0].cel.expression",
        "message": f'{MODEL} == "L5" is false for all 2 devices of class gpu; published model: A100-80, L4',
        "corrected": f'{MODEL} == "L4"',
        "source": f"{tmp_path}/1.yaml, document 1, line 12",
    }


def test_every_rule_of_the_api_that_is_broken_is_told(tmp_path: Path) -> None:
    broken = "constraints: [{matchAttribute: nodomain}]"
    found = findings(tmp_path, DEVICES, claim("Upper", "true", more=broken), claim("b", "no such thing"))

    assert [(item["name"], item["rule"], item["path"]) for item in found] == [
        ("Upper", "api", "metadata.name"),
        ("Upper", "api", "spec.devices.constraints[0].matchAttribute"),
        ("b", "api", "spec.devices.requests[0].exactly.selectors[0].cel.expression"),
    ]


def test_a_field_that_does_not_exist_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, DEVICES, claim("c", f'{MODEL} == "L4"').replace("selectors", "selector"))

    assert (found["rule"], found["path"]) == ("unknown-field", "spec.devices.requests[0].exactly.selector")
    assert "selectors" in found["message"]


def test_a_capacity_compared_with_a_text_is_told_once_and_corrected(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, DEVICES, claim("c", f'{MEMORY} > "40Gi"'))

    assert (found["rule"], found["corrected"]) == ("quantity", f'{MEMORY}.compareTo(quantity("40Gi")) > 0')


def test_a_value_of_a_wrong_type_is_told_and_the_others_are_looked_at(tmp_path: Path) -> None:
    wrong = claim("wrong", "true").replace("deviceClassName: gpu", "deviceClassName: gpu\n        count: many")
    found = findings(tmp_path, DEVICES, wrong, claim("c", f'{MODEL} == "L5"'))

    assert [(item["name"], item["rule"]) for item in found] == [("wrong", "api"), ("c", "request-never-matches")]


def test_an_older_version_is_found_in_its_own_place(tmp_path: Path) -> None:
    old = f"""
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {{name: old}}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu
      selectors:
      - cel: {{expression: '{MODEL} == "L5"'}}
"""
    (found,) = findings(tmp_path, DEVICES, old)

    assert (found["rule"], found["corrected"]) == ("request-never-matches", f'{MODEL} == "L4"')
    assert found["source"].startswith(f"{tmp_path}/1.yaml, document 1, line ")


def test_objects_without_a_name_of_their_own_are_told_apart(tmp_path: Path) -> None:
    made = [claim("x", f'{MODEL} == "L5"').replace("{name: x}", "{generateName: x-}") for _ in range(2)]
    found = findings(tmp_path, DEVICES, *made)

    assert [item["source"].rpartition("/")[2][:6] for item in found] == ["1.yaml", "2.yaml"]


def test_a_cluster_that_publishes_nothing_is_told_on_stderr(tmp_path: Path) -> None:
    ran = lint(tmp_path, DEVICES.split("---")[1], claim("c", f"{MODEL} == 1"))

    assert ran.code == 0
    assert "nothing is published" in ran.err


def test_files_are_held_against_a_snapshot(tmp_path: Path) -> None:
    saved, files = tmp_path / "cluster.yaml", tmp_path / "files"
    files.mkdir()
    (tmp_path / "base.yaml").write_text(DEVICES + "---\n" + claim("there", f'{MODEL} == "L5"'), encoding="utf-8")
    call_claimsmith("snapshot", "save", str(saved), "-f", str(tmp_path / "base.yaml"))
    ran = lint(files, claim("mine", f'{MODEL} == "L6"'), options=("--snapshot", str(saved), "-o", "json"))
    whole = call_claimsmith("lint", "--snapshot", str(saved), "-o", "json")

    assert [item["name"] for item in json.loads(ran.out)["findings"]] == ["mine"]
    assert [item["name"] for item in json.loads(whole.out)["findings"]] == ["there"]


@pytest.mark.parametrize(
    ("header", "path", "right"),
    [
        ("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplat", "kind", "ResourceClaimTemplate"),
        ("apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim", "apiVersion", "resource.k8s.io/v1"),
        ("apiVersion: v1beta9\nkind: Pod", "apiVersion", "v1"),
        ("apiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevice", "kind", "SimulatedDevices"),
    ],
)
def test_a_kind_that_is_written_wrong_is_an_error_with_what_to_write(
    tmp_path: Path, header: str, path: str, right: str
) -> None:
    ran = lint(tmp_path, DEVICES, f"{header}\nmetadata: {{name: x}}", options=("-o", "json"))
    (found,) = json.loads(ran.out)["findings"]

    assert ran.code == 1
    assert (found["rule"], found["path"], found["corrected"]) == ("unknown-kind", path, right)
    assert found["source"].endswith(f"1.yaml, document 1, line {1 if path == 'apiVersion' else 2}")


def test_files_without_anything_to_look_at_make_exit_2(tmp_path: Path) -> None:
    ran = lint(tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}")

    assert ran.code == 2
    assert "left out v1 ConfigMap; claimsmith has no use for this kind" in ran.err
    assert "found nothing to look at in the files" in ran.err


def test_a_foreign_kind_beside_others_is_only_told(tmp_path: Path) -> None:
    foreign = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata: {name: x}"
    ran = lint(tmp_path, DEVICES, foreign)

    assert ran.code == 0
    assert "left out kueue.x-k8s.io/v1beta1 Workload" in ran.err


DOMAIN = """
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: domain, namespace: train}
spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: channel}}}
"""
OTHER_CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: cluster, namespace: train}
spec: {headGroupSpec: {template: {spec: {resourceClaims: [{name: c, resourceClaimTemplateName: channel}]}}}}
"""
MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: member, namespace: train}
spec:
  containers: [{name: main, image: example, resources: {claims: [{name: c}]}}]
  resourceClaims: [{name: c, resourceClaimTemplateName: channel}]
"""


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        (DOMAIN, []),
        (DOMAIN.replace("namespace: train", "namespace: other"), ["missing-reference"]),
        (DOMAIN.replace("name: channel", "name: another"), ["missing-reference"]),
        (DOMAIN.replace("{name: channel}", "[]"), ["missing-reference"]),
        (OTHER_CLUSTER, ["missing-reference"]),
    ],
)
def test_a_template_that_another_object_has_made_is_not_missed(tmp_path: Path, other: str, rules: list[str]) -> None:
    found = findings(tmp_path, DEVICES, other, MEMBER)

    assert [item["rule"] for item in found] == rules


def test_a_template_that_another_object_has_made_is_proposed(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, DEVICES, DOMAIN, MEMBER.replace("Name: channel", "Name: chanel"))

    assert found["corrected"] == "channel"


def test_the_pods_of_workloads_are_looked_at_in_their_place(tmp_path: Path) -> None:
    template = DEVICES + "---\n" + claim("any", "true").replace("kind: ResourceClaim", "kind: ResourceClaimTemplate")
    template = template.replace("spec:\n  devices:\n    requests", "spec:\n spec:\n  devices:\n    requests")
    workload = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: default}
spec:
  template:
    spec:
      containers: [{name: main, image: 'x:1', resources: {claims: [{name: gpu}]}}]
      resourceClaims:
      - name: gpu
        resourceClaimTemplateName: anny
      nodeSelektor: {}
"""
    found = findings(tmp_path, template, workload)

    assert [(item["kind"], item["name"], item["rule"], item["path"]) for item in found] == [
        ("DaemonSet", "web", "unknown-field", "spec.template.spec.nodeSelektor"),
        ("DaemonSet", "web", "missing-reference", "spec.template.spec.resourceClaims[0].resourceClaimTemplateName"),
    ]
    assert (found[1]["corrected"], found[1]["source"][-7:]) == ("any", "line 11")


SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: more}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {name: more, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-9, attributes: {model: {string: L5}}}]
"""


def test_what_may_follow_from_a_slice_that_cannot_be_read_is_not_told(tmp_path: Path) -> None:
    broken = SLICE.replace("{string: L5}", "{int: 'five'}")
    ran = lint(tmp_path, DEVICES, broken, claim("c", f'{MODEL} == "L5"'), options=("-o", "json"))

    assert [(item["name"], item["rule"]) for item in json.loads(ran.out)["findings"]] == [("more", "api")]
    assert "what may follow from objects that can't be read (ResourceSlice) is not told" in ran.err


def test_what_may_follow_from_a_kind_that_is_written_wrong_is_not_told(tmp_path: Path) -> None:
    wrong = SLICE.replace("kind: ResourceSlice", "kind: ResourceSlic")
    found = findings(tmp_path, DEVICES, wrong, claim("c", f'{MODEL} == "L5"'))

    assert [item["rule"] for item in found] == ["unknown-kind"]
