"""Where kubelets hear of their pods: one reflector for all nodes of a process, so that a pod is decoded once.

Deviates: known-claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from claimsmith.api.kinds import POD
from claimsmith.kube.reflector import ListWatch, Reflector, Selection

__all__ = ["PodDispatcher", "PodHandler", "PodSource", "bound_pods"]

JsonObject = Mapping[str, Any]
PodHandler = Callable[[JsonObject | None, JsonObject | None], None]
"""Gets a pod of the node before and after a change; None before it was there, and after it is gone."""


class PodSource(Protocol):
    """Tells kubelets of pods that are bound to their nodes."""

    def attach(self, node_name: str, handler: PodHandler) -> None:
        """Call the handler for all pods of a node, and from now on for every change."""
        ...

    def detach(self, node_name: str) -> None:
        """Call the handler of a node no more."""
        ...

    async def wait_synced(self) -> None:
        """Return once all pods that were there at the start have been told."""
        ...


def bound_pods(client: ListWatch) -> Reflector[dict[str, Any]]:
    """Return a reflector of the pods that are bound to any node; the caller runs it."""
    return Reflector(client, POD, lambda pod: pod, selection=Selection(field_selector="spec.nodeName!="))


class PodDispatcher:
    """Hands the pods of one reflector to the kubelets of their nodes."""

    def __init__(self, reflector: Reflector[dict[str, Any]]) -> None:
        self._reflector = reflector
        self._handlers: dict[str, PodHandler] = {}
        reflector.subscribe(self._dispatch)

    def attach(self, node_name: str, handler: PodHandler) -> None:
        """Call the handler for all pods of a node, and from now on for every change."""
        self._handlers[node_name] = handler
        for pod in self._reflector:
            if _node_of(pod) == node_name:
                handler(None, pod)

    def detach(self, node_name: str) -> None:
        """Call the handler of a node no more."""
        self._handlers.pop(node_name, None)

    async def wait_synced(self) -> None:
        """Return once all pods that were there at the start have been told."""
        await self._reflector.wait_synced()

    def _dispatch(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is not None and new is not None and _uid_of(old) != _uid_of(new):
            self._dispatch(old, None)
            old = None
        handler = self._handlers.get(_node_of(new or old or {}))
        if handler is not None:
            handler(old, new)


def _node_of(pod: JsonObject) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _uid_of(pod: JsonObject) -> str:
    return str((pod.get("metadata") or {}).get("uid") or "")
