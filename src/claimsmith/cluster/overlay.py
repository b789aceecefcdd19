"""Claims as the scheduler must see them: what the API server shows, and on top of it what was decided since.

A decision goes through two stages. While its writes are on their way it is *in flight*: it always wins, because an
event about an older state of the claim may come in at any time. Once the server has answered, the answer is *assumed*:
it wins until the watch shows the same or a newer state.

Source: AssumeClaimAfterAPICall and SignalClaimPendingAllocation in kubernetes v1.37.2
pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef

__all__ = ["ClaimListener", "ClaimOverlay", "is_newer"]

ClaimListener = Callable[[ResourceClaim | None, ResourceClaim | None], None]
"""Gets a claim before and after a change of what the scheduler must see; None: absent."""

_GONE_MAX: Final = 10_000


class ClaimOverlay:
    """The claims of a cluster with decisions on top."""

    def __init__(self) -> None:
        self._seen: dict[ClaimRef, ResourceClaim] = {}
        self._assumed: dict[ClaimRef, ResourceClaim] = {}
        self._in_flight: dict[ClaimRef, ResourceClaim] = {}
        self._effective: dict[ClaimRef, ResourceClaim] = {}
        self._listeners: list[ClaimListener] = []
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(self._effective.values())

    @property
    def claims(self) -> Mapping[ClaimRef, ResourceClaim]:
        """The claims that count; a live view."""
        return self._effective

    def find(self, ref: ClaimRef) -> ResourceClaim | None:
        """Return the claim that counts; None when there is none."""
        return self._effective.get(ref)

    def is_in_flight(self, ref: ClaimRef) -> bool:
        """Tell whether writes of a decision about the claim are on their way."""
        return ref in self._in_flight

    def subscribe(self, listener: ClaimListener) -> None:
        """Call the listener for all claims present, and from now on for every change."""
        self._listeners.append(listener)
        for claim in tuple(self._effective.values()):
            listener(None, claim)

    def see(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take in a change that the API server shows."""
        ref = _ref_of(old, new)
        if old is not None and (new is None or new.uid != old.uid):
            self._bury(old)
        if new is None:
            self._seen.pop(ref, None)
        else:
            self._seen[ref] = new
            assumed = self._assumed.get(ref)
            if assumed is not None and not is_newer(assumed, new):
                del self._assumed[ref]
        self._settle(ref)

    def start(self, claim: ResourceClaim) -> None:
        """Put a decided claim in flight."""
        self._in_flight[claim.ref] = claim
        self._settle(claim.ref)

    def confirm(self, claim: ResourceClaim, *, decided_as: ClaimRef | None = None) -> None:
        """Replace what is in flight by the server's answer to the write.

        Args:
            claim: The claim as the server answered.
            decided_as: Name in flight, of a claim that got its name from the server.
        """
        self._in_flight.pop(claim.ref, None)
        seen = self._seen.get(claim.ref)
        if claim.uid not in self._gone and (seen is None or is_newer(claim, seen)):
            self._assumed[claim.ref] = claim
        self._settle(claim.ref)
        if decided_as is not None and decided_as != claim.ref:
            self.drop(decided_as)

    def drop(self, ref: ClaimRef) -> None:
        """Forget what is in flight: the writes failed."""
        if self._in_flight.pop(ref, None) is not None:
            self._settle(ref)

    def lose(self, claim: ResourceClaim) -> None:
        """Forget what was assumed of a claim that turned out to be gone."""
        self._bury(claim)
        self._settle(claim.ref)

    def _bury(self, claim: ResourceClaim) -> None:
        """Remember that this very claim is gone: a late answer about it must not bring it back."""
        self._gone[claim.uid] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
        assumed = self._assumed.get(claim.ref)
        if assumed is not None and assumed.uid == claim.uid:
            del self._assumed[claim.ref]

    def _settle(self, ref: ClaimRef) -> None:
        old = self._effective.get(ref)
        new = self._in_flight.get(ref) or self._assumed.get(ref) or self._seen.get(ref)
        if new is old:
            return
        if new is None:
            del self._effective[ref]
        else:
            self._effective[ref] = new
        for listener in self._listeners:
            listener(old, new)


def is_newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Tell whether a claim is a later state than another of the same name.

    Versions of one object are compared as numbers, which Kubernetes guarantees since 1.35 (KEP-5504); a server whose
    versions are no numbers is believed at once.
    """
    left, right = claim.metadata.resource_version, other.metadata.resource_version
    return left.isdigit() and right.isdigit() and int(left) > int(right)


def _ref_of(old: ResourceClaim | None, new: ResourceClaim | None) -> ClaimRef:
    claim = new if new is not None else old
    assert claim is not None
    return claim.ref
