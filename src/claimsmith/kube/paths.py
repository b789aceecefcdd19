"""Addresses of objects below the API server: pure text."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from claimsmith.api.kinds import Kind

__all__ = ["collection_path", "object_path", "with_query"]


def collection_path(kind: Kind, namespace: str | None = None) -> str:
    """Return the path of all objects of a kind, of one namespace unless it is None or empty.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris.
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced and namespace:
        return f"{root}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
    return f"{root}/{kind.plural}"


def object_path(kind: Kind, name: str, *, namespace: str = "", subresource: str = "") -> str:
    """Return the path of one object, or of a subresource of it."""
    path = f"{collection_path(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def with_query(path: str, query: Mapping[str, str]) -> str:
    """Return the path with those parts of the query that are not empty."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path
