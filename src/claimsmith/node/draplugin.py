"""The DRA service, v1 and v1beta1: what the kubelet calls before the first and after the last container of a claim.

Source: dra/v1 and dra/v1beta1 of k8s.io/kubelet v0.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from claimsmith.errors import ApiError, ClaimNotReadyError, ClaimsmithError, NotFoundError, PluginCallError
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
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.draanswers import (
    Outcome,
    answer_prepare_v1,
    answer_prepare_v1beta1,
    answer_unprepare_v1,
    answer_unprepare_v1beta1,
)
from claimsmith.node.entry import PreparedClaim
from claimsmith.node.holding import Holding
from claimsmith.node.preparation import Preparation
from claimsmith.node.requests import parse_prepare_request
from claimsmith.node.sockets import Handler, timed_handler
from claimsmith.telemetry import get_logger, log_event

__all__ = ["CLAIMS_MAX", "DRA_SERVICES", "ClaimObserver", "ClaimReader", "ConsumerReader", "DraPlugin"]

DRA_SERVICES: Final = (DRA_V1, DRA_V1BETA1)
"""Services by their registration names; the kubelet takes the first one that it knows."""
CLAIMS_MAX: Final = 1024
"""Claims that one call may name; a pod has far fewer."""
_READ_TIMEOUT_S: Final = 10.0
_NO_CLAIM: Final = "found none in the API server, allowed a stored claim"
_SLOW_S: Final = 10.0
"""After how long it is told that the driver still works on a call, since all others wait for it."""
_READS_MAX: Final = 8
"""Claims that are read from the API server at the same time."""

_log = get_logger("node")
_Claims = Sequence[v1.Claim] | Sequence[v1beta1.Claim]
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


class ConsumerReader(Protocol):
    """Knows whether those for whom claims are reserved still want to start."""

    async def is_needed(self, consumer: ConsumerReference, *, namespace: str) -> bool:
        """Tell whether a consumer of a claim is there and stays; what can't be told counts as needed."""
        ...


class ClaimObserver(Protocol):
    """Hears of claims that are prepared and unprepared, in the event loop."""

    def remember(self, claim: ClaimKey) -> None:
        """Take note that a claim is about to be unprepared."""
        ...

    def note(self, claim: ClaimKey) -> None:
        """Take note that a claim was prepared or unprepared."""
        ...


