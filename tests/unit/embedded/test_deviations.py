"""The embedded API server differs from a real one where docs/deviations.md says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.embedded.asgi import CLAIMS, PODS, SLICES, Api, claim, open_api, pod


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


async def test_a_pod_that_is_replaced_keeps_what_the_server_filled_in(api: Api) -> None:
    first = (await api.post(PODS, pod())).json
    kept = ("priority", "serviceAccountName", "tolerations")
    plain = {**pod(), "metadata": {"name": first["metadata"]["name"], "namespace": "default"}}
    second = await api.put(f"{PODS}/{first['metadata']['name']}", plain)

    assert second.status == 200
    assert {name: second.json["spec"][name] for name in kept} == {name: first["spec"][name] for name in kept}


async def test_quantities_stay_as_they_are_sent(api: Api) -> None:
    wanted = claim()
    wanted["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "1024Mi"}}
    reply = await api.post(CLAIMS, wanted)

    assert reply.status == 201
    exactly = reply.json["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly["capacity"] == {"requests": {"memory": "1024Mi"}}


async def test_the_description_of_a_column_is_its_title(api: Api) -> None:
    reply = await api.get(CLAIMS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")

    columns = reply.json["columnDefinitions"]
    assert [column["description"] for column in columns] == [column["name"] for column in columns] != []


async def test_a_refusal_tells_a_value_as_json(api: Api) -> None:
    await api.post(CLAIMS, claim("c"))
    changed = claim("c")
    changed["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    reply = await api.put(f"{CLAIMS}/c", changed)

    cause = reply.json["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "spec")
    assert cause["message"].startswith('Invalid value: {"devices":')


async def test_an_empty_list_stays(api: Api) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": []}
    reply = await api.post(SLICES, {"metadata": {"name": "s"}, "spec": spec})

    assert reply.json["spec"]["devices"] == []
