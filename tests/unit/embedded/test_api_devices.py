"""Claims, slices and taint rules over the API: what the server adds, keeps and drops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.embedded.asgi import CLAIMS, PODS, SLICES, Api, claim, open_api, pod
from tests.unit.embedded.stored import NOON_TEXT

RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


def admin_claim() -> dict[str, Any]:
    manifest = claim()
    manifest["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return manifest


async def allow_admin_access(api: Api) -> None:
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})


async def test_admin_access_needs_a_labelled_namespace(api: Api) -> None:
    refused = await api.post(CLAIMS, admin_claim())
    await allow_admin_access(api)
    allowed = await api.post(CLAIMS, admin_claim())

    assert (refused.status, allowed.status) == (422, 201)
    assert refused.json["details"]["causes"][0]["field"] == "spec.devices.requests[0].adminAccess"


async def test_templates_with_admin_access_need_it_too(api: Api) -> None:
    template = {"metadata": {"name": "t"}, "spec": {"spec": admin_claim()["spec"]}}
    reply = await api.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", template)

    assert reply.status == 422


async def test_an_allocation_with_admin_access_needs_it_too(api: Api) -> None:
    await allow_admin_access(api)
    await api.post(CLAIMS, admin_claim())
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": None}})
    status = {"allocation": {"devices": {"results": [{**RESULT, "adminAccess": True}]}}}
    reply = await api.patch(f"{CLAIMS}/gpu/status", {"status": status})

    assert (reply.status, "status.allocation.devices.results[0].adminAccess" in reply.message) == (422, True)


async def test_deallocation_drops_the_status_of_the_devices(api: Api) -> None:
    await api.post(CLAIMS, claim())
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "data": {"x": 1}}
    status = {"allocation": {"devices": {"results": [RESULT]}}, "devices": [device]}
    allocated = await api.patch(f"{CLAIMS}/gpu/status", {"status": status})
    deallocated = await api.patch(f"{CLAIMS}/gpu/status", {"status": {"allocation": None}})

    assert allocated.json["status"]["devices"][0]["data"] == {"x": 1}
    assert (deallocated.status, "devices" in deallocated.json["status"]) == (200, False)


async def test_a_taint_without_a_time_gets_the_present_one(api: Api) -> None:
    device = {"name": "gpu-0", "taints": [{"key": "example.com/sick", "effect": "NoSchedule"}]}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [device]}
    reply = await api.post(SLICES, {"metadata": {"name": "s"}, "spec": spec})

    assert reply.json["spec"]["devices"][0]["taints"][0]["timeAdded"] == NOON_TEXT


async def test_a_new_effect_of_a_taint_has_a_new_time(api: Api) -> None:
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    await api.post(RULES, {"metadata": {"name": "rule"}, "spec": {"taint": taint}})
    api.clock.now += 60
    same = await api.patch(f"{RULES}/rule", {"spec": {"taint": {"value": "yes"}}})
    changed = await api.patch(f"{RULES}/rule", {"spec": {"taint": {"effect": "NoExecute"}}})

    times = [reply.json["spec"]["taint"]["timeAdded"] for reply in (same, changed)]
    assert times == [NOON_TEXT, "2030-01-01T12:01:00Z"]


async def test_an_old_kubelet_cannot_drop_the_claims_of_a_pod(api: Api) -> None:
    await api.post(PODS, pod())
    claims = [{"name": "gpu", "resourceClaimName": "web-gpu"}]
    await api.patch(f"{PODS}/web/status", {"status": {"resourceClaimStatuses": claims}})
    kept = await api.put(f"{PODS}/web/status", {**pod(), "status": {"phase": "Running"}})
    cleared = await api.put(f"{PODS}/web/status", {**pod(), "status": {"resourceClaimStatuses": []}})

    assert kept.json["status"]["resourceClaimStatuses"] == claims
    assert kept.json["status"]["qosClass"] == "BestEffort"
    assert not cleared.json["status"]["resourceClaimStatuses"]


async def test_tolerations_of_a_request_compare_by_default(api: Api) -> None:
    manifest = claim()
    manifest["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [{"key": "a", "value": "b"}]
    reply = await api.post(CLAIMS, manifest)

    toleration = reply.json["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0]
    assert toleration["operator"] == "Equal"
