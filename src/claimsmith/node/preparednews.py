"""Tells anew of claims of which the driver has learnt more since they were prepared, until it is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from claimsmith.errors import ClaimNotReadyError, ClaimsmithError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.model.prepared import ClaimKey
from claimsmith.telemetry import get_logger, log_event

__all__ = ["PreparedNews"]

_log = get_logger("node")


class PreparedNews:
    """Claims of one driver that are to be told of anew.

    Args:
        refresh: Tells of one claim.
        backoff: Pauses after failures.
    """

    def __init__(self, refresh: Callable[[ClaimKey], Awaitable[None]], *, backoff: Backoff | None = None) -> None:
        self._refresh, self._backoff = refresh, backoff or Backoff(initial_s=0.5, max_s=60.0)
        self._due: dict[str, ClaimKey] = {}
        self._wake = asyncio.Event()

    def note(self, claim: ClaimKey) -> None:
        """Take note that there is something new of a claim. In the event loop only."""
        self._due[claim.uid] = claim
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for claim in tuple(self._due.values()):
                if not await self._try(claim):
                    await self._backoff.wait()
                    self._wake.set()
                    break

    async def _try(self, claim: ClaimKey) -> bool:
        """Tell of one claim; return whether it needs no further try."""
        del self._due[claim.uid]
        try:
            await self._refresh(claim)
        except (NotFoundError, ClaimNotReadyError) as error:
            log_event(_log, logging.DEBUG, "Nothing to tell anew", claim=claim, reason=error)
        except (ClaimsmithError, TimeoutError) as error:
            log_event(_log, logging.WARNING, "A claim can't be told of anew now", claim=claim, reason=error)
            self._due.setdefault(claim.uid, claim)
            return False
        self._backoff.reset()
        return True
