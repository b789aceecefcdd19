"""Discovery and OpenAPI: what kubectl asks before anything else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from claimsmith.api.kinds import SERVED_KINDS, iter_group_versions
from tests.unit.embedded.asgi import Api, open_api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList,application/json"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


async def test_aggregated_discovery_names_every_kind_of_every_version_once(api: Api) -> None:
    found = []
    for root in ("/api", "/apis"):
        reply = await api.get(root, accept=AGGREGATED.format("v2"))
        assert reply.headers["content-type"] == AGGREGATED.format("v2").split(",")[0]
        found += [
            (group["metadata"].get("name", ""), entry["version"], resource["resource"])
            for group in reply.json["items"]
            for entry in group["versions"]
            for resource in entry["resources"]
        ]

    assert sorted(found) == sorted((kind.group, kind.version, kind.plural) for kind in SERVED_KINDS)


@pytest.mark.parametrize(
    ("accept", "status"), [(AGGREGATED.format("v2beta1"), 200), (AGGREGATED.format("v9").split(",")[0], 406)]
)
async def test_versions_of_aggregated_discovery_that_are_gone_or_to_come_are_not_given(
    api: Api, accept: str, status: int
) -> None:
    reply = await api.get("/apis", accept=accept)

    assert (reply.status, reply.json["kind"]) == (status, "APIGroupList" if status == 200 else "Status")


async def test_plain_discovery_names_every_kind_of_every_version_once(api: Api) -> None:
    groups = (await api.get("/apis")).json["groups"]
    paths = ["/api/v1"] + [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
    lists = [(await api.get(path)).json["resources"] for path in paths]
    found = [entry["name"] for resources in lists for entry in resources if "/" not in entry["name"]]

    assert sorted(found) == sorted(kind.plural for kind in SERVED_KINDS)


@pytest.mark.parametrize("group", ["resource.k8s.io", "scheduling.k8s.io"])
async def test_a_group_prefers_its_newest_version(api: Api, group: str) -> None:
    reply = (await api.get(f"/apis/{group}")).json

    assert reply["preferredVersion"] == {"groupVersion": f"{group}/v1", "version": "v1"}


async def test_older_versions_follow_newest_first(api: Api) -> None:
    versions = (await api.get("/apis/resource.k8s.io")).json["versions"]

    assert [entry["version"] for entry in versions] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]


async def test_pods_have_their_subresources(api: Api) -> None:
    resources = (await api.get("/api/v1")).json["resources"]

    assert {entry["name"] for entry in resources if entry["name"].startswith("pods/")} == {
        "pods/binding",
        "pods/eviction",
        "pods/log",
        "pods/status",
    }


async def test_the_server_says_which_release_it_serves(api: Api) -> None:
    reply = (await api.get("/version")).json

    assert (reply["major"], reply["minor"]) == ("1", "37")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez", "/readyz/ping"])
async def test_the_server_is_healthy(api: Api, path: str) -> None:
    reply = await api.get(path)

    assert (reply.status, reply.body) == (200, b"ok")


async def test_openapi_has_a_document_for_each_group_and_version(api: Api) -> None:
    paths = (await api.get("/openapi/v3")).json["paths"]

    assert set(paths) == {f"apis/{group}/{v}" if group else f"api/{v}" for group, v in iter_group_versions()}


async def test_the_hash_of_an_openapi_document_leads_to_it(api: Api) -> None:
    paths = (await api.get("/openapi/v3")).json["paths"]
    reply = await api.get(paths["apis/resource.k8s.io/v1"]["serverRelativeURL"])

    assert reply.json["openapi"] == "3.0.0"


async def test_every_reference_of_an_openapi_document_leads_somewhere(api: Api) -> None:
    for name in (await api.get("/openapi/v3")).json["paths"]:
        reply = await api.get(f"/openapi/v3/{name}")
        schemas = reply.json["components"]["schemas"]
        wanted = {part.split('"')[0] for part in reply.body.decode().split("#/components/schemas/")[1:]}

        assert wanted <= set(schemas)


async def test_kubectl_finds_that_patches_check_fields(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/resource.k8s.io/v1")).json
    path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
    patch = document["paths"][path]["patch"]

    assert patch["x-kubernetes-group-version-kind"]["kind"] == "ResourceClaim"
    assert {"fieldValidation", "dryRun", "fieldManager", "force"} == {entry["name"] for entry in patch["parameters"]}


async def test_schemas_say_how_lists_are_merged(api: Api) -> None:
    schemas = (await api.get("/openapi/v3/api/v1")).json["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]

    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"


async def test_openapi_version_two_is_given_as_json_and_as_protobuf(api: Api) -> None:
    form = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    json = await api.get("/openapi/v2")
    protobuf = await api.get("/openapi/v2", accept=form)
    other = await api.get("/openapi/v2", accept="text/html")

    assert "io.k8s.api.core.v1.Pod" in json.json["definitions"]
    assert protobuf.body.startswith(b"\x0a\x032.0")
    assert other.status == 406
