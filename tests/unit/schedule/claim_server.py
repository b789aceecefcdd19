"""A server of claims that applies merge patches under resourceVersion preconditions, and lets others interfere."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from claimsmith.api.kinds import Kind
from claimsmith.api.resource import encode_resource_claim, parse_resource_claim
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import Preconditions
from claimsmith.model.claim import ResourceClaim

Interference = Callable[[dict[str, Any]], None]


class ClaimServer:
    """Keeps claims; `interfere` holds changes by others, one for each coming write, made just before it."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.interfere: list[Interference] = []
        self.writes: list[str] = []
        self._version = 100
        for claim in claims:
            self._store(encode_resource_claim(claim))

    def claim(self, name: str = "claim") -> ResourceClaim:
        return parse_resource_claim(copy.deepcopy(self.objects[name]))

    def _store(self, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self.objects[obj["metadata"]["name"]] = obj
        return copy.deepcopy(obj)

    def _find(self, name: str) -> dict[str, Any]:
        if name not in self.objects:
            raise NotFoundError(f"no claim {name}", status=404)
        return self.objects[name]

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        return copy.deepcopy(self._find(name))

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        self.writes.append("create")
        made = copy.deepcopy(obj)
        made["metadata"].setdefault("name", f"{obj['metadata'].get('generateName', '')}x1")
        made["metadata"]["uid"] = f"uid-{made['metadata']['name']}"
        return self._store(made)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str = "", preconditions: Preconditions | None = None
    ) -> dict[str, Any]:
        found = self._find(name)
        if preconditions and preconditions.uid != found["metadata"]["uid"]:
            raise ConflictError("another uid", status=409)
        self.writes.append("delete")
        return self.objects.pop(name)

    async def patch(
        self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> dict[str, Any]:
        if self.interfere:
            change = self.interfere.pop(0)
            obj = self._find(name)
            change(obj)
            if name in self.objects:
                self._store(obj)
        found = self._find(name)
        wanted = patch["metadata"]
        if wanted["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ConflictError("changed", status=409, reason="Conflict")
        self.writes.append(subresource or "spec")
        merged = merge(found, patch)
        return self._store(merged)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
