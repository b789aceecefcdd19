"""Events are deleted an hour after they were last written."""

from __future__ import annotations

import pytest

from claimsmith.embedded.api.expiry import delete_old_events
from claimsmith.embedded.api.objects import ObjectApi
from tests.unit.embedded.asgi import open_api

EVENTS = "/api/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("event", "left"),
    [
        ({}, 0),
        ({"lastTimestamp": "2030-01-01T13:00:00Z"}, 1),
        ({"series": {"count": 2, "lastObservedTime": "2030-01-01T13:00:00.000000Z"}}, 1),
        ({"lastTimestamp": "2029-12-31T00:00:00Z"}, 0),
    ],
)
async def test_an_event_lives_an_hour_after_its_last_write(event: dict[str, object], left: int) -> None:
    async with open_api() as api:
        created = await api.post(
            EVENTS, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, **event}
        )
        api.clock.now += 3601
        await delete_old_events(ObjectApi(api.store))
        found = (await api.get(EVENTS)).json["items"]

    assert created.status == 201
    assert len(found) == left
