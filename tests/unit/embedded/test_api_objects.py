"""Objects over the API: create, read, replace, patch, delete, and what the server fills in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.embedded.asgi import CLAIMS, CLASSES, NODES, PODS, STRATEGIC, Api, claim, open_api, pod


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


async def test_a_created_pod_shows_the_defaults_that_users_know(api: Api) -> None:
    reply = await api.post(PODS, pod())
    spec, status = reply.json["spec"], reply.json["status"]

    assert reply.status == 201
    assert status == {"phase": "Pending", "qosClass": "BestEffort"}
    assert [entry["key"] for entry in spec.pop("tolerations")] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec == {
        "containers": [
            {
                "name": "main",
                "image": "example/one:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }


async def test_a_gated_pod_says_so(api: Api) -> None:
    gated = pod()
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    reply = await api.post(PODS, gated)

    assert reply.json["status"]["conditions"][0]["reason"] == "SchedulingGated"


async def test_a_created_claim_asks_for_one_device(api: Api) -> None:
    reply = await api.post(CLAIMS, claim())

    exactly = reply.json["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)


async def test_the_status_of_a_new_claim_is_dropped(api: Api) -> None:
    reply = await api.post(CLAIMS, {**claim(), "status": {"reservedFor": [{"resource": "pods", "name": "a"}]}})

    assert "reservedFor" not in reply.json.get("status", {})


async def test_a_node_brings_its_own_status(api: Api) -> None:
    reply = await api.post(NODES, {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1"}}})

    assert reply.json["status"]["nodeInfo"]["kubeletVersion"] == "v1"


async def test_a_name_is_generated_from_its_prefix(api: Api) -> None:
    manifest = pod()
    manifest["metadata"] = {"generateName": "web-"}
    reply = await api.post(PODS, manifest)

    assert reply.json["metadata"]["name"] == "web-bbbbb"


async def test_an_object_needs_a_name(api: Api) -> None:
    manifest = pod()
    del manifest["metadata"]["name"]
    reply = await api.post(PODS, manifest)

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert "name or generateName is required" in reply.message


async def test_a_namespace_must_exist(api: Api) -> None:
    reply = await api.post("/api/v1/namespaces/missing/pods", pod())

    assert (reply.status, reply.message) == (404, 'namespaces "missing" not found')


async def test_the_namespace_of_body_and_path_must_agree(api: Api) -> None:
    reply = await api.post(PODS, pod(namespace="kube-system"))

    assert (reply.status, reply.reason) == (400, "BadRequest")


async def test_a_service_account_must_exist(api: Api) -> None:
    manifest = pod()
    manifest["spec"]["serviceAccountName"] = "missing"
    reply = await api.post(PODS, manifest)

    assert (reply.status, reply.reason) == (403, "Forbidden")


async def test_a_new_namespace_has_its_default_service_account(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    reply = await api.get("/api/v1/namespaces/team/serviceaccounts/default")

    assert reply.status == 200


async def test_a_priority_class_gives_the_priority(api: Api) -> None:
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 7})
    manifest = pod()
    manifest["spec"]["priorityClassName"] = "high"
    reply = await api.post(PODS, manifest)

    assert reply.json["spec"]["priority"] == 7


async def test_a_new_object_cannot_bring_a_version(api: Api) -> None:
    reply = await api.post(PODS, pod(resourceVersion="3"))

    assert reply.message == "resourceVersion should not be set on objects to be created"


async def test_replacing_needs_the_version_that_is_there(api: Api) -> None:
    first = (await api.post(PODS, pod())).json
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})
    reply = await api.put(f"{PODS}/web", first)

    assert (reply.status, reply.reason) == (409, "Conflict")


async def test_replacing_what_does_not_exist_is_not_found(api: Api) -> None:
    reply = await api.put(f"{PODS}/web", pod())

    assert (reply.status, reply.json["details"]) == (404, {"name": "web", "kind": "pods"})


async def test_the_name_of_body_and_path_must_agree(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.put(f"{PODS}/web", pod("other"))

    assert "does not match the name on the URL" in reply.message


async def test_a_status_write_changes_the_status_alone(api: Api) -> None:
    await api.post(PODS, pod())
    manifest = pod(labels={"a": "1"})
    reply = await api.put(f"{PODS}/web/status", {**manifest, "status": {"phase": "Running"}})

    assert reply.json["status"]["phase"] == "Running"
    assert reply.json["metadata"]["generation"] == 1


async def test_a_main_write_leaves_the_status_alone(api: Api) -> None:
    await api.post(PODS, pod())
    await api.patch(f"{PODS}/web/status", {"status": {"phase": "Running"}})
    reply = await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}, "status": {"phase": "Failed"}})

    assert reply.json["status"]["phase"] == "Running"


async def test_all_three_patches_change_an_object(api: Api) -> None:
    await api.post(PODS, pod())
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"b": "2"}}}, kind=STRATEGIC)
    operation = {"op": "add", "path": "/metadata/labels/c", "value": "3"}
    reply = await api.patch(f"{PODS}/web", [operation], kind="application/json-patch+json")

    assert reply.json["metadata"]["labels"] == {"a": "1", "b": "2", "c": "3"}


async def test_a_patch_with_an_old_version_conflicts(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.patch(f"{PODS}/web", {"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}})

    assert reply.reason == "Conflict"


async def test_a_patch_cannot_rename(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.patch(f"{PODS}/web", {"metadata": {"name": "other"}})

    assert reply.status == 400


async def test_a_patch_of_an_unknown_kind_is_unsupported(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.patch(f"{PODS}/web", {}, kind="application/json")

    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")


async def test_a_dry_run_creates_nothing(api: Api) -> None:
    reply = await api.post(PODS, pod(), dryRun="All")

    assert reply.status == 201
    assert (await api.get(f"{PODS}/web")).status == 404


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.delete(f"{PODS}/web", dryRun="All")

    assert reply.status == 200
    assert (await api.get(f"{PODS}/web")).status == 200


async def test_a_waiting_pod_vanishes_when_it_is_deleted(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.delete(f"{PODS}/web")

    assert (reply.json["kind"], reply.json["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
    assert (await api.get(f"{PODS}/web")).status == 404


async def test_a_pod_on_a_node_ends_when_its_kubelet_says_so(api: Api) -> None:
    await api.post(PODS, pod(node_name="n1"))
    reply = await api.delete(f"{PODS}/web")
    held = (await api.get(f"{PODS}/web")).json["metadata"]
    await api.delete(f"{PODS}/web", {"kind": "DeleteOptions", "gracePeriodSeconds": 0})

    assert reply.json["kind"] == "Pod"
    assert (held["deletionGracePeriodSeconds"], held["deletionTimestamp"]) == (30, "2030-01-01T12:00:30Z")
    assert (await api.get(f"{PODS}/web")).status == 404


async def test_a_pod_that_has_ended_vanishes_at_once(api: Api) -> None:
    await api.post(PODS, pod(node_name="n1"))
    await api.patch(f"{PODS}/web/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{PODS}/web")

    assert (await api.get(f"{PODS}/web")).status == 404


async def test_a_deletion_with_the_uid_of_another_object_conflicts(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await api.delete(f"{PODS}/web", {"preconditions": {"uid": "other"}})

    assert (reply.status, reply.reason) == (409, "Conflict")


async def test_a_collection_is_deleted_by_its_selector(api: Api) -> None:
    await api.post(PODS, pod("a", labels={"app": "x"}))
    await api.post(PODS, pod("b"))
    reply = await api.delete(PODS, labelSelector="app=x")

    assert [item["metadata"]["name"] for item in reply.json["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in (await api.get(PODS)).json["items"]] == ["b"]


async def test_a_class_counts_its_generations(api: Api) -> None:
    await api.post(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    reply = await api.patch(f"{CLASSES}/gpu", {"spec": {"extendedResourceName": "example.com/gpu"}})

    assert reply.json["metadata"]["generation"] == 2


async def test_what_the_rules_of_the_kind_forbid_is_invalid_with_its_causes(api: Api) -> None:
    reply = await api.post(PODS, pod("Not_A_Name"))

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.json["details"]["kind"] == "Pod"
    assert reply.json["details"]["causes"][0]["field"] == "metadata.name"


async def test_apply_creates_then_changes(api: Api) -> None:
    first = await api.apply(f"{PODS}/web", pod(labels={"a": "1"}))
    second = await api.apply(f"{PODS}/web", pod(labels={"b": "2"}))

    assert (first.status, second.status) == (201, 200)
    assert second.json["metadata"]["labels"] == {"b": "2"}


async def test_applying_the_same_again_writes_nothing(api: Api) -> None:
    first = await api.apply(f"{PODS}/web", pod(labels={"a": "1"}))
    api.clock.now += 60
    second = await api.apply(f"{PODS}/web", pod(labels={"a": "1"}))

    assert second.json == first.json


async def test_applying_again_what_defaults_complete_writes_nothing_later_either(api: Api) -> None:
    first = await api.apply(f"{CLAIMS}/gpu", claim())
    api.clock.now += 60
    second = await api.apply(f"{CLAIMS}/gpu", claim())

    assert second.json == first.json


async def test_applying_needs_a_manager(api: Api) -> None:
    reply = await api.patch(f"{PODS}/web", pod(), kind="application/apply-patch+yaml")

    assert (reply.status, "fieldManager: Required value" in reply.message) == (422, True)


async def test_an_edit_by_name_is_tracked_and_conflicts_with_an_apply(api: Api) -> None:
    await api.post(PODS, pod(), fieldManager="creator")
    changed = pod()
    changed["spec"]["containers"][0]["image"] = "example/two:1"
    reply = await api.apply(f"{PODS}/web", changed)

    assert (reply.status, 'conflict with "creator"' in reply.message) == (409, True)


async def test_writers_without_a_name_cost_no_tracking(api: Api) -> None:
    created = await api.post(PODS, pod())
    patched = await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})

    assert "managedFields" not in created.json["metadata"]
    assert "managedFields" not in patched.json["metadata"]


async def test_a_write_without_a_name_to_a_tracked_object_is_tracked_by_its_program(api: Api) -> None:
    await api.post(PODS, pod(), fieldManager="creator")
    reply = await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})

    managers = [entry["manager"] for entry in reply.json["metadata"]["managedFields"]]
    assert managers == ["creator", "tester"]


async def test_what_the_server_filled_in_is_no_conflict(api: Api) -> None:
    await api.post(CLAIMS, claim(), fieldManager="creator")
    reply = await api.apply(f"{CLAIMS}/gpu", claim())

    assert reply.status == 200


async def test_the_owners_of_a_status_are_kept_apart(api: Api) -> None:
    await api.post(PODS, pod(), fieldManager="creator")
    reply = await api.patch(f"{PODS}/web/status", {"status": {"phase": "Running"}}, fieldManager="creator")

    entries = reply.json["metadata"]["managedFields"]
    assert [entry.get("subresource") for entry in entries] == [None, "status"]
