"""Small objects that scripts of requests create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.api_script import Script

__all__ = ["DRIVER", "allocated", "allocation", "claim", "device_class", "pod", "resource_slice", "template"]

Object = dict[str, Any]

DRIVER: Final = "gpu.example.com"
"""Driver of the devices."""


def claim(name: str = "", *, metadata: Mapping[str, Any] | None = None, **request: Any) -> Object:
    """Return a claim for one device; further fields are those of the request."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _metadata(name, metadata),
        "spec": _claim_spec(request),
    }


def template(name: str, **request: Any) -> Object:
    """Return a template of claims for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": {"labels": {"made": "yes"}}, "spec": _claim_spec(request)},
    }


def device_class(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """Return a class."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _metadata(name, metadata),
        "spec": spec,
    }


def resource_slice(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """Return a slice of two devices; further fields replace those of the spec."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _metadata(name, metadata),
        "spec": {
            "driver": DRIVER,
            "nodeName": "node-x",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            **spec,
        },
    }


def pod(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """Return a pod of one container that nobody schedules."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, metadata),
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "example.com/main:1"}],
            **spec,
        },
    }


def allocation(*devices: str, **changes: Any) -> Object:
    """Return an allocation of devices for the request `gpu`."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": "pool", "device": device} for device in devices]
    return {"devices": {"results": results}, **changes}


def allocated(script: Script, name: str, *devices: str, **status: Any) -> Object:
    """Create a claim with devices, of which nothing is noted, and return it."""
    script.make(script.claims, claim(name))
    body = {"status": {"allocation": allocation(*devices), **status}}
    reply = script.quietly("PATCH", f"{script.claims}/{name}/status", body, type="application/merge-patch+json")
    assert reply.status == 200, (script.world.name, reply.body)
    return dict(reply.body)


def _claim_spec(request: Mapping[str, Any]) -> Object:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **request}}]}}


def _metadata(name: str, more: Mapping[str, Any] | None) -> Object:
    return {**({"name": name} if name else {}), **(more or {})}
