"""Events live for an hour, so that a cluster that stays up does not fill with them.

Source: event-ttl of kube-apiserver, k8s.io/kubernetes v1.37.2 pkg/controlplane/apiserver/options.
"""

from __future__ import annotations

import asyncio
from typing import Final

from claimsmith.api.kinds import EVENT
from claimsmith.embedded.api.ages import parse_time
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.served import get_kind
from claimsmith.embedded.store_records import Record
from claimsmith.errors import ClaimsmithError
from claimsmith.telemetry import get_logger

__all__ = ["EVENT_LIFETIME_S", "delete_old_events", "expire_events"]

EVENT_LIFETIME_S: Final = 3600.0
"""Seconds that an event lives after it was last written."""

_PERIOD_S: Final = 60.0
_LOG = get_logger("embedded.api")


async def expire_events(api: ObjectApi) -> None:
    """Delete old events, once a minute, until cancelled."""
    while True:
        await asyncio.sleep(_PERIOD_S)
        try:
            await delete_old_events(api)
        except ClaimsmithError as error:
            _LOG.warning("deleting old events failed: %s", error)


async def delete_old_events(api: ObjectApi) -> None:
    """Delete the events that nobody has written for an hour.

    Raises:
        RequestError: A deletion could not be stored.
    """
    kind = get_kind(EVENT).stored
    oldest = api.store.clock() - EVENT_LIFETIME_S
    for record in api.store.list(kind):
        if _written_at(record) < oldest:
            await api.store.delete(kind, record.namespace, record.name)


def _written_at(record: Record) -> float:
    value = record.value
    series = value.get("series") or {}
    times = (value["metadata"].get("creationTimestamp"), value.get("lastTimestamp"), series.get("lastObservedTime"))
    return max(parse_time(found) or 0.0 for found in times if found)
