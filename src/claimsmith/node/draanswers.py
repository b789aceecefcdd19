"""From what came of each claim of a call to the answer in the words of the DRA service's versions: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from claimsmith.errors import ClaimsmithError
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet import dra_v1beta1_pb2 as v1beta1
from claimsmith.node.entry import PreparedClaim

__all__ = [
    "Outcome",
    "answer_prepare_v1",
    "answer_prepare_v1beta1",
    "answer_unprepare_v1",
    "answer_unprepare_v1beta1",
]

Outcome = PreparedClaim | Exception | None
"""What came of one claim: its entry, what kept it from being prepared, or None when it is unprepared."""
_ERROR_MAX: Final = 4096
"""Characters of an error that the kubelet is told: it becomes an event."""


def answer_prepare_v1(outcomes: Mapping[str, Outcome]) -> v1.NodePrepareResourcesResponse:
    """Return the answer of v1; outcomes by uid."""
    return v1.NodePrepareResourcesResponse(
        claims={
            uid: v1.NodePrepareResourceResponse(
                error=_error_text(outcome),
                devices=[
                    v1.Device(**device, share_id=share_id or None)
                    for device, share_id in zip(_devices(outcome), _share_ids(outcome), strict=True)
                ],
            )
            for uid, outcome in outcomes.items()
        }
    )


def answer_prepare_v1beta1(outcomes: Mapping[str, Outcome]) -> v1beta1.NodePrepareResourcesResponse:
    """Return the answer of v1beta1, which knows no shares; outcomes by uid."""
    return v1beta1.NodePrepareResourcesResponse(
        claims={
            uid: v1beta1.NodePrepareResourceResponse(
                error=_error_text(outcome), devices=[v1beta1.Device(**device) for device in _devices(outcome)]
            )
            for uid, outcome in outcomes.items()
        }
    )


def answer_unprepare_v1(outcomes: Mapping[str, Outcome]) -> v1.NodeUnprepareResourcesResponse:
    """Return the answer of v1; outcomes by uid."""
    return v1.NodeUnprepareResourcesResponse(
        claims={uid: v1.NodeUnprepareResourceResponse(error=_error_text(outcome)) for uid, outcome in outcomes.items()}
    )


def answer_unprepare_v1beta1(outcomes: Mapping[str, Outcome]) -> v1beta1.NodeUnprepareResourcesResponse:
    """Return the answer of v1beta1; outcomes by uid."""
    return v1beta1.NodeUnprepareResourcesResponse(
        claims={
            uid: v1beta1.NodeUnprepareResourceResponse(error=_error_text(outcome)) for uid, outcome in outcomes.items()
        }
    )


def _error_text(outcome: Outcome) -> str:
    """Return the text of an error, never empty, as the protocol can carry it."""
    if not isinstance(outcome, Exception):
        return ""
    text = str(outcome) if isinstance(outcome, ClaimsmithError) else f"{type(outcome).__name__}: {outcome}"
    return text.encode(errors="replace").decode()[:_ERROR_MAX] or type(outcome).__name__


def _devices(outcome: Outcome) -> Sequence[dict[str, Any]]:
    """Return the devices of a prepared claim by field names of the protocol; request names have no sub-request."""
    if not isinstance(outcome, PreparedClaim):
        return ()
    return [
        {
            "request_names": [device.request],
            "pool_name": device.id.pool,
            "device_name": device.id.device,
            "cdi_device_ids": device.cdi_ids,
        }
        for device in outcome.devices
    ]


def _share_ids(outcome: Outcome) -> Sequence[str]:
    """Return the share of each device, empty for a whole one."""
    return [device.share_id for device in outcome.devices] if isinstance(outcome, PreparedClaim) else ()
