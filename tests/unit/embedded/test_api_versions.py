"""Older versions of resource.k8s.io over the API: converted on the way in and out, kept as v1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.embedded.asgi import CLAIMS, SLICES, STRATEGIC, Api, claim, open_api

OLD = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
OLD_SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
FLAT = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
DEPRECATED = '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


def flat_claim(**request: Any) -> dict[str, Any]:
    requests = [{"name": "r", "deviceClassName": "gpu", **request}]
    return {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": requests}}}


async def test_what_is_created_as_an_older_version_is_kept_as_v1(api: Api) -> None:
    created = await api.post(OLD, flat_claim())
    kept = (await api.get(f"{CLAIMS}/gpu")).json

    assert (created.status, created.json["apiVersion"]) == (201, "resource.k8s.io/v1beta1")
    assert created.json["spec"]["devices"]["requests"] == [FLAT]
    assert kept["apiVersion"] == "resource.k8s.io/v1"
    assert kept["spec"]["devices"]["requests"][0]["exactly"] == {k: v for k, v in FLAT.items() if k != "name"}


async def test_what_is_kept_as_v1_is_shown_and_listed_as_an_older_version(api: Api) -> None:
    await api.post(CLAIMS, claim())
    shown = (await api.get(f"{OLD}/gpu")).json
    listed = (await api.get(OLD)).json

    assert shown["spec"]["devices"]["requests"] == [FLAT]
    assert (listed["kind"], listed["apiVersion"]) == ("ResourceClaimList", "resource.k8s.io/v1beta1")
    assert listed["items"] == [{key: shown[key] for key in shown if key not in ("kind", "apiVersion")}]


async def test_a_client_of_an_older_version_is_warned(api: Api) -> None:
    await api.post(CLAIMS, claim())
    old, misspelt = await api.get(f"{OLD}/gpu"), await api.post(OLD, {**flat_claim(cout=1), "metadata": {"name": "b"}})

    assert old.headers["warning"] == DEPRECATED
    assert misspelt.headers["warning"].endswith(f", {DEPRECATED}")
    assert "warning" not in (await api.get(f"{CLAIMS}/gpu")).headers


async def test_an_older_version_is_replaced_and_its_unknown_fields_are_named_by_its_own_paths(api: Api) -> None:
    await api.post(OLD, flat_claim())
    labelled = flat_claim(cout=2)
    labelled["metadata"]["labels"] = {"a": "b"}
    reply = await api.put(f"{OLD}/gpu", labelled)

    assert (reply.status, reply.json["metadata"]["labels"]) == (200, {"a": "b"})
    assert 'unknown field \\"spec.devices.requests[0].cout\\"' in reply.headers["warning"]


async def test_a_field_of_v1_is_unknown_to_the_older_version(api: Api) -> None:
    nested = {**claim(), "apiVersion": "resource.k8s.io/v1beta1"}
    reply = await api.post(OLD, nested, fieldValidation="Strict")

    assert (reply.status, 'unknown field "spec.devices.requests[0].exactly"' in reply.message) == (400, True)


async def test_what_breaks_the_rules_is_refused_by_the_paths_of_v1(api: Api) -> None:
    reply = await api.post(OLD, flat_claim(allocationMode="Some"))

    assert reply.status == 422
    assert reply.json["details"]["causes"][0]["field"] == "spec.devices.requests[0].exactly.allocationMode"


async def test_an_object_of_another_version_than_its_path_is_refused(api: Api) -> None:
    reply = await api.post(OLD, claim())

    assert (reply.status, "cannot be handled as a ResourceClaim" in reply.message) == (400, True)


@pytest.mark.parametrize("kind", ["application/merge-patch+json", STRATEGIC])
async def test_patches_work_on_the_older_form(api: Api, kind: str) -> None:
    attributes = {"model": {"string": "A100"}}
    device = {"name": "gpu-0", "basic": {"attributes": attributes}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    await api.post(OLD_SLICES, {"metadata": {"name": "s"}, "spec": spec})
    two = [device, {"name": "gpu-1", "basic": {}}]
    reply = await api.patch(f"{OLD_SLICES}/s", {"spec": {"devices": two}}, kind=kind)
    kept = (await api.get(f"{SLICES}/s")).json["spec"]["devices"]

    assert (reply.status, reply.json["spec"]["devices"]) == (200, two)
    assert kept == [{"name": "gpu-0", "attributes": attributes}, {"name": "gpu-1"}]


async def test_a_json_patch_uses_the_older_paths(api: Api) -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0", "basic": {}}]}
    await api.post(OLD_SLICES, {"metadata": {"name": "s"}, "spec": spec})
    patch = [{"op": "add", "path": "/spec/devices/0/basic/capacity", "value": {"memory": {"value": "80Gi"}}}]
    await api.patch(f"{OLD_SLICES}/s", patch, kind="application/json-patch+json")
    kept = (await api.get(f"{SLICES}/s")).json["spec"]["devices"]

    assert kept == [{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}]


async def test_a_configuration_of_the_older_version_is_applied_on_the_server(api: Api) -> None:
    config = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", **flat_claim()}
    created = await api.apply(f"{OLD}/gpu", config)
    again = await api.apply(f"{OLD}/gpu", config)

    assert (created.status, again.status) == (201, 200)
    assert again.json["metadata"]["resourceVersion"] == created.json["metadata"]["resourceVersion"]
    assert again.json["spec"]["devices"]["requests"] == [FLAT]


async def test_a_status_is_written_in_the_older_version(api: Api) -> None:
    await api.post(CLAIMS, claim())
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    reply = await api.patch(f"{OLD}/gpu/status", {"status": status})

    assert (reply.status, reply.json["status"]) == (200, status)
    assert (await api.get(f"{CLAIMS}/gpu")).json["status"] == status


async def test_a_watch_of_the_older_version_shows_its_form(api: Api) -> None:
    await api.post(CLAIMS, claim())
    gone = asyncio.Event()
    watching = asyncio.create_task(api.get(OLD, watch="true", gone=gone))
    await api.settle()
    gone.set()
    (line,) = (await watching).lines

    assert line["type"] == "ADDED"
    assert line["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert line["object"]["spec"]["devices"]["requests"] == [FLAT]


async def test_a_table_of_the_older_version_carries_its_objects(api: Api) -> None:
    await api.post(CLAIMS, claim())
    reply = await api.get(OLD, accept="application/json;as=Table;v=v1;g=meta.k8s.io", includeObject="Object")
    (row,) = reply.json["rows"]

    assert row["cells"][:2] == ["gpu", "pending"]
    assert row["object"]["spec"]["devices"]["requests"] == [FLAT]


async def test_an_object_is_deleted_through_any_version(api: Api) -> None:
    await api.post(CLAIMS, claim())
    deleted = await api.delete(f"{OLD}/gpu")

    assert deleted.status == 200
    assert (await api.get(f"{CLAIMS}/gpu")).status == 404


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
async def test_taint_rules_are_served_in_their_older_versions(api: Api, version: str) -> None:
    path = f"/apis/resource.k8s.io/{version}/devicetaintrules"
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    await api.post(path, {"metadata": {"name": "r"}, "spec": spec})
    kept = (await api.get("/apis/resource.k8s.io/v1/devicetaintrules/r")).json

    assert kept["apiVersion"] == "resource.k8s.io/v1"
    assert kept["spec"]["deviceSelector"] == {"driver": "gpu.example.com"}


async def test_an_owner_of_an_older_version_is_found(api: Api) -> None:
    owner = (await api.post(CLAIMS, claim("owner"))).json["metadata"]
    reference = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "name": "owner", "uid": owner["uid"]}
    await api.post(CLAIMS, claim("owned", ownerReferences=[reference]))
    await api.settle()
    kept = (await api.get(f"{CLAIMS}/owned")).status
    await api.delete(f"{CLAIMS}/owner")
    await api.settle()

    assert (kept, (await api.get(f"{CLAIMS}/owned")).status) == (200, 404)
