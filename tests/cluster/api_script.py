"""One script of requests: what is asked of an API server, and what is seen, in words that are the same for each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlencode

from tests.cluster.api_world import ApiWorld, Reply

__all__ = ["APPLY", "JSON_PATCH", "MERGE", "STRATEGIC", "Script"]

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_RESOURCE: Final = "/apis/resource.k8s.io/v1"
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_PATIENCE_S: Final = 120


class Script:
    """Asks one API server, and notes each answer.

    Args:
        world: The server.
        namespace: Its own namespace, which exists; its name is also how objects without a namespace are told apart.
    """

    def __init__(self, world: ApiWorld, namespace: str) -> None:
        self.world, self.namespace = world, namespace
        self.notes: list[Any] = []
        self.shows_managers = False
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    # --- where things are ---------------------------------------------------------------------------------------------

    @property
    def claims(self) -> str:
        """Path of the claims of the namespace."""
        return f"{_RESOURCE}/namespaces/{self.namespace}/resourceclaims"

    @property
    def templates(self) -> str:
        """Path of the claim templates of the namespace."""
        return f"{_RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates"

    @property
    def pods(self) -> str:
        """Path of the pods of the namespace."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def slices(self) -> str:
        """Path of all slices."""
        return f"{_RESOURCE}/resourceslices"

    @property
    def classes(self) -> str:
        """Path of all classes."""
        return f"{_RESOURCE}/deviceclasses"

    def own(self, name: str) -> str:
        """Return a name that no other script uses, for objects without a namespace."""
        return f"{name}-{self.namespace}"

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: Any = None, *, type: str = JSON, accept: str = JSON, **query: Any
    ) -> Reply:
        """Send a request, note it with its answer, and return the answer.

        Args:
            body: A value to be sent as JSON; bytes as they are.
            type: `Content-Type`; empty for none.
            accept: `Accept`; empty for none.
            query: Parameters.
        """
        reply = self.quietly(method, path, body, type=type, accept=accept, **query)
        self.note(f"{method} {self.target(path, **query)}", self.show(reply))
        return reply

    def quietly(
        self, method: str, path: str, body: Any = None, *, type: str = JSON, accept: str = JSON, **query: Any
    ) -> Reply:
        """Send a request that is not noted."""
        headers = {"Content-Type": type, "Accept": accept}
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kept = {name: value for name, value in headers.items() if value and (sent or name == "Accept")}
        return self.world.ask(method, self.target(path, **query), sent, kept)

    def make(self, path: str, body: Any, **query: Any) -> Any:
        """Create an object of which nothing is noted, and return it."""
        reply = self.quietly("POST", path, body, **query)
        assert reply.status == 201, (self.world.name, reply.body)
        return reply.body

    def watch(self, path: str, *, accept: str = JSON, **query: Any) -> list[Any]:
        """Note and return all events of a watch that lasts one second, or as long as the query says."""
        asked = {"watch": "1", "timeoutSeconds": 1, **query}
        reply = self.world.watch(self.target(path, **asked), {"Accept": accept})
        events = reply.body if isinstance(reply.body, list) else [reply.body] if reply.body else []
        self.note("WATCH", {"status": reply.status, "events": [self.plain(event) for event in events]})
        return events

    def wait(self, path: str, name: str, holds: Callable[[Any], bool]) -> Any:
        """Return an object once a condition holds for it; nothing is noted.

        Args:
            path: Path of the collection.
            holds: Takes the object, None while there is none.

        Raises:
            AssertionError: It does not come to hold.
        """
        query: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
        listed = self.quietly("GET", path, **query).body
        found = next(iter(listed["items"]), None)
        if holds(found):
            return found
        query |= {"watch": "1", "timeoutSeconds": _PATIENCE_S, "resourceVersion": listed["metadata"]["resourceVersion"]}
        with closing(self.world.follow(self.target(path, **query))) as events:
            for event in events:
                found = None if event["type"] == "DELETED" else event["object"]
                if holds(found):
                    return found
        raise AssertionError(f"{self.world.name}: {path}/{name} stays {found}")

    def wait_gone(self, path: str, name: str) -> None:
        """Wait until an object does not exist."""
        self.wait(path, name, lambda found: found is None)

    def target(self, path: str, **query: Any) -> str:
        """Return a path with parameters."""
        return f"{path}?{urlencode(query)}" if query else path

    # --- noting -------------------------------------------------------------------------------------------------------

    def note(self, about: str, seen: Any) -> None:
        """Note something that was seen."""
        self.notes.append({self._mask(about): seen})

    def show(self, reply: Reply) -> dict[str, Any]:
        """Return of an answer what must be the same for every server."""
        shown = {"status": reply.status, "body": self.plain(reply.body)}
        for name in ("warning", "allow", "retry-after", "accept-patch"):
            if name in reply.headers:
                shown[name] = self._mask(reply.headers[name])
        shown["type"] = reply.headers.get("content-type", "").split(";")[0]
        return shown

    def plain(self, value: Any) -> Any:
        """Return a value without what differs between any two servers: uids, versions, times, names of scripts."""
        if isinstance(value, Mapping):
            if value.get("type") == "BOOKMARK":
                # Of a bookmark's object, only the metadata mean anything; its version depends on other writers.
                return {"type": "BOOKMARK", "annotations": value["object"]["metadata"].get("annotations")}
            if isinstance(value.get("items"), list) and value.get("metadata", {}).get("resourceVersion"):
                # Other writers count too: whether a list is newer than its last item is not ours to say.
                value = {**value, "metadata": {**value["metadata"], "resourceVersion": None, "hasVersion": True}}
            if value.get("reason") == "Invalid" and isinstance(value.get("details"), Mapping):
                value = _without_words(value)
            plain = {key: self._plain_field(key, item) for key, item in value.items() if self._is_shown(key)}
            # See empty-fields.
            return {key: item for key, item in plain.items() if item not in (None, [], {})}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return self._mask(value) if isinstance(value, str) else value

    def _is_shown(self, key: str) -> bool:
        return key != "managedFields" or self.shows_managers

    def _plain_field(self, key: str, value: Any) -> Any:
        if key == "resourceVersion" and value:
            return self._versions.setdefault(value, f"VERSION-{len(self._versions) + 1}")
        if key == "continue" and value:
            return "TOKEN"
        if key == "managedFields":
            # In order of their times, which may be in one second or in two; for the points: see managed-fields.
            return sorted((_without_points(self.plain(entry)) for entry in value), key=str)
        return self.plain(value)

    def _mask(self, text: str) -> str:
        text = text.replace(self.namespace, "NS")
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"UID-{len(self._uids) + 1}"), text)
        return _TIME.sub("TIME", text)


def _without_words(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a refusal of an object without the words about each field: see words-of-rules."""
    details = status["details"]
    if str(details.get("kind", "")).endswith("Options"):
        return dict(status)
    causes = sorted([cause["reason"], cause["field"]] for cause in details.get("causes") or ())
    head = status["message"].partition(" is invalid: ")[0]
    return {**status, "message": head, "details": {**details, "causes": causes}}


def _without_points(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without_points(item) for key, item in value.items() if key != "."}
