"""Paths of the API: which kind, object and subresource a request is about.

Source: RequestInfoFactory, k8s.io/apiserver v0.37.2 pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from claimsmith.embedded.api.served import ServedKind, find_served

__all__ = ["Target", "find_target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path of the API names.

    Args:
        served: The kind.
        namespace: Namespace; empty for none or all.
        name: Name of the object; empty for the collection.
        subresource: Such as `status`; empty for the object itself.
    """

    served: ServedKind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def find_target(path: str) -> Target | None:
    """Return what a path names; None if the API has no such path.

    Args:
        path: Such as `/api/v1/namespaces/default/pods/web/status`.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and find_served(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    served = find_served(group, version, rest[0])
    if served is None or len(rest) > 3 or (namespace and not served.kind.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    if name and served.kind.namespaced and not namespace:
        return None
    if subresource and not _has_subresource(served, subresource):
        return None
    return Target(served=served, namespace=namespace, name=name, subresource=subresource)


def _has_subresource(served: ServedKind, name: str) -> bool:
    return (name == "status" and served.kind.has_status) or name in served.subresources
