"""Tells the API server what drivers say of allocated devices, until it is told: in the background, never in a call.

After a deallocation the API server itself drops what was said; after an unprepare it is taken back here, since a claim
may stay allocated for its next pod.

Source: dropDeallocatedStatusDevices in pkg/registry/resource/resourceclaim of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from claimsmith.errors import ApiError, ConflictError, InvalidObjectError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ClaimStatusWriter", "StatusReports"]

_DEALLOCATED: Final = "must be an allocated device"
"""What the API server says of a claim that was deallocated meanwhile: of a pod that ended at once."""

_log = get_logger("node")


class ClaimStatusWriter(Protocol):
    """Writes the devices of claims' statuses."""

    async def write_devices(self, status: ClaimStatus) -> None:
        """Let the status say just this of the driver's devices; without devices: nothing.

        Raises:
            NotFoundError, ConflictError: There is no such claim, or another one of that name.
            ApiError: It can't be written now.
        """
        ...


class StatusReports:
    """What the API server must still be told of one driver's claims.

    Args:
        writer: Writes.
        find_status: Returns what the status of a claim must say, by its uid; None for nothing.
        backoff: Pauses after failures.
    """

    def __init__(
        self,
        writer: ClaimStatusWriter,
        find_status: Callable[[str], ClaimStatus | None],
        *,
        backoff: Backoff | None = None,
    ) -> None:
        self._writer, self._find_status = writer, find_status
        self._backoff = backoff or Backoff(initial_s=0.5, max_s=60.0)
        self._said: set[str] = set()
        self._due: dict[str, ClaimKey] = {}
        self._wake = asyncio.Event()

    def remember(self, claim: ClaimKey) -> None:
        """Take note that a claim is about to be unprepared: another instance of the driver may have told of it."""
        if self._find_status(claim.uid) is not None:
            self._said.add(claim.uid)

    def note(self, claim: ClaimKey) -> None:
        """Look at a claim that was prepared or unprepared. In the event loop only."""
        self.remember(claim)
        if claim.uid in self._said:
            self._due[claim.uid] = claim
            self._wake.set()

    async def run(self, known: Iterable[ClaimKey] = ()) -> None:
        """Work until cancelled.

        Args:
            known: Claims that were prepared before: a stopped process may not have told of them.
        """
        for claim in known:
            self.note(claim)
        while True:
            await self._wake.wait()
            self._wake.clear()
            for claim in tuple(self._due.values()):
                if not await self._tell(claim):
                    await self._backoff.wait()
                    self._wake.set()
                    break

    async def _tell(self, claim: ClaimKey) -> bool:
        """Tell of one claim; return whether it needs no further try."""
        del self._due[claim.uid]
        status = self._find_status(claim.uid) or ClaimStatus(claim=claim)
        try:
            await self._writer.write_devices(status)
        except (NotFoundError, ConflictError):
            self._said.discard(claim.uid)
        except InvalidObjectError as error:
            level = logging.INFO if _DEALLOCATED in str(error) else logging.ERROR
            log_event(_log, level, "A device status is refused", claim=claim, reason=error)
        except ApiError as error:
            log_event(_log, logging.WARNING, "A device status can't be written now", claim=claim, reason=error)
            self._due.setdefault(claim.uid, claim)
            return False
        else:
            if not status.devices:
                self._said.discard(claim.uid)
        self._backoff.reset()
        return True
