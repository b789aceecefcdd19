"""Bad requests: always a Kubernetes Status that says what is wrong, never a fault of the server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from claimsmith.embedded.api.decode import MAX_BODY_BYTES
from tests.unit.embedded.asgi import CLAIMS, CLASSES, MERGE, PODS, STRATEGIC, Api, claim, open_api, pod


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        await opened.post(PODS, pod())
        yield opened


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b'{"metadata":{"name":"x"}',
        b"[]",
        b'"text"',
        b"3",
        b"\xff\xfe",
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        nested(10_000),
        b"[" * 100_000,
        b'{"kind":"Service"}',
        b'{"apiVersion":"v2"}',
        b'{"apiVersion":3,"kind":{}}',
        b'{"metadata":[]}',
        b'{"metadata":{"name":7}}',
        b'{"metadata":{"name":"x"},"spec":{"containers":{}}}',
        b'{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":"http"}]}]}}',
        b'{"metadata":{"name":"x","creationTimestamp":5}}',
        b'{"metadata":{"name":"x","annotations":' + nested(400) + b"}}",
    ],
)
async def test_a_body_that_is_no_pod_is_a_bad_request(api: Api, body: bytes) -> None:
    reply = await api.post(PODS, body)

    assert (reply.status, reply.json["kind"], reply.json["status"]) == (400, "Status", "Failure")
    assert reply.message


@pytest.mark.parametrize("body", [b"a: [", b"a: &x [*x]", b"{}\n---\n{}", b"- 1", b"\xff", b"a: 1\na: 2", b"[" * 9999])
async def test_yaml_that_is_no_pod_is_a_bad_request(api: Api, body: bytes) -> None:
    reply = await api.post(PODS, body, content_type="application/yaml")

    assert (reply.status, reply.reason) == (400, "BadRequest")


async def test_yaml_that_is_a_pod_is_taken(api: Api) -> None:
    body = b"metadata: {name: other}\nspec:\n  containers:\n  - {name: c, image: example/x}\n"
    reply = await api.post(PODS, body, content_type="application/yaml")

    assert reply.status == 201


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, b"[]"),
        (MERGE, b"{"),
        (MERGE, nested(10_000)),
        (STRATEGIC, b'{"spec":{"containers":[{"image":"x"}]}}'),
        (STRATEGIC, b'{"spec":{"$setElementOrder/containers":7}}'),
        ("application/json-patch+json", b'{"op":"add"}'),
    ],
)
async def test_what_is_no_patch_is_a_bad_request(api: Api, kind: str, body: bytes) -> None:
    reply = await api.patch(f"{PODS}/web", body, kind=kind)

    assert (reply.status, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, b'{"spec":7}'),
        (MERGE, b'{"metadata":null}'),
        (MERGE, b'{"metadata":{"labels":[1]}}'),
        ("application/json-patch+json", b'[{"op":"replace","path":"","value":7}]'),
        ("application/json-patch+json", b'[{"op":"remove","path":"/metadata"}]'),
    ],
)
async def test_a_patch_that_makes_no_pod_is_invalid(api: Api, kind: str, body: bytes) -> None:
    reply = await api.patch(f"{PODS}/web", body, kind=kind)

    assert (reply.status, reply.reason) == (422, "Invalid")


async def test_a_selector_of_a_megabyte_is_invalid(api: Api) -> None:
    selector = {"cel": {"expression": "device.driver == 'x' || " * 43_000 + "true"}}
    reply = await api.post(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})

    assert (reply.status, reply.reason) == (422, "Invalid")


async def test_a_body_of_more_than_three_mebibytes_is_too_large(api: Api) -> None:
    body = pod("large", annotations={"a": "x" * MAX_BODY_BYTES})
    reply = await api.post(PODS, body)

    assert (reply.status, reply.reason) == (413, "RequestEntityTooLarge")


async def test_a_body_of_an_unknown_type_is_unsupported(api: Api) -> None:
    reply = await api.post(PODS, b"<pod/>", content_type="application/xml")

    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")


def misspelt() -> dict[str, Any]:
    manifest = pod("other")
    manifest["spec"]["containers"][0]["imagee"] = "x"
    return manifest


async def test_a_misspelt_field_is_refused_when_checked_strictly(api: Api) -> None:
    reply = await api.post(PODS, misspelt(), fieldValidation="Strict")

    assert reply.status == 400
    assert 'strict decoding error: unknown field "spec.containers[0].imagee"' in reply.message


async def test_a_misspelt_field_is_dropped_with_a_warning_otherwise(api: Api) -> None:
    reply = await api.post(PODS, misspelt())

    assert reply.status == 201
    assert reply.headers["warning"] == '299 - "unknown field \\"spec.containers[0].imagee\\""'
    assert "imagee" not in reply.json["spec"]["containers"][0]


async def test_a_warning_cannot_bring_headers_of_its_own(api: Api) -> None:
    reply = await api.post(PODS, {**pod("other"), "x\r\nset-cookie: a\u00e9": 1})

    assert reply.headers["warning"] == '299 - "unknown field \\"[x??set-cookie: a?]\\""'


async def test_a_misspelt_field_is_dropped_silently_when_told_so(api: Api) -> None:
    reply = await api.post(PODS, misspelt(), fieldValidation="Ignore")

    assert (reply.status, "warning" in reply.headers) == (201, False)


async def test_a_duplicate_field_is_refused_when_checked_strictly(api: Api) -> None:
    body = json.dumps(pod("other")).replace('"name": "main"', '"name": "main", "name": "main"').encode()
    reply = await api.post(PODS, body, fieldValidation="Strict")

    assert (reply.status, 'duplicate field "spec.containers[0].name"' in reply.message) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/api/v1/namespaces/default/pods/missing", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/services", 404, "NotFound"),
        ("GET", "/apis/resource.k8s.io/v9/things", 404, "NotFound"),
        ("GET", "/api/v2/pods", 404, "NotFound"),
        ("GET", "/api/v1/pods/web", 404, "NotFound"),
        ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("DELETE", "/apis/resource.k8s.io/v1/resourceclaims", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("POST", "/apis/resource.k8s.io/v1", 405, "MethodNotAllowed"),
        ("OPTIONS", "/api/v1/namespaces/default/pods/web", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/pods/web/exec", 404, "NotFound"),
        ("POST", "/api/v1/namespaces/default/pods/web", 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/namespaces/default/pods", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/bindings", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/pods/web/binding", 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/namespaces/default/pods/web/log", 405, "MethodNotAllowed"),
    ],
)
async def test_a_path_or_method_that_does_not_exist(api: Api, method: str, path: str, status: int, reason: str) -> None:
    reply = await api.request(method, path, {} if method != "GET" else None)

    assert (reply.status, reply.reason) == (status, reason)


@pytest.mark.parametrize("path", ["/nonsense", "/apis/example.com", "/apis/example.com/v1/things"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_of_no_group_is_no_page(api: Api, method: str, path: str) -> None:
    reply = await api.request(method, path, {} if method != "GET" else None)

    assert (reply.status, reply.body) == (404, b"404 page not found\n")


async def test_no_request_deletes_the_objects_of_all_namespaces(api: Api) -> None:
    await api.post(PODS, {"metadata": {"name": "kept"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await api.request("DELETE", "/api/v1/pods")

    assert (await api.get(f"{PODS}/kept")).status == 200


async def test_null_is_an_object_without_fields(api: Api) -> None:
    reply = await api.post(PODS, b"null")

    assert (reply.status, reply.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    "query",
    [{"dryRun": "Some"}, {"fieldValidation": "Sometimes"}],
)
async def test_an_option_without_meaning_is_invalid(api: Api, query: dict[str, str]) -> None:
    assert (await api.post(PODS, pod("other"), **query)).status == 422


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"kind":"Pod"}',
        b'{"gracePeriodSeconds":"soon"}',
        b'{"preconditions":[]}',
        b"{",
    ],
)
async def test_delete_options_without_meaning_are_a_bad_request(api: Api, body: bytes) -> None:
    assert (await api.delete(f"{PODS}/web", body)).status == 400


@pytest.mark.parametrize("body", [b'{"propagationPolicy":"Sideways"}', b'{"dryRun":["Some"]}'])
async def test_delete_options_with_other_values_are_invalid(api: Api, body: bytes) -> None:
    assert (await api.delete(f"{PODS}/web", body)).status == 422


async def test_a_server_with_a_token_lets_nobody_else_in() -> None:
    async with open_api(token="secret") as api:
        reply = await api.get(PODS)

    assert (reply.status, reply.reason) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8080"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "rebound.example.com:8080"}, 403),
        ({}, 403),
        ({"host": "localhost:8080", "origin": "https://example.com"}, 403),
    ],
)
async def test_web_pages_cannot_reach_a_server_on_this_machine(headers: dict[str, str], status: int) -> None:
    async with open_api(hosts=("localhost", "[::1]")) as api:
        reply = await api.get(PODS, headers=headers)

    assert reply.status == status


async def test_a_claim_that_breaks_the_rules_is_invalid_field_by_field(api: Api) -> None:
    manifest = claim()
    manifest["spec"]["devices"]["requests"][0]["name"] = "Not-A-Label"
    reply = await api.post(CLAIMS, manifest)

    assert reply.status == 422
    assert reply.json["details"]["causes"][0]["field"] == "spec.devices.requests[0].name"


async def test_the_spec_of_a_claim_stays_as_it_is(api: Api) -> None:
    await api.post(CLAIMS, claim())
    reply = await api.patch(f"{CLAIMS}/gpu", {"spec": {"devices": {"requests": []}}})

    assert (reply.status, "field is immutable" in reply.message) == (422, True)
