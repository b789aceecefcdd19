"""Keeps a connection to the API server open for what is asked in a hurry, such as the claim of a pod that starts.

A new one costs a handshake, 3 to 5 ms, and all of them rest when nothing happens on a node for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from claimsmith.errors import ApiError
from claimsmith.kube.direct import IDLE_MAX_S
from claimsmith.kube.transport import Answer

__all__ = ["PAUSE_S", "keep_warm"]

PAUSE_S: Final = IDLE_MAX_S * 2 / 3
"""Seconds from one use of the connection to the next."""
_PATH: Final = "/version"
"""Costs the API server nothing, and everybody may read it. Source: system:public-info-viewer of kubernetes v1.37.2."""


class Fetches(Protocol):
    """What is needed of a client."""

    async def fetch(self, path: str) -> Answer:
        """Return the answer to a GET of what is no object."""
        ...


async def keep_warm(client: Fetches, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Use a connection now and then until cancelled; a refusal does as well, and what fails is tried again later."""
    while True:
        await sleep(PAUSE_S)
        try:
            await client.fetch(_PATH)
        except ApiError:
            continue
