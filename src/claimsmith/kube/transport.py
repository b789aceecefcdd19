"""What the client needs of HTTP: one request with one answer, and one answer that goes on line by line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Answer", "Request", "Transport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to the API server.

    Args:
        method: GET, POST, PUT, PATCH or DELETE.
        target: Path and query below the server's address, starting with `/`.
        body: Body; empty for none.
        content_type: Media type of the body.
        timeout_s: Seconds until the answer must be there; for a stream, seconds of silence until it counts as broken.
        on_open: Called when a stream's answer has begun with status 200, before its first line.
    """

    method: str
    target: str
    body: bytes = b""
    content_type: str = "application/json"
    timeout_s: float = 30.0
    on_open: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Transport(Protocol):
    """A way to the API server. Every method raises `UnreachableError` when there is no complete answer in time."""

    async def send(self, request: Request) -> Answer:
        """Return the answer, whatever its status."""

    def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        """Yield the lines of a 200 answer as they come, or the whole answer if its status is another one."""

    async def close(self) -> None:
        """Close every connection."""
