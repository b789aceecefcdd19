"""Requests to an API server. Objects are plain dicts, so that no field is lost that this version does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from claimsmith.api.kinds import POD, Kind
from claimsmith.errors import ApiError, ThrottledError
from claimsmith.kube.access import Access, find_access, find_pod_access
from claimsmith.kube.answers import build_error, build_status_error, parse_object
from claimsmith.kube.direct import IDLE_MAX_S, DirectTransport
from claimsmith.kube.paths import collection_path, object_path, with_query
from claimsmith.kube.transport import Answer, Request, Transport
from claimsmith.model.names import PodRef

__all__ = [
    "KubeClient",
    "KubeObject",
    "ObjectList",
    "PatchType",
    "PatchesObjects",
    "Preconditions",
    "WatchEvent",
    "WatchEventType",
]

KubeObject = dict[str, Any]
"""An API object as decoded JSON."""

PatchType = Literal["merge", "strategic", "json"]
WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

_PATCH_MEDIA: Final[Mapping[str, str]] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_THROTTLED_TRIES: Final = 4
_PAGE_SIZE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectList:
    """Objects of one kind at one moment.

    Args:
        items: The objects, as listed; items carry `apiVersion` and `kind` only if the server puts them in.
        resource_version: From which a watch goes on.
    """

    items: list[KubeObject]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; a BOOKMARK has an object with nothing but `metadata.resourceVersion`."""

    type: WatchEventType
    object: KubeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """A deletion happens only if the object still has this uid and version; empty: any."""

    uid: str = ""
    resource_version: str = ""


class PatchesObjects(Protocol):
    """What those need of a client who change parts of objects."""

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: dict[str, Any],
        *,
        namespace: str = "",
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> KubeObject:
        """Change parts of an object (see `KubeClient.patch`)."""
        ...