class DraPlugin:
    """Answers the kubelet: exactly one entry for each claim of a call, whatever happens to the others.

    A prepare that can't succeed yet is held, and does not delay other calls or other claims of its call.

    Args:
        driver: Name of the driver.
        node_name: Name of this node.
        claims: Reads the claims that the kubelet names.
        preparation: Prepares and unprepares.
        executor: Has one thread, so that the driver is never called twice at a time.
        holding: How long calls wait.
        consumers: Knows whether a call that waits is for a pod that is being deleted; nobody asks without it.
        observer: Hears of claims that are prepared and unprepared.
    """

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        driver: str,
        *,
        node_name: str,
        claims: ClaimReader,
        preparation: Preparation,
        executor: ThreadPoolExecutor,
        holding: Holding | None = None,
        consumers: ConsumerReader | None = None,
        observer: ClaimObserver | None = None,
    ) -> None:
        self._driver, self._node_name, self._claims = driver, node_name, claims
        self._preparation, self._executor = preparation, executor
        self._holding, self._consumers, self._observer = holding or Holding(), consumers, observer
        self._reading = asyncio.Semaphore(_READS_MAX)
        self._unprepared: Counter[str] = Counter()
        self._preparing: Counter[str] = Counter()

    def handlers(self) -> tuple[Handler, ...]:
        """Return what serves the DRA socket."""
        return (
            timed_handler(PREPARE_V1, self._prepare_v1),
            timed_handler(UNPREPARE_V1, self._unprepare_v1),
            timed_handler(PREPARE_V1BETA1, self._prepare_v1beta1),
            timed_handler(UNPREPARE_V1BETA1, self._unprepare_v1beta1),
        )

    async def prepare(self, claim: ClaimKey, *, caller_waits_s: float | None = None) -> PreparedClaim:
        """Prepare one claim; waits while it can't be done yet.

        Args:
            claim: The claim as the kubelet names it.
            caller_waits_s: Seconds until the caller gives up; None when it does not say.

        Raises:
            ClaimNotReadyError, DeviceHeldError, DriverError, ConfigError: As `Preparation.prepare`.
            ClaimNotReadyError: The claim can't be read, and was not prepared before, or was unprepared meanwhile.
        """
        before = self._unprepared[claim.uid]
        self._preparing[claim.uid] += 1
        try:
            prepared = await self._holding.hold(
                lambda: self._prepare_once(claim, before),
                subject=claim,
                caller_waits_s=caller_waits_s,
                find_waste=lambda: self._find_waste(claim),
            )
            self._tell(claim)
            return prepared
        finally:
            self._preparing[claim.uid] -= 1
            if not self._preparing[claim.uid]:
                del self._preparing[claim.uid]
                self._unprepared.pop(claim.uid, None)

    async def unprepare(self, claim: ClaimKey) -> None:
        """Undo the preparation of one claim; asks no API server, since the claim may be gone there.

        Raises:
            DriverError, ConfigError: As `Preparation.unprepare`.
        """
        if claim.uid in self._preparing:
            self._unprepared[claim.uid] += 1
        if self._observer is not None:
            self._observer.remember(claim)
        try:
            await self._run(claim, lambda: self._preparation.unprepare(claim))
            self._tell(claim)
        finally:
            self._holding.wake()

    async def release(self, claim: ClaimKey, is_left: Callable[[], bool]) -> bool:
        """Undo the preparation of a claim for which the kubelet won't call; return whether that was done.

        Args:
            is_left: Tells whether that is still so. It is asked in the driver's turn: calls of the kubelet that came
                before have then been answered, and those that come later begin anew.

        Raises:
            DriverError, ConfigError: As `Preparation.unprepare`.
        """

        def unprepare() -> bool:
            if not is_left():
                return False
            self._preparation.unprepare(claim)
            return True

        if self._observer is not None:
            self._observer.remember(claim)
        try:
            done = await self._run(claim, unprepare)
        finally:
            self._holding.wake()
        if done:
            self._tell(claim)
        return done

    async def refresh(self, claim: ClaimKey) -> None:
        """Tell anew what the driver knows of a prepared claim.

        Raises:
            ClaimNotReadyError: The claim is another one, or none any more.
            ApiError, TimeoutError: It can't be read now.
            DriverError, ConfigError: As `Preparation.refresh`.
        """
        found = await self._read(claim)
        request = parse_prepare_request(found, claim, driver=self._driver, node_name=self._node_name)
        if await self._run(claim, lambda: self._preparation.refresh(request)):
            log_event(_log, logging.INFO, "Claim told of anew", claim=claim, uid=claim.uid, driver=self._driver)
            self._tell(claim)

    def _tell(self, claim: ClaimKey) -> None:
        """Let the observer know once the call is answered: the kubelet need not wait while it looks at files."""
        if self._observer is not None:
            asyncio.get_running_loop().call_soon(self._observer.note, claim)

    async def _prepare_once(self, claim: ClaimKey, unprepared_before: int) -> PreparedClaim:
        def check_wanted() -> None:
            """A call that was overtaken by its claim's unprepare must not prepare it again: nobody would undo that."""
            if self._unprepared[claim.uid] != unprepared_before:
                raise ClaimNotReadyError(claim, "found it unprepared while the call waited", lasts=True)

        check_wanted()
        try:
            found = await self._read(claim)
        except (ApiError, TimeoutError) as error:
            return await self._answer_without_api(claim, error)
        request = parse_prepare_request(found, claim, driver=self._driver, node_name=self._node_name)

        def prepare() -> PreparedClaim:
            check_wanted()
            return self._preparation.prepare(request)

        return await self._run(claim, prepare)

    async def _read(self, claim: ClaimKey) -> ResourceClaim:
        async with self._reading, asyncio.timeout(_READ_TIMEOUT_S):
            return await self._claims.get_claim(ClaimRef(claim.namespace, claim.name))

    async def _find_waste(self, claim: ClaimKey) -> ClaimsmithError | None:
        """Return why nobody needs a claim any more: the kubelet does not end its call when the pod is deleted.

        Source: SyncPod in pkg/kubelet/kubelet.go of kubernetes v1.37.2, which goes on without cancellation.
        """
        if self._consumers is None:
            return None
        try:
            found = await self._read(claim)
        except NotFoundError:
            return ClaimNotReadyError(claim, _NO_CLAIM, lasts=True)
        except (ApiError, TimeoutError):
            return None
        if found.uid != claim.uid or not found.reserved_for:
            return None  # The next try says the same.
        for consumer in found.reserved_for:
            if await self._consumers.is_needed(consumer, namespace=claim.namespace):
                return None
        reason = "found every pod that it is reserved for gone or being deleted, allowed one that wants to start"
        return ClaimNotReadyError(claim, reason, lasts=True)

    async def _answer_without_api(self, claim: ClaimKey, error: ApiError | TimeoutError) -> PreparedClaim:
        """Return what was prepared before, if only the API server is out of reach."""
        if isinstance(error, NotFoundError):
            raise ClaimNotReadyError(claim, _NO_CLAIM, lasts=True) from error
        known = await self._run(claim, lambda: self._preparation.find_answer(claim))
        if known is None:
            reason = str(error) or f"no answer within {_READ_TIMEOUT_S:g} s"
            raise ClaimNotReadyError(claim, f"it can't be read from the API server: {reason}") from error
        return known

    async def _run(self, claim: ClaimKey, call: Callable[[], _Value]) -> _Value:
        """Make a call in the driver's thread, in its turn."""
        loop = asyncio.get_running_loop()
        telling = loop.call_later(_SLOW_S, self._tell_slow, claim)
        try:
            return await loop.run_in_executor(self._executor, call)
        finally:
            telling.cancel()

    def _tell_slow(self, claim: ClaimKey) -> None:
        log_event(
            _log, logging.WARNING, "The driver takes long",
            claim=claim, uid=claim.uid, driver=self._driver, seconds=_SLOW_S,
        )  # fmt: skip

    async def _prepare_v1(
        self, request: v1.NodePrepareResourcesRequest, waits_s: float | None
    ) -> v1.NodePrepareResourcesResponse:
        return answer_prepare_v1(await self._prepare_each(request.claims, waits_s))

    async def _prepare_v1beta1(
        self, request: v1beta1.NodePrepareResourcesRequest, waits_s: float | None
    ) -> v1beta1.NodePrepareResourcesResponse:
        return answer_prepare_v1beta1(await self._prepare_each(request.claims, waits_s))

    async def _unprepare_v1(
        self, request: v1.NodeUnprepareResourcesRequest, waits_s: float | None
    ) -> v1.NodeUnprepareResourcesResponse:
        del waits_s
        return answer_unprepare_v1(await self._for_each("unprepare", request.claims, self.unprepare))

    async def _unprepare_v1beta1(
        self, request: v1beta1.NodeUnprepareResourcesRequest, waits_s: float | None
    ) -> v1beta1.NodeUnprepareResourcesResponse:
        del waits_s
        return answer_unprepare_v1beta1(await self._for_each("unprepare", request.claims, self.unprepare))

    async def _prepare_each(self, claims: _Claims, waits_s: float | None) -> dict[str, Outcome]:
        async def prepare(claim: ClaimKey) -> PreparedClaim:
            return await self.prepare(claim, caller_waits_s=waits_s)

        return await self._for_each("prepare", claims, prepare)

    async def _for_each(
        self, operation: str, claims: _Claims, act: Callable[[ClaimKey], Awaitable[PreparedClaim | None]]
    ) -> dict[str, Outcome]:
        """Act on each claim, each one once; return what came of each by its uid.

        Raises:
            PluginCallError: There are more claims than any pod has.
        """
        if len(claims) > CLAIMS_MAX:
            raise PluginCallError(f"{operation}: found {len(claims)} claims, allowed {CLAIMS_MAX}; ask for fewer")
        keys = {claim.uid: ClaimKey(namespace=claim.namespace, name=claim.name, uid=claim.uid) for claim in claims}
        attempts = [self._attempt(operation, key, act) for key in keys.values()]
        # A single one, as of nearly every pod, is answered without a round of the event loop.
        outcomes = [await attempts[0]] if len(attempts) == 1 else await asyncio.gather(*attempts)
        return dict(zip(keys, outcomes, strict=True))

    async def _attempt(
        self, operation: str, claim: ClaimKey, act: Callable[[ClaimKey], Awaitable[PreparedClaim | None]]
    ) -> Outcome:
        try:
            outcome = await act(claim)
        except Exception as error:
            level = logging.WARNING if isinstance(error, ClaimsmithError) else logging.ERROR
            log_event(_log, level, f"Claim not {operation}d", claim=claim, uid=claim.uid, reason=error)
            return error
        asyncio.get_running_loop().call_soon(self._log_done, operation, claim)
        return outcome

    def _log_done(self, operation: str, claim: ClaimKey) -> None:
        log_event(_log, logging.INFO, f"Claim {operation}d", claim=claim, uid=claim.uid, driver=self._driver)
