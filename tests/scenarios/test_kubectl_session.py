"""Stock kubectl, stock flags: what people type, and what they see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenarios.kubectl_cluster import Kubectl, open_cluster

pytestmark = pytest.mark.kubectl

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: main
    image: example/web:1
    env: [{name: MODE, value: fast}]
    ports: [{containerPort: 80}]
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]
"""
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
"""
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpus}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status:
  conditions: [{type: Ready, status: "True"}]
  nodeInfo: {kubeletVersion: v1.37.2}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with open_cluster(tmp_path) as opened:
        yield opened


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


async def bind(kubectl: Kubectl, name: str = "web") -> None:
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    await kubectl("create", "--raw", path, "-f", "-", text=json.dumps(binding))


async def test_api_resources_lists_the_kinds(kubectl: Kubectl) -> None:
    table = rows(await kubectl("api-resources", "--no-headers"))

    assert ["resourceclaims", "resource.k8s.io/v1", "true", "ResourceClaim"] in table
    assert ["pods", "po", "v1", "true", "Pod"] in table


async def test_create_and_get_show_upstreams_tables(kubectl: Kubectl) -> None:
    created = await kubectl("create", "-f", "-", text="\n---\n".join((POD, CLAIM, CLASS, SLICE, NODE)))
    pods = rows(await kubectl("get", "pods"))
    claims = rows(await kubectl("get", "resourceclaims"))
    slices = rows(await kubectl("get", "resourceslices"))
    nodes = rows(await kubectl("get", "nodes"))

    assert [line.split()[0] for line in created.splitlines()] == [
        "pod/web",
        "resourceclaim.resource.k8s.io/gpu",
        "deviceclass.resource.k8s.io/gpu.example.com",
        "resourceslice.resource.k8s.io/node-1-gpus",
        "node/node-1",
    ]
    assert pods[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert pods[1][:4] == ["web", "0/1", "Pending", "0"]
    assert claims[0] == ["NAME", "STATE", "AGE"]
    assert claims[1][:2] == ["gpu", "pending"]
    assert slices[0] == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert slices[1][:4] == ["node-1-gpus", "node-1", "gpu.example.com", "node-1"]
    assert nodes[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1][:3] == ["node-1", "Ready", "<none>"]


async def test_wide_tables_json_yaml_names_and_paths(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    wide = rows((await kubectl("get", "pods", "-o", "wide")).replace("NOMINATED NODE", "N").replace("READINESS G", "G"))
    as_json = json.loads(await kubectl("get", "pod", "web", "-o", "json"))
    name = await kubectl("get", "pods", "-o", "name")
    image = await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}")

    assert wide[0][5:] == ["IP", "NODE", "N", "GATES"]
    assert as_json["metadata"]["labels"] == {"app": "web"}
    assert (name.strip(), image) == ("pod/web", "example/web:1")
    assert "name: web" in await kubectl("get", "pod", "web", "-o", "yaml")


async def test_selectors_choose_what_get_shows(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await kubectl("run", "other", "--image=example/x")

    assert await kubectl("get", "pods", "-l", "app=web", "-o", "name") == "pod/web\n"
    assert await kubectl("get", "pods", "--field-selector", "metadata.name=other", "-o", "name") == "pod/other\n"
    assert len(rows(await kubectl("get", "pods", "-A", "--no-headers", "--chunk-size=1"))) == 2


async def test_create_commands_that_send_protobuf(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("create", "serviceaccount", "robot", "-n", "team")
    await kubectl("create", "priorityclass", "high", "--value=7", "--description=first")
    await kubectl("run", "web", "--image=example/x", "-n", "team")

    assert rows(await kubectl("get", "pods", "-n", "team"))[1][:3] == ["web", "0/1", "Pending"]
    assert await kubectl("get", "pc", "high", "-o", "jsonpath={.value}") == "7"


async def test_a_second_create_is_refused(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)

    assert 'pods "web" already exists' in await kubectl.fails("create", "-f", "-", text=POD)


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    first = await kubectl("apply", "-f", "-", text=POD)
    same = await kubectl("apply", "-f", "-", text=POD)
    changed = await kubectl("apply", "-f", "-", text=POD.replace("web:1", "web:2"))
    fewer = await kubectl("apply", "-f", "-", text=POD.replace("labels: {app: web}", "labels: {}"))

    assert [first, same, changed, fewer] == [
        "pod/web created\n",
        "pod/web unchanged\n",
        "pod/web configured\n",
        "pod/web configured\n",
    ]
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels}") == ""


async def test_apply_of_kinds_that_kubectl_does_not_know(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=CLASS)
    changed = CLASS.replace("selectors:", "extendedResourceName: example.com/gpu\n  selectors:")
    await kubectl("apply", "-f", "-", text=changed)

    name = await kubectl("get", "deviceclass", "gpu.example.com", "-o", "jsonpath={.spec.extendedResourceName}")
    assert name == "example.com/gpu"


async def test_a_list_as_get_prints_it_is_applied(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text="\n---\n".join((POD, CLAIM, CLASS, SLICE)))
    listed = await kubectl("get", "pods,resourceclaims,deviceclasses,resourceslices", "-o", "yaml")

    assert "kind: List" in listed
    assert (await kubectl("apply", "-f", "-", text=listed)).count(" configured") == 4


async def test_a_wrong_field_in_a_list_is_named(kubectl: Kubectl) -> None:
    item = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {"bogus": 1}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]})

    assert "bogus" in await kubectl.fails("create", "-f", "-", text=text)


async def test_a_kind_that_is_not_served_is_unknown(kubectl: Kubectl) -> None:
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"

    assert 'no matches for kind "Deployment"' in await kubectl.fails("apply", "-f", "-", text=text)


@pytest.mark.parametrize("manifest", [POD, CLAIM, CLASS, SLICE, NODE], ids=["pod", "claim", "class", "slice", "node"])
async def test_server_side_apply_of_every_kind(kubectl: Kubectl, manifest: str) -> None:
    first = await kubectl("apply", "--server-side", "-f", "-", text=manifest)
    second = await kubectl("apply", "--server-side", "-f", "-", text=manifest)

    assert first == second
    assert first.endswith("serverside-applied\n")


async def test_server_side_apply_after_client_side_apply_takes_over(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=POD)
    await kubectl("apply", "--server-side", "-f", "-", text=POD)
    fewer = POD.replace("labels: {app: web}", "labels: {other: web}")
    await kubectl("apply", "--server-side", "-f", "-", text=fewer)

    labels = json.loads(await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels}"))
    assert labels == {"other": "web"}


async def test_server_side_apply_in_conflict_names_the_other_and_can_be_forced(kubectl: Kubectl) -> None:
    changed = POD.replace("web:1", "web:2")
    await kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", text=POD)
    complaint = await kubectl.fails("apply", "--server-side", "--field-manager=two", "-f", "-", text=changed)
    await kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", text=changed)

    assert 'conflict with "one": .spec.containers[name="main"].image' in complaint
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "example/web:2"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"metadata":{"labels":{"x":"1"}}}'),
        ("merge", '{"metadata":{"labels":{"x":"1"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/x","value":"1"}]'),
    ],
)
async def test_patch_in_every_form(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("create", "-f", "-", text=POD)
    said = await kubectl("patch", "pod", "web", f"--type={kind}", "-p", patch)

    assert said == "pod/web patched\n"
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels.x}") == "1"


async def test_patch_of_a_status(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await kubectl("patch", "pod", "web", "--subresource=status", "-p", '{"status":{"phase":"Running"}}')

    assert rows(await kubectl("get", "pods"))[1][2] == "Running"


async def test_label_annotate_taint_and_cordon(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=NODE)
    await kubectl("label", "node", "node-1", "zone=a")
    await kubectl("annotate", "node", "node-1", "note=b")
    await kubectl("taint", "node", "node-1", "gpu=yes:NoSchedule")
    await kubectl("cordon", "node-1")
    node = json.loads(await kubectl("get", "node", "node-1", "-o", "json"))

    assert (node["metadata"]["labels"]["zone"], node["metadata"]["annotations"]["note"]) == ("a", "b")
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["spec"]["unschedulable"] is True


async def test_edit_opens_and_stores_the_object(kubectl: Kubectl, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/app: web/app: edited/' \"$1\"\n")
    editor.chmod(0o755)
    await kubectl("create", "-f", "-", text=POD)
    said = await kubectl("edit", "pod", "web", EDITOR=str(editor))

    assert said == "pod/web edited\n"
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.labels.app}") == "edited"


async def test_replace_needs_what_is_there(kubectl: Kubectl) -> None:
    missing = await kubectl.fails("replace", "-f", "-", text=POD)
    await kubectl("create", "-f", "-", text=POD)
    said = await kubectl("replace", "-f", "-", text=POD.replace("app: web", "app: new"))

    assert "NotFound" in missing
    assert said == "pod/web replaced\n"


async def test_diff_shows_what_apply_would_change_and_changes_nothing(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=POD)
    same = await kubectl.run("diff", "-f", "-", text=POD)
    changed = await kubectl.run("diff", "-f", "-", text=POD.replace("web:1", "web:2"))
    server = await kubectl.run("diff", "--server-side", "-f", "-", text=CLAIM)

    assert (same.code, changed.code, server.code) == (0, 1, 1)
    assert "+    image: example/web:2" in changed.out
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "example/web:1"


async def test_a_server_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    said = await kubectl("apply", "--dry-run=server", "-f", "-", text=POD)

    assert said == "pod/web created (server dry run)\n"
    assert await kubectl("get", "pods", "-o", "name") == ""


async def test_describe_shows_the_object_and_its_events(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    uid = await kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": uid},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no device fits",
        "source": {"component": "claimsmith"},
    }
    await kubectl("create", "-f", "-", text=json.dumps(event))
    shown = await kubectl("describe", "pod", "web")
    events = rows(await kubectl("get", "events"))

    assert "Image:      example/web:1" in shown
    assert "FailedScheduling" in shown
    assert "no device fits" in shown
    assert events[1][1:4] == ["Warning", "FailedScheduling", "pod/web"]


@pytest.mark.parametrize("name", ["resourceclaim/gpu", "deviceclass/gpu.example.com", "node/node-1", "ns/default"])
async def test_describe_of_other_kinds(kubectl: Kubectl, name: str) -> None:
    await kubectl("create", "-f", "-", text="\n---\n".join((CLAIM, CLASS, NODE)))

    assert name.split("/")[1] in await kubectl("describe", name)


async def test_explain_knows_the_fields(kubectl: Kubectl) -> None:
    shown = await kubectl("explain", "resourceclaims.spec.devices.requests")

    assert "firstAvailable" in shown
    assert "<[]DeviceSubRequest>" in shown


async def test_wait_for_a_condition_and_for_deletion(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    waiting = asyncio.create_task(kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s"))
    phase = asyncio.create_task(kubectl("wait", "pod/web", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"))
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await kubectl("patch", "pod", "web", "--subresource=status", "-p", json.dumps(status))
    ready, running = await waiting, await phase
    gone = asyncio.create_task(kubectl("wait", "pod/web", "--for=delete", "--timeout=60s"))
    await kubectl("delete", "pod", "web")

    assert (ready, running) == ("pod/web condition met\n", "pod/web condition met\n")
    assert await gone in ("pod/web condition met\n", "")


async def test_get_with_watch_prints_each_change_as_a_row(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    watching = await kubectl.start("get", "pods", "-w", "--no-headers")
    assert watching.stdout is not None
    async with asyncio.timeout(60):
        first = (await watching.stdout.readline()).decode().split()
        await kubectl("patch", "pod", "web", "--subresource=status", "-p", '{"status":{"phase":"Running"}}')
        second = (await watching.stdout.readline()).decode().split()
    watching.kill()
    await watching.communicate(b"")

    assert (first[2], second[2]) == ("Pending", "Running")


async def test_delete_waits_until_the_pod_is_gone(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await bind(kubectl)
    deleting = await kubectl.start("delete", "pod", "web")
    path = "/api/v1/namespaces/default/pods/web"
    async with asyncio.timeout(60):
        while "deletionTimestamp" not in await kubectl("get", "--raw", path):
            continue
    shown = rows(await kubectl("get", "pods"))
    await kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")
    async with asyncio.timeout(60):
        out, _ = await deleting.communicate(b"")

    assert shown[1][2] == "Terminating"
    assert out.startswith(b'pod "web" deleted')


async def test_delete_by_force_selector_and_file(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await bind(kubectl)
    forced = await kubectl("delete", "pod", "web", "--force", "--grace-period=0")
    await kubectl("create", "-f", "-", text=POD)
    selected = await kubectl("delete", "pods", "-l", "app=web")
    await kubectl("create", "-f", "-", text=CLAIM)
    by_file = await kubectl("delete", "-f", "-", text=CLAIM)
    await kubectl("create", "-f", "-", text=CLAIM)
    await kubectl("delete", "resourceclaims", "--all")

    assert "force deleted" in forced
    # Newer versions of kubectl add the namespace.
    assert selected.startswith('pod "web" deleted')
    assert by_file.startswith('resourceclaim.resource.k8s.io "gpu" deleted')
    assert await kubectl("get", "pods,resourceclaims", "-o", "name") == ""


async def test_deleting_a_namespace_takes_its_content_along(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("create", "-n", "team", "-f", "-", text=POD)
    await kubectl("delete", "namespace", "team")

    assert "NotFound" in await kubectl.fails("get", "namespace", "team")
    assert await kubectl("get", "pods", "-A", "-o", "name") == ""


async def test_logs_print_what_the_container_wrote(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await bind(kubectl)

    assert await kubectl("logs", "web") == "hello from main\nbye\n"
    assert await kubectl("logs", "web", "-c", "main", "--tail=1") == "bye\n"
    assert await kubectl("logs", "-f", "web") == "hello from main\nbye\n"


async def test_drain_evicts_the_pods_of_a_node(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=f"{NODE}\n---\n{POD}")
    await bind(kubectl)
    await kubectl("patch", "pod", "web", "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
    await kubectl("drain", "node-1", "--force", "--timeout=60s")

    assert await kubectl("get", "pods", "-o", "name") == ""


async def test_misspelt_fields_are_refused(kubectl: Kubectl) -> None:
    complaint = await kubectl.fails("create", "-f", "-", text=POD.replace("image:", "imagee:"))

    assert 'unknown field "spec.containers[0].imagee"' in complaint


async def test_what_breaks_the_rules_is_refused(kubectl: Kubectl) -> None:
    selector = await kubectl.fails("apply", "-f", "-", text=CLASS.replace("device.driver ==", "device.drivr =="))
    name = await kubectl.fails("create", "-f", "-", text=POD.replace("name: web", "name: Web_1"))

    assert "spec.selectors[0].cel.expression" in selector
    assert "RFC 1123" in name