class KubeClient:
    """One API server, as one user.

    Every method raises a subclass of `ApiError`: `NotFoundError`, `AlreadyExistsError`, `ConflictError`, `GoneError`,
    `ForbiddenError`, `InvalidObjectError`, `ThrottledError` (after retries), or `UnreachableError`, after which a
    write may or may not have been done.

    Args:
        transport: The way to the server.
        field_manager: Name under which the server records whose fields are whose.
        timeout_s: Seconds until an answer must be there.
        namespace: Namespace of the kubeconfig's context, for callers that let people leave it out.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "claimsmith",
        timeout_s: float = 30.0,
        namespace: str = "default",
    ) -> None:
        self._transport = transport
        self._field_manager, self._timeout_s = field_manager, timeout_s
        self.namespace = namespace

    @classmethod
    def for_url(cls, url: str, *, field_manager: str = "claimsmith", timeout_s: float = 30.0) -> KubeClient:
        """Return a client for plain HTTP without login, such as the embedded API server's.

        Raises:
            KubeconfigError: The address is not `http://host:port`.
        """
        return cls(DirectTransport(url), field_manager=field_manager, timeout_s=timeout_s)

    @classmethod
    def from_kubeconfig(
        cls, path: Path, *, context: str | None = None, field_manager: str = "claimsmith", timeout_s: float = 30.0
    ) -> KubeClient:
        """Return a client for one context of a kubeconfig; the current one without a name.

        Raises:
            KubeconfigError: The file can't be read or used.
        """
        if (access := find_access(path, context=context)) is not None:
            return cls._for_access(access, field_manager, timeout_s)
        from claimsmith.kube.configured import ConfiguredTransport, parse_kubeconfig

        transport = ConfiguredTransport(parse_kubeconfig(path, context=context))
        return cls(transport, field_manager=field_manager, timeout_s=timeout_s, namespace=transport.namespace)

    @classmethod
    def from_pod(cls, *, field_manager: str = "claimsmith", timeout_s: float = 30.0) -> KubeClient:
        """Return a client for the cluster in which this process is a pod.

        Raises:
            KubeconfigError: This process does not run in a pod with a service account.
        """
        if (access := find_pod_access()) is not None:
            return cls._for_access(access, field_manager, timeout_s)
        from claimsmith.kube.configured import ConfiguredTransport, parse_in_cluster

        transport = ConfiguredTransport(parse_in_cluster())
        return cls(transport, field_manager=field_manager, timeout_s=timeout_s, namespace=transport.namespace)

    @classmethod
    def _for_access(cls, access: Access, field_manager: str, timeout_s: float) -> KubeClient:
        transport = DirectTransport(access, idle_max_s=IDLE_MAX_S)
        return cls(transport, field_manager=field_manager, timeout_s=timeout_s, namespace=access.namespace)

    def for_manager(self, field_manager: str) -> KubeClient:
        """Return a client under another field manager on the same connections."""
        return KubeClient(
            self._transport, field_manager=field_manager, timeout_s=self._timeout_s, namespace=self.namespace
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def fetch(self, path: str) -> Answer:
        """Return the answer to a GET of what is no object, such as `/version`, if it is a success.

        Raises:
            ApiError: The server refused, or could not be reached.
        """
        answer = await self._transport.send(Request(method="GET", target=path, timeout_s=self._timeout_s))
        if not 200 <= answer.status < 300:
            raise build_error(answer, f"GET {path}")
        return answer

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""
        return await self._call("GET", object_path(kind, name, namespace=namespace))

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        limit: int = _PAGE_SIZE,
    ) -> ObjectList:
        """Return all objects of a kind, of one namespace or (None) of all.

        Args:
            resource_version: Empty: the newest state; `0`: what the server has at hand.
            limit: Objects per page; the pages are put together. 0: one page.
        """
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "limit": str(limit) if limit and resource_version != "0" else "",
        }
        items: list[KubeObject] = []
        while True:
            page = await self._call("GET", with_query(collection_path(kind, namespace), query))
            items.extend(page.get("items") or ())
            metadata = page.get("metadata") or {}
            query["continue"] = metadata.get("continue") or ""
            if not query["continue"]:
                return ObjectList(items=items, resource_version=str(metadata.get("resourceVersion") or ""))
            query["resourceVersion"] = ""

    async def create(self, kind: Kind, obj: Mapping[str, Any], *, namespace: str = "") -> KubeObject:
        """Create an object and return it as stored; the namespace is taken from the object unless given."""
        path = collection_path(kind, namespace or _find_metadata(obj, "namespace"))
        return await self._call("POST", self._managed(path), obj)

    async def update(self, kind: Kind, obj: Mapping[str, Any], *, subresource: str = "") -> KubeObject:
        """Replace an object; only for objects read as dicts, which hold every field, with their resourceVersion."""
        return await self._call("PUT", self._managed(_path_of(kind, obj, subresource)), obj)

    async def update_status(self, kind: Kind, obj: Mapping[str, Any]) -> KubeObject:
        """Replace the status of an object."""
        return await self.update(kind, obj, subresource="status")

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = "",
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> KubeObject:
        """Change parts of an object; a resourceVersion in a merge patch makes a concurrent change a conflict."""
        path = object_path(kind, name, namespace=namespace, subresource=subresource)
        return await self._call("PATCH", self._managed(path), patch, media=_PATCH_MEDIA[patch_type])

    async def apply(
        self,
        kind: Kind,
        obj: Mapping[str, Any],
        *,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        """Apply an object on the server: create it, or change the fields of this manager; `force` takes others'."""
        query = {"fieldManager": field_manager or self._field_manager, "force": "true" if force else ""}
        path = with_query(_path_of(kind, obj, subresource), query)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        return await self._call("PATCH", path, body, media=_PATCH_MEDIA["apply"])

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        preconditions: Preconditions | None = None,
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> KubeObject:
        """Delete an object; returns the object while finalizers or its grace period keep it, else a Status.

        Args:
            preconditions: Delete only this very object.
            grace_period_s: Seconds that a pod gets to end; None: its own.
            propagation: Background, Foreground or Orphan; empty: the server's default.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if propagation:
            options["propagationPolicy"] = propagation
        if preconditions is not None:
            wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
            options["preconditions"] = {key: value for key, value in wanted.items() if value}
        return await self._call("DELETE", object_path(kind, name, namespace=namespace), options)

    async def watch(  # noqa: PLR0913 - the parameters of the API, and who hears of its beginning
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_s: int = 300,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes after a resourceVersion, with bookmarks, until the server ends the watch.

        Args:
            timeout_s: Seconds after which the server is to end the watch; a connection that is silent for longer
                counts as broken.
            on_open: Called when the server has taken the watch, however long nothing changes then.

        Raises:
            GoneError: The resourceVersion is too old: list again.
            UnreachableError: The connection broke or stayed silent.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
        }
        path = collection_path(kind, namespace)
        request = Request(method="GET", target=with_query(path, query), timeout_s=timeout_s + 10.0, on_open=on_open)
        async with aclosing(self._transport.stream(request)) as lines:
            async for line in lines:
                if isinstance(line, Answer):
                    raise build_error(line, f"watch of {path}")
                yield _parse_event(line, f"watch of {path}")

    async def bind(self, pod: PodRef, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node; with its uid, only that very pod. Source: Binding of core/v1."""
        metadata = {"name": pod.name, "namespace": pod.namespace, **({"uid": uid} if uid else {})}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = object_path(POD, pod.name, namespace=pod.namespace, subresource="binding")
        await self._call("POST", self._managed(path), body)

    async def evict(self, pod: PodRef, *, uid: str = "", grace_period_s: int | None = None) -> None:
        """Ask for a pod to end, which disruption budgets may refuse (`ThrottledError`). Source: policy/v1 Eviction."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        path = object_path(POD, pod.name, namespace=pod.namespace, subresource="eviction")
        await self._send(Request(method="POST", target=path, body=_encode(body), timeout_s=self._timeout_s))

    async def _call(
        self, method: str, target: str, body: object = None, *, media: str = "application/json"
    ) -> KubeObject:
        """Send, and wait as long as the server asks for when it is busy."""
        data = b"" if body is None else _encode(body)
        request = Request(method=method, target=target, body=data, content_type=media, timeout_s=self._timeout_s)
        for _ in range(_THROTTLED_TRIES - 1):
            try:
                return await self._send(request)
            except ThrottledError as error:
                await asyncio.sleep(error.retry_after_s)
        return await self._send(request)

    async def _send(self, request: Request) -> KubeObject:
        answer = await self._transport.send(request)
        return parse_object(answer, f"{request.method} {request.target.partition('?')[0]}")

    def _managed(self, path: str) -> str:
        return with_query(path, {"fieldManager": self._field_manager})


def _encode(body: object) -> bytes:
    return msgspec.json.encode(body)


def _find_metadata(obj: Mapping[str, Any], name: str) -> str:
    metadata = obj.get("metadata") or {}
    return str(metadata.get(name) or "")


def _path_of(kind: Kind, obj: Mapping[str, Any], subresource: str) -> str:
    name, namespace = _find_metadata(obj, "name"), _find_metadata(obj, "namespace")
    return object_path(kind, name, namespace=namespace, subresource=subresource)


def _parse_event(line: bytes, what: str) -> WatchEvent:
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ApiError(
            f"{what}: found a line that is no JSON object ({error}), allowed watch events; watch again"
        ) from error
    obj = event.get("object")
    obj = obj if isinstance(obj, dict) else {}
    if event.get("type") == "ERROR":
        raise build_status_error(obj, what)
    if event.get("type") not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise ApiError(
            f"{what}: found an event of type {event.get('type')!r}, allowed ADDED, MODIFIED, DELETED, BOOKMARK; "
            "watch again"
        )
    return WatchEvent(event["type"], obj)
