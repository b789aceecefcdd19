"""A driver that serves its node again: told by the agent, acted upon by the controller. Its carrier is an Event.

A kubelet whose call was not answered waits for the pod's next regular sync, 60 to 90 s. A changed annotation lets it
sync at once; a node may not write pods, so that the controller does it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["RETURN_REASON", "DriverReturn"]

RETURN_REASON: Final = "DriverReturned"
"""Reason of the Event, which is about the Node."""
_MESSAGE: Final = re.compile(r"Driver (\S+) serves claims\b")
_NAMED_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DriverReturn:
    """A driver has begun to serve a node.

    Args:
        driver: Name of the driver.
        node: Name of the node.
        at: When, as RFC 3339 text in UTC to the second.
        event_uid: uid of the Event; empty before it is stored.
    """

    driver: str
    node: str
    at: str
    event_uid: str = ""

    def describe(self, unanswered: tuple[str, ...] = ()) -> str:
        """Return the message of the Event.

        Args:
            unanswered: Claims, as `namespace/name`, whose preparation was begun and never answered.
        """
        text = f"Driver {self.driver} serves claims of this node again"
        if not unanswered:
            return text
        more = f" and {len(unanswered) - _NAMED_MAX} more" if len(unanswered) > _NAMED_MAX else ""
        return f"{text}; never answered: {', '.join(unanswered[:_NAMED_MAX])}{more}"

    @classmethod
    def find(cls, message: str, *, node: str, at: str, event_uid: str) -> Self | None:
        """Return what an Event with that message tells; None when it is about something else."""
        match = _MESSAGE.match(message)
        return cls(driver=match[1], node=node, at=at, event_uid=event_uid) if match and node else None
