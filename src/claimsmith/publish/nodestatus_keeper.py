"""Keeps the amounts of extended resources that a node was given, whoever rewrites its status."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from claimsmith.api.kinds import NODE
from claimsmith.errors import ApiError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.reflector import Reflector, Selection
from claimsmith.publish.nodestatus import CapacityChange, apply_capacity, plan_capacity
from claimsmith.telemetry import get_logger, log_event

__all__ = ["CapacityKeeper"]

_CONTEST_S: Final = 60.0
"""Amounts that do not even last so long are contested: somebody else sets them again and again."""
_CONTESTED_TIMES: Final = 3

_log = get_logger("publish")


class CapacityKeeper:
    """Sets amounts again as soon as the API server tells that they have changed.

    While somebody else sets other amounts again and again, such as a device plugin of the same resource, the pauses
    grow to five minutes: the two must not fight. What one's own configuration says anew is set at once all the same.

    Args:
        client: The API server.
        node: Name of the node.
        change: What is to be set besides what the node's annotations say; see `configured_amounts`.
        clock: Monotonic seconds.
        backoff: Pauses while amounts are contested.
        retries: Pauses after failures of the API server; any news of the node ends them early.
    """

    def __init__(
        self,
        client: KubeClient,
        node: str,
        *,
        change: CapacityChange | None = None,
        clock: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
        retries: Backoff | None = None,
    ) -> None:
        self.contested: tuple[str, ...] = ()
        """Names that somebody else sets again and again; empty when all is well."""
        self.last_error: ApiError | None = None
        """Why the amounts can't be written now; None when they can."""
        self._client, self._node, self._change, self._clock = client, node, change, clock
        self._backoff = backoff or Backoff(initial_s=0.5, max_s=300.0)
        self._retries = retries or Backoff(initial_s=0.5, max_s=30.0)
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        self._kept = asyncio.Event()
        self._restored_s = float("-inf")
        self._times = 0
        selection = Selection(field_selector=f"metadata.name={node}")
        self._nodes: Reflector[KubeObject] = Reflector(client, NODE, lambda obj: obj, selection=selection)
        self._nodes.subscribe(self._look)

    def keep(self, change: CapacityChange) -> None:
        """Set this from now on, besides what the node's annotations say. In the event loop only."""
        if change != self._change:
            self._change = change
            self._wake.set()
            self._hurry.set()

    async def wait_kept(self) -> None:
        """Return once the node has shown the amounts for the first time."""
        await self._kept.wait()

    async def run(self) -> None:
        """Keep the amounts until cancelled."""
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._nodes.run(), name="capacity keeper")
            try:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    self._hurry.clear()
                    pause_s = await self._turn()
                    if pause_s is not None:
                        await self._rest(pause_s)
                        self._wake.set()
            finally:
                follower.cancel()

    def _look(self, before: KubeObject | None, after: KubeObject | None) -> None:
        del before, after
        self._wake.set()
        if self.last_error is not None:  # Else the news may be what a rival has written, whom the pause is for.
            self._hurry.set()

    async def _rest(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._hurry.wait()

    async def _turn(self) -> float | None:
        """Write what is wrong; return how long to wait before the next look, None: until something changes."""
        node = self._nodes.find("", self._node)
        if node is None:
            return None
        if plan_capacity(node, self._change).is_empty:
            self._note_success()
            self._kept.set()
            return None
        try:
            done = await apply_capacity(self._client, self._node, self._change)
        except ApiError as error:
            if str(error) != str(self.last_error):
                log_event(_log, logging.WARNING, "Amounts of extended resources can't be set", reason=error)
            self.last_error = error
            return self._retries.next_s()
        self._note_success()
        return self._note(done.restored) if done.restored else None

    def _note_success(self) -> None:
        self.last_error = None
        self._retries.reset()

    def _note(self, names: tuple[str, ...]) -> float | None:
        """Tell of restored amounts; return how long to leave the node alone when they are contested."""
        log_event(_log, logging.INFO, "Amounts of extended resources were restored", names=", ".join(names))
        now_s = self._clock()
        is_quick = now_s - self._restored_s < _CONTEST_S
        self._times = self._times + 1 if is_quick else 1
        self._restored_s = now_s
        if not is_quick:
            self._backoff.reset()
            self.contested = ()
        if self._times < _CONTESTED_TIMES:
            return None
        if not self.contested:
            log_event(_log, logging.WARNING, "Somebody else sets these extended resources", names=", ".join(names))
        self.contested = names
        return self._backoff.next_s()
