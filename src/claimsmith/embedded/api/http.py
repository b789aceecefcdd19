"""Requests and answers of the API server, on plain ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from claimsmith.embedded.api.decode import MAX_BODY_BYTES
from claimsmith.embedded.store_records import encode_json
from claimsmith.errors import RequestError

__all__ = [
    "JSON_TYPE",
    "Answer",
    "Receive",
    "Request",
    "Scope",
    "Send",
    "Stream",
    "is_true",
    "json_answer",
    "read_request",
    "status_answer",
    "status_value",
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON_TYPE: Final = "application/json"
_STATUS_BASE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


@dataclass(slots=True, kw_only=True)
class Request:
    """One HTTP request.

    Args:
        method: Such as `GET`.
        path: Path without the query.
        query: Query parameters; of a repeated one the last counts.
        headers: Headers by lower-case name.
        body: The whole body.
        receive: Gives further messages of the connection, such as that the client went away.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    receive: Receive

    def flag(self, name: str) -> bool:
        """Tell whether a query parameter is there, and not false."""
        return name in self.query and is_true(self.query[name])


@dataclass(slots=True, kw_only=True)
class Answer:
    """A complete answer.

    Args:
        status: HTTP status code.
        body: The body.
        content_type: Its type.
        headers: Further headers.
    """

    body: bytes
    status: int = 200
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": self.status, "headers": self._encoded_headers()})
        await send({"type": "http.response.body", "body": self.body})

    def _encoded_headers(self) -> list[tuple[bytes, bytes]]:
        size = str(len(self.body)).encode()
        return [
            (b"content-type", self.content_type.encode()),
            (b"content-length", size),
            *((name.lower().encode(), _header_text(value)) for name, value in self.headers.items()),
        ]


@dataclass(slots=True, kw_only=True)
class Stream:
    """An answer whose body comes piece by piece.

    Args:
        run: Sends the body through the function that it is given.
        content_type: Type of the body.
    """

    run: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
    content_type: str = JSON_TYPE

    async def send(self, send: Send) -> None:
        """Send the answer."""
        headers = [(b"content-type", self.content_type.encode()), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        await self.run(write)
        await send({"type": "http.response.body", "body": b""})


def is_true(text: str) -> bool:
    """Return what a query parameter that is there means.

    Source: Convert_Slice_string_To_bool, k8s.io/apimachinery v0.37.2 pkg/runtime/conversion.go.
    """
    return text != "0" and text.lower() != "false"


async def read_request(scope: Scope, receive: Receive) -> Request:
    """Return the request of an ASGI scope, with its whole body.

    Raises:
        RequestError: 413, the body is larger than 3 MiB.
    """
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    method: str = scope["method"]
    body = b"" if method in ("GET", "HEAD") else await _read_body(headers, receive)
    query = scope["query_string"]
    return Request(
        method=method,
        path=scope["path"],
        query=dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {},
        headers=headers,
        body=body,
        receive=receive,
    )


def _header_text(text: str) -> bytes:
    """Return a text as it may stand in a header: visible ASCII alone, whatever a client put into it."""
    return "".join(found if " " <= found <= "~" else "?" for found in text).encode()


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer with a value as JSON."""
    return Answer(status=status, body=encode_json(value), headers=headers or {})


def status_answer(error: RequestError) -> Answer:
    """Return the Kubernetes Status of a refusal."""
    headers = dict(error.headers)
    if "retryAfterSeconds" in error.details:
        headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    return json_answer(status_value(error), status=error.status, headers=headers)


def status_value(error: RequestError) -> dict[str, Any]:
    """Return a refusal as the `Status` object."""
    value: dict[str, Any] = {**_STATUS_BASE, "status": "Failure", "message": error.message}
    if error.reason:
        value["reason"] = error.reason
    if error.details or error.status in (405, 415):
        value["details"] = error.details
    value["code"] = error.status
    return value


async def _read_body(headers: Mapping[str, str], receive: Receive) -> bytes:
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        piece = message.get("body", b"")
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        pieces.append(piece)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large() -> RequestError:
    message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
    return RequestError(413, "RequestEntityTooLarge", message, headers={"Connection": "close"})
