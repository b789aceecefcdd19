"""Claims of scripts: stored in the API server, allocated and reserved, and named by the kubelet's calls."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.embedded.kubelet.plugins import ClaimCall
from claimsmith.kube.client import KubeClient


class ClaimStore:
    """Knows which uid stands for which word of a script.

    Args:
        client: The API server.
        driver: Name of the driver that has the devices.
    """

    def __init__(self, client: KubeClient, driver: str) -> None:
        self._client, self._driver = client, driver
        self._uids: dict[str, str] = {}

    async def store(self, claim: Mapping[str, Any], *, node: str) -> ClaimCall:
        """Store a claim, unless the script has named it before; return how the kubelet names it."""
        if claim["uid"] not in self._uids:
            request = {"deviceClassName": "gpu", "count": len(claim["devices"])}
            metadata = {"name": claim["name"], "namespace": "default"}
            spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
            made = await self._client.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": spec})
            results = [
                {"request": "r", "driver": self._driver, "pool": node, "device": name} for name in claim["devices"]
            ]
            pod = {"resource": "pods", "name": "pod", "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, "pod"))}
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": [pod]}
            await self._client.patch(
                RESOURCE_CLAIM, claim["name"], {"status": status}, namespace="default", subresource="status"
            )
            self._uids[claim["uid"]] = made["metadata"]["uid"]
        return self.call(claim)

    def call(self, claim: Mapping[str, Any]) -> ClaimCall:
        """Return how the kubelet names a claim."""
        return ClaimCall(namespace="default", name=claim["name"], uid=self._uids[claim["uid"]])
