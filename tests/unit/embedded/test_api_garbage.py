"""Deletion that follows deletion: owners, policies, namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.embedded.asgi import CLAIMS, PODS, Api, claim, open_api, pod


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


async def owner(api: Api, name: str = "owner") -> dict[str, Any]:
    """Create a pod and return a reference to it."""
    uid = (await api.post(PODS, pod(name))).json["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


async def is_there(api: Api, path: str) -> bool:
    await api.settle()
    return (await api.get(path)).status == 200


async def test_a_dependent_follows_its_owner(api: Api) -> None:
    await api.post(CLAIMS, claim(ownerReferences=[await owner(api)]))
    before = await is_there(api, f"{CLAIMS}/gpu")
    await api.delete(f"{PODS}/owner")

    assert before
    assert not await is_there(api, f"{CLAIMS}/gpu")


async def test_a_dependent_with_another_owner_stays_and_forgets_the_first(api: Api) -> None:
    owners = [await owner(api, "one"), await owner(api, "two")]
    await api.post(CLAIMS, claim(ownerReferences=owners))
    await api.delete(f"{PODS}/one")

    assert await is_there(api, f"{CLAIMS}/gpu")
    assert (await api.get(f"{CLAIMS}/gpu")).json["metadata"]["ownerReferences"] == [owners[1]]


async def test_an_object_whose_owner_never_existed_is_deleted(api: Api) -> None:
    gone = {"apiVersion": "v1", "kind": "Pod", "name": "never", "uid": "never"}
    await api.post(CLAIMS, claim(ownerReferences=[gone]))

    assert not await is_there(api, f"{CLAIMS}/gpu")


async def test_an_owner_of_the_same_name_but_another_uid_does_not_count(api: Api) -> None:
    reference = {**await owner(api), "uid": "earlier"}
    await api.post(CLAIMS, claim(ownerReferences=[reference]))

    assert not await is_there(api, f"{CLAIMS}/gpu")


async def test_owners_of_kinds_that_are_not_served_count_as_there(api: Api) -> None:
    unknown = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    await api.post(CLAIMS, claim(ownerReferences=[unknown]))

    assert await is_there(api, f"{CLAIMS}/gpu")


async def test_orphans_lose_their_owner_and_stay(api: Api) -> None:
    await api.post(CLAIMS, claim(ownerReferences=[await owner(api)]))
    await api.delete(f"{PODS}/owner", {"propagationPolicy": "Orphan"})

    assert await is_there(api, f"{CLAIMS}/gpu")
    assert "ownerReferences" not in (await api.get(f"{CLAIMS}/gpu")).json["metadata"]
    assert not await is_there(api, f"{PODS}/owner")


async def test_a_foreground_deletion_waits_for_its_dependents(api: Api) -> None:
    await api.post(CLAIMS, claim(ownerReferences=[await owner(api)], finalizers=["example.com/hold"]))
    await api.delete(f"{PODS}/owner", {"propagationPolicy": "Foreground"})
    held = await is_there(api, f"{PODS}/owner")
    await api.patch(f"{CLAIMS}/gpu", {"metadata": {"finalizers": None}})

    assert held
    assert not await is_there(api, f"{CLAIMS}/gpu")
    assert not await is_there(api, f"{PODS}/owner")


async def test_a_namespace_goes_with_its_content(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.post("/api/v1/namespaces/team/pods", pod())
    await api.delete("/api/v1/namespaces/team")

    assert not await is_there(api, "/api/v1/namespaces/team")
    assert (await api.get("/api/v1/pods")).json["items"] == []


async def test_a_namespace_waits_for_content_that_is_held(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.post("/api/v1/namespaces/team/pods", pod(finalizers=["example.com/hold"]))
    await api.delete("/api/v1/namespaces/team")
    await api.settle()
    phase = (await api.get("/api/v1/namespaces/team")).json["status"]["phase"]
    refused = await api.post("/api/v1/namespaces/team/pods", pod("late"))
    await api.patch("/api/v1/namespaces/team/pods/web", {"metadata": {"finalizers": None}})

    assert phase == "Terminating"
    assert (refused.status, "is being terminated" in refused.message) == (403, True)
    assert not await is_there(api, "/api/v1/namespaces/team")


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_the_first_namespaces_stay(api: Api, name: str) -> None:
    assert (await api.delete(f"/api/v1/namespaces/{name}")).status == 403
