"""The API server as an ASGI application: routes, verbs, and a Kubernetes Status for everything that goes wrong.

Deviates: web-origins.
"""

from __future__ import annotations

import hmac
from collections.abc import Container
from typing import Final

from claimsmith.embedded.api.discovery import SERVER_VERSION, find_discovery, is_any_method, is_in_group
from claimsmith.embedded.api.http import (
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    Stream,
    json_answer,
    read_request,
    status_answer,
)
from claimsmith.embedded.api.openapi import find_openapi
from claimsmith.embedded.api.routes import find_target
from claimsmith.embedded.api.verbs import Verbs
from claimsmith.embedded.store_faults import internal_error, method_not_allowed, unavailable
from claimsmith.errors import RequestError
from claimsmith.telemetry import get_logger

__all__ = ["ApiApp"]

_LOG = get_logger("embedded.api")
_HEALTH: Final = ("healthz", "livez", "readyz")
_TEXT: Final = "text/plain; charset=utf-8"


class ApiApp:
    """The ASGI application.

    Args:
        verbs: What the server does with the objects behind a path.
        token: Bearer token that every request must carry; empty to let everybody in.
        hosts: Names under which the server may be addressed; empty for any. Guards a server on this machine against
            web pages that make a browser talk to it under a name of theirs.
    """

    def __init__(self, verbs: Verbs, *, token: str = "", hosts: Container[str] = ()) -> None:
        self._verbs, self._token, self._hosts = verbs, token, hosts
        self._closing = False

    def close(self) -> None:
        """End every open watch and log, and take no request any more."""
        self._closing = True
        self._verbs.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        answer = await self._answer_safely(scope, receive)
        await answer.send(send)

    async def _answer_safely(self, scope: Scope, receive: Receive) -> Answer | Stream:
        try:
            request = await read_request(scope, receive)
            return await self._answer(request)
        except RequestError as error:
            return status_answer(error)
        except Exception:
            _LOG.exception("request failed: %s %s", scope["method"], scope["path"])
            return status_answer(internal_error("the request could not be completed, see the server's log"))

    async def _answer(self, request: Request) -> Answer | Stream:
        self._check_client(request)
        target = find_target(request.path)
        if target is not None:
            return await self._verbs.answer(target, request)
        return await self._answer_other(request)

    def _check_client(self, request: Request) -> None:
        if self._closing:
            raise unavailable("the server is ending")
        host = request.headers.get("host", "")
        if self._hosts and (_name_of(host) not in self._hosts or "origin" in request.headers):
            raise RequestError(403, "Forbidden", f"requests for host {host[:80]!r} or from web pages are not allowed")
        sent = request.headers.get("authorization", "").encode()
        if self._token and not hmac.compare_digest(sent, f"Bearer {self._token}".encode()):
            raise RequestError(401, "Unauthorized", "Unauthorized")

    async def _answer_other(self, request: Request) -> Answer:
        path, accept = request.path, request.headers.get("accept", "")
        if path.strip("/").split("/")[0] in _HEALTH:
            return Answer(body=b"ok", content_type=_TEXT)
        found = json_answer(SERVER_VERSION) if path == "/version" else find_discovery(path, accept)
        if found is not None and request.method != "GET" and not is_any_method(path):
            raise method_not_allowed()
        if found is None and request.method in ("GET", "HEAD"):
            found = find_openapi(path, accept)
        if found is not None:
            return found
        if is_in_group(path):
            raise RequestError(404, "NotFound", "the server could not find the requested resource")
        return Answer(status=404, body=b"404 page not found\n", content_type=_TEXT)


def _name_of(host: str) -> str:
    """Return a `Host` header without its port."""
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
