"""Lists over the API: selectors, pages, versions, tables and other forms."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml

from tests.unit.embedded.asgi import NODES, PODS, SLICES, Api, open_api, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        for name in "abcde":
            await opened.post(PODS, pod(name, labels={"name": name}, node_name="n1" if name < "c" else ""))
        yield opened


async def names(api: Api, path: str = PODS, **query: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.get(path, **query)).json["items"]]


async def test_a_list_says_what_it_is_and_how_new(api: Api) -> None:
    reply = (await api.get(PODS)).json

    assert (reply["kind"], reply["apiVersion"]) == ("PodList", "v1")
    assert reply["metadata"] == {"resourceVersion": str(api.store.version)}


async def test_all_namespaces_can_be_listed_at_once(api: Api) -> None:
    await api.post("/api/v1/namespaces/kube-system/pods", pod("system"))

    assert await names(api, "/api/v1/pods") == ["a", "b", "c", "d", "e", "system"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"labelSelector": "name in (a,d)"}, ["a", "d"]),
        ({"fieldSelector": "spec.nodeName=n1"}, ["a", "b"]),
        ({"fieldSelector": "spec.nodeName="}, ["c", "d", "e"]),
        ({"fieldSelector": "metadata.name=c"}, ["c"]),
        ({"fieldSelector": "metadata.name=c,metadata.namespace=other"}, []),
        ({"fieldSelector": "status.phase!=Pending"}, []),
        ({"fieldSelector": "spec.schedulerName=default-scheduler", "labelSelector": "name=e"}, ["e"]),
    ],
)
async def test_selectors_choose_objects(api: Api, query: dict[str, str], found: list[str]) -> None:
    assert await names(api, **query) == found


async def test_slices_are_chosen_by_node_driver_and_pool(api: Api) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    for name, node in (("s1", "n1"), ("s2", "n2")):
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool}
        await api.post(SLICES, {"metadata": {"name": name}, "spec": spec})

    assert await names(api, SLICES, fieldSelector="spec.nodeName=n2") == ["s2"]
    assert await names(api, SLICES, fieldSelector="spec.driver=gpu.example.com,spec.pool.name=p") == ["s1", "s2"]


async def test_a_field_that_cannot_be_selected_by_is_refused(api: Api) -> None:
    reply = await api.get(PODS, fieldSelector="spec.image=x")

    assert (reply.status, reply.message) == (400, "field label not supported: spec.image")


async def test_pages_together_are_the_whole_list(api: Api) -> None:
    first = (await api.get(PODS, limit="2")).json
    second = (await api.get(PODS, limit="2", **{"continue": first["metadata"]["continue"]})).json
    third = (await api.get(PODS, limit="2", **{"continue": second["metadata"]["continue"]})).json
    found = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]

    assert found == ["a", "b", "c", "d", "e"]
    assert [page["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]


async def test_all_pages_have_the_version_of_the_first(api: Api) -> None:
    first = (await api.get(PODS, limit="2")).json
    await api.post(PODS, pod("later"))
    second = (await api.get(PODS, limit="2", **{"continue": first["metadata"]["continue"]})).json

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_page_after_compaction_is_refused(api: Api) -> None:
    first = (await api.get(PODS, limit="2")).json
    await api.post(PODS, pod("later"))
    api.store.compact()
    reply = await api.get(PODS, limit="2", **{"continue": first["metadata"]["continue"]})

    assert (reply.status, reply.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersion": "0"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "1", "resourceVersionMatch": "Nonsense"}, 422),
        ({"resourceVersion": "999999"}, 504),
        ({"resourceVersion": "x"}, 400),
        ({"limit": "x"}, 400),
        ({"continue": "nonsense"}, 400),
        ({"labelSelector": "a b"}, 400),
    ],
)
async def test_versions_and_limits_mean_what_upstream_says(api: Api, query: dict[str, str], status: int) -> None:
    assert (await api.get(PODS, **query)).status == status


async def test_a_version_not_reached_yet_asks_to_come_again(api: Api) -> None:
    reply = await api.get(PODS, resourceVersion="999999")

    assert reply.headers["retry-after"] == "1"
    assert reply.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_table_has_upstreams_columns_and_the_metadata_of_each_row(api: Api) -> None:
    table = (await api.get(PODS, accept=TABLE, limit="1")).json

    assert [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert table["rows"][0]["cells"] == ["a", "0/1", "Pending", "0", "0s", "<none>", "n1", "<none>", "<none>"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert "continue" in table["metadata"]


async def test_a_table_can_hold_the_objects_or_nothing(api: Api) -> None:
    full = (await api.get(f"{PODS}/a", accept=TABLE)).json
    whole = (await api.get(PODS, accept=TABLE, includeObject="Object")).json
    bare = (await api.get(PODS, accept=TABLE, includeObject="None")).json

    assert full["rows"][0]["cells"][0] == "a"
    assert whole["rows"][0]["object"]["spec"]["nodeName"] == "n1"
    assert "object" not in bare["rows"][0]


async def test_metadata_alone_can_be_listed(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    reply = (await api.get(PODS, accept=accept)).json

    assert reply["kind"] == "PartialObjectMetadataList"
    assert set(reply["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_objects_can_be_read_as_yaml(api: Api) -> None:
    reply = await api.get(f"{PODS}/a", accept="application/yaml")

    assert reply.headers["content-type"] == "application/yaml"
    assert yaml.safe_load(reply.body) == (await api.get(f"{PODS}/a")).json


async def test_json_is_given_to_who_prefers_protobuf(api: Api) -> None:
    reply = await api.get(NODES, accept="application/vnd.kubernetes.protobuf,application/json")

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


async def test_who_takes_protobuf_alone_gets_nothing(api: Api) -> None:
    reply = await api.get(NODES, accept="application/vnd.kubernetes.protobuf")

    assert (reply.status, reply.reason) == (406, "NotAcceptable")
