"""The DRA service, v1 and v1beta1: what the kubelet calls before the first and after the last container of a claim.

Source: dra/v1 and dra/v1beta1 of k8s.io/kubelet v0.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from claimsmith.errors import ApiError, ClaimNotReadyError, ClaimsmithError, NotFoundError
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet import dra_v1beta1_pb2 as v1beta1
from claimsmith.kubelet.services import (
    DRA_V1,
    DRA_V1BETA1,
    PREPARE_V1,
    PREPARE_V1BETA1,
    UNPREPARE_V1,
    UNPREPARE_V1BETA1,
)
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.entry import PreparedClaim
from claimsmith.node.preparation import Preparation
from claimsmith.node.requests import parse_prepare_request
from claimsmith.node.sockets import Handler, unary_handler
from claimsmith.telemetry import get_logger, log_event

__all__ = ["DRA_SERVICES", "ClaimReader", "DraPlugin"]

DRA_SERVICES: Final = (DRA_V1, DRA_V1BETA1)
"""Services by their registration names; the kubelet takes the first one that it knows."""
_READ_TIMEOUT_S: Final = 10.0

_log = get_logger("node")
_Claim = v1.Claim | v1beta1.Claim
_Value = TypeVar("_Value")


class ClaimReader(Protocol):
    """Reads claims from the API server."""

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        """Return a claim as it is now.

        Raises:
            NotFoundError: There is none.
            ApiError: It can't be read now.
        """
        ...


class DraPlugin:
    """Answers the kubelet: exactly one entry for each claim of a call, whatever happens to the others.

    Args:
        driver: Name of the driver.
        node_name: Name of this node.
        claims: Reads the claims that the kubelet names.
        preparation: Prepares and unprepares.
        executor: Has one thread, so that the driver is never called twice at a time.
    """

    def __init__(
        self,
        driver: str,
        *,
        node_name: str,
        claims: ClaimReader,
        preparation: Preparation,
        executor: ThreadPoolExecutor,
    ) -> None:
        self._driver, self._node_name, self._claims = driver, node_name, claims
        self._preparation, self._executor = preparation, executor

    def handlers(self) -> tuple[Handler, ...]:
        """Return what serves the DRA socket."""
        return (
            unary_handler(PREPARE_V1, self._prepare_v1),
            unary_handler(UNPREPARE_V1, self._unprepare_v1),
            unary_handler(PREPARE_V1BETA1, self._prepare_v1beta1),
            unary_handler(UNPREPARE_V1BETA1, self._unprepare_v1beta1),
        )

    async def prepare(self, claim: ClaimKey) -> PreparedClaim:
        """Prepare one claim.

        Raises:
            ClaimNotReadyError, DeviceHeldError, DriverError, ConfigError: As `Preparation.prepare`.
            ApiError: The claim can't be read, and was not prepared before.
        """
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                found = await self._claims.get_claim(ClaimRef(claim.namespace, claim.name))
        except (ApiError, TimeoutError) as error:
            return await self._answer_without_api(claim, error)
        request = parse_prepare_request(found, claim, driver=self._driver, node_name=self._node_name)
        return await self._run(lambda: self._preparation.prepare(request))

    async def unprepare(self, claim: ClaimKey) -> None:
        """Undo the preparation of one claim; asks no API server, since the claim may be gone there.

        Raises:
            DriverError, ConfigError: As `Preparation.unprepare`.
        """
        await self._run(lambda: self._preparation.unprepare(claim))

    async def _answer_without_api(self, claim: ClaimKey, error: ApiError | TimeoutError) -> PreparedClaim:
        """Return what was prepared before, if only the API server is out of reach."""
        if isinstance(error, NotFoundError):
            raise ClaimNotReadyError(claim, "found none in the API server, allowed a stored claim") from error
        known = await self._run(lambda: self._preparation.find_answer(claim))
        if known is None:
            reason = str(error) or f"no answer within {_READ_TIMEOUT_S:g} s"
            raise ClaimNotReadyError(claim, f"it can't be read from the API server: {reason}") from error
        return known

    async def _run(self, call: Callable[[], _Value]) -> _Value:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _prepare_v1(self, request: v1.NodePrepareResourcesRequest) -> v1.NodePrepareResourcesResponse:
        outcomes = await self._for_each("prepare", request.claims, self.prepare)
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

    async def _prepare_v1beta1(
        self, request: v1beta1.NodePrepareResourcesRequest
    ) -> v1beta1.NodePrepareResourcesResponse:
        outcomes = await self._for_each("prepare", request.claims, self.prepare)
        return v1beta1.NodePrepareResourcesResponse(
            claims={
                uid: v1beta1.NodePrepareResourceResponse(
                    error=_error_text(outcome),
                    devices=[v1beta1.Device(**device) for device in _devices(outcome)],
                )
                for uid, outcome in outcomes.items()
            }
        )

    async def _unprepare_v1(self, request: v1.NodeUnprepareResourcesRequest) -> v1.NodeUnprepareResourcesResponse:
        outcomes = await self._for_each("unprepare", request.claims, self.unprepare)
        return v1.NodeUnprepareResourcesResponse(
            claims={
                uid: v1.NodeUnprepareResourceResponse(error=_error_text(outcome)) for uid, outcome in outcomes.items()
            }
        )

    async def _unprepare_v1beta1(
        self, request: v1beta1.NodeUnprepareResourcesRequest
    ) -> v1beta1.NodeUnprepareResourcesResponse:
        outcomes = await self._for_each("unprepare", request.claims, self.unprepare)
        return v1beta1.NodeUnprepareResourcesResponse(
            claims={
                uid: v1beta1.NodeUnprepareResourceResponse(error=_error_text(outcome))
                for uid, outcome in outcomes.items()
            }
        )

    async def _for_each(
        self,
        operation: str,
        claims: Iterable[_Claim],
        act: Callable[[ClaimKey], Awaitable[PreparedClaim | None]],
    ) -> dict[str, PreparedClaim | Exception | None]:
        """Act on each claim, each one once; return what came of each by its uid."""
        keys = {claim.uid: ClaimKey(namespace=claim.namespace, name=claim.name, uid=claim.uid) for claim in claims}
        outcomes = await asyncio.gather(*(self._attempt(operation, key, act) for key in keys.values()))
        return dict(zip(keys, outcomes, strict=True))

    async def _attempt(
        self, operation: str, claim: ClaimKey, act: Callable[[ClaimKey], Awaitable[PreparedClaim | None]]
    ) -> PreparedClaim | Exception | None:
        try:
            outcome = await act(claim)
        except Exception as error:
            level = logging.WARNING if isinstance(error, ClaimsmithError) else logging.ERROR
            log_event(_log, level, f"Claim not {operation}d", claim=claim, uid=claim.uid, reason=error)
            return error
        log_event(_log, logging.INFO, f"Claim {operation}d", claim=claim, uid=claim.uid, driver=self._driver)
        return outcome


def _error_text(outcome: PreparedClaim | Exception | None) -> str:
    if not isinstance(outcome, Exception):
        return ""
    return str(outcome) if isinstance(outcome, ClaimsmithError) else f"{type(outcome).__name__}: {outcome}"


def _devices(outcome: PreparedClaim | Exception | None) -> Sequence[dict[str, Any]]:
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


def _share_ids(outcome: PreparedClaim | Exception | None) -> Sequence[str]:
    """Return the share of each device, empty for a whole one; v1beta1 knows no shares."""
    return [device.share_id for device in outcome.devices] if isinstance(outcome, PreparedClaim) else ()
