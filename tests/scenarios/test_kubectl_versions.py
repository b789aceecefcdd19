"""Stock kubectl with older versions of the device API, and with pod groups."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenarios.kubectl_cluster import Kubectl, open_cluster

pytestmark = pytest.mark.kubectl

OLD = "resourceclaims.v1beta1.resource.k8s.io"
CLAIM = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests: [{name: gpu, deviceClassName: gpu.example.com}]
"""
GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  workloadRef: {workloadName: job, templateName: workers}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with open_cluster(tmp_path) as opened:
        yield opened


async def test_api_versions_lists_the_older_ones(kubectl: Kubectl) -> None:
    versions = (await kubectl("api-versions")).split()

    assert {"resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"} <= set(versions)
    assert {"resource.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"} <= set(versions)


async def test_a_manifest_of_an_older_version_is_applied_and_shown_in_any(kubectl: Kubectl) -> None:
    ran = await kubectl.run("apply", "-f", "-", text=CLAIM)
    old = json.loads(await kubectl("get", OLD, "gpu", "-o", "json"))
    new = json.loads(await kubectl("get", "resourceclaims", "gpu", "-o", "json"))

    assert ran.out == "resourceclaim.resource.k8s.io/gpu created\n"
    assert "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+" in ran.err
    assert old["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu.example.com"
    assert new["apiVersion"] == "resource.k8s.io/v1"
    assert new["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"


async def test_applying_an_older_manifest_again_changes_nothing(kubectl: Kubectl) -> None:
    version = ("get", OLD, "gpu", "-o", "jsonpath={.metadata.resourceVersion}")
    found = []
    for options in ([], [], ["--server-side", "--force-conflicts"], ["--server-side"], ["--server-side"]):
        await kubectl("apply", "-f", "-", *options, text=CLAIM)
        found.append(await kubectl(*version))

    assert found[0] == found[1]
    assert found[3] == found[4]


async def test_an_object_is_edited_through_an_older_version(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=CLAIM)
    await kubectl("label", OLD, "gpu", "a=b")
    shown = json.loads(await kubectl("get", "resourceclaims", "gpu", "-o", "json"))

    assert shown["metadata"]["labels"] == {"a": "b"}
    assert shown["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"


async def test_explain_knows_the_older_form(kubectl: Kubectl) -> None:
    path, version = "resourceclaims.spec.devices.requests", "resource.k8s.io/v1beta1"

    assert "deviceClassName" in await kubectl("explain", path, f"--api-version={version}")
    assert "deviceClassName" not in await kubectl("explain", path)


async def test_groups_have_upstreams_columns(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=GROUP)
    head, row = (line.split() for line in (await kubectl("get", "podgroups")).splitlines())

    assert head == ["NAME", "POLICY", "WORKLOAD", "STATUS", "AGE"]
    assert row[:4] == ["train", "Gang", "job", "Pending"]
