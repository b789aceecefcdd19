"""Objects that the tests create: pods of the one image, claims, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.cluster.image import IMAGE

__all__ = ["SLEEP", "claim", "device_class", "exactly", "pod", "template"]

Manifest = dict[str, Any]

SLEEP: Final = "trap 'exit 0' TERM; sleep 1000000 & wait"
"""A script that goes on until it is told to end, and then ends at once."""


def pod(
    name: str,
    script: str = SLEEP,
    *,
    claims: Sequence[str] | Mapping[str, str] = (),
    limits: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a pod of one container, `main`, that runs a shell script.

    Args:
        claims: Names of ResourceClaims; or, as a mapping, names within the pod and the templates they come from. With
            `CLAIM/REQUEST` the container takes the devices of one request alone.
        limits: Resource limits, such as `{"nvidia.com/gpu": "1"}`.
        spec: Further fields of the spec, or others instead.
    """
    key = "resourceClaimTemplateName" if isinstance(claims, Mapping) else "resourceClaimName"
    given = claims if isinstance(claims, Mapping) else {found: found for found in claims}
    sources = {_claim_of(found): _claim_of(source) for found, source in given.items()}
    resources: Manifest = {"claims": [_taken(found) for found in given]} if given else {}
    if limits:
        resources["limits"] = dict(limits)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            # No test needs a network of its own, and the node has none.
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            # With 0 the object would go before the kubelet has let go of the pod.
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": found, key: source} for found, source in sources.items()],
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                    "resources": resources,
                }
            ],
            **spec,
        },
    }


def _claim_of(taken: str) -> str:
    return taken.partition("/")[0]


def _taken(taken: str) -> Manifest:
    """Return what a container says that it takes: a claim, or one request of it."""
    claim, _, request = taken.partition("/")
    return {"name": claim, **({"request": request} if request else {})}


def device_class(name: str, *expressions: str, **spec: Any) -> Manifest:
    """Return a class of devices that all expressions select."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def exactly(name: str, device_class: str, **fields: Any) -> Manifest:
    """Return a request for devices of one class; one device unless the fields say otherwise."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def claim(name: str, *requests: Manifest, **devices: Any) -> Manifest:
    """Return a claim.

    Args:
        devices: Further fields of `spec.devices`, such as `constraints` or `config`.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def template(name: str, *requests: Manifest, **devices: Any) -> Manifest:
    """Return a template of claims."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": list(requests), **devices}}},
    }
