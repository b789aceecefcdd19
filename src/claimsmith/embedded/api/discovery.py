"""Which groups, versions and resources there are, in every form that clients ask for.

Source: KEP-3352 (aggregated discovery); k8s.io/api v0.37.2 apidiscovery.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from claimsmith.api.kinds import iter_group_versions
from claimsmith.embedded.api.accept import iter_clauses, not_acceptable
from claimsmith.embedded.api.http import Answer, json_answer
from claimsmith.embedded.api.served import SERVED, ServedKind
from claimsmith.embedded.store_records import encode_json

__all__ = ["SERVER_VERSION", "find_discovery", "is_any_method", "is_in_group"]

SERVER_VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2+claimsmith",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""Answer to `/version`: the release whose API is served."""

_Subresource = tuple[str, str, str, str, tuple[str, ...]]
"""Name; group, version and kind of what it takes or gives; verbs."""

_AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"
_AGGREGATED_VERSION: Final = "v2"
_AGGREGATED: Final = f"application/json;g={_AGGREGATED_GROUP};v={_AGGREGATED_VERSION};as=APIGroupDiscoveryList"
_SUBRESOURCE_TYPES: Final[dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "log": ("", "v1", "Pod", ("get",)),
    "finalize": ("", "v1", "Namespace", ("update",)),
}


def find_discovery(path: str, accept: str) -> Answer | None:
    """Return the answer to a discovery request; None if the path is no such request.

    Args:
        path: Such as `/apis` or `/apis/resource.k8s.io/v1`.
        accept: The `Accept` header.
    """
    parts = path.strip("/").split("/")
    if parts in (["api"], ["apis"]):
        if _takes_aggregated(accept):
            return _aggregated(parts[0])
        return json_answer(_core_versions() if parts == ["api"] else _group_list())
    if parts[0] == "api" and len(parts) == 2:
        return _resource_list("", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        group = _group(parts[1])
        return json_answer({"kind": "APIGroup", "apiVersion": "v1", **group}) if group else None
    if parts[0] == "apis" and len(parts) == 3:
        return _resource_list(parts[1], parts[2])
    return None


def is_any_method(path: str) -> bool:
    """Tell whether a path is answered alike whatever the method: those that an aggregating server answers by itself.

    Source: apisHandler and apiGroupHandler of k8s.io/kube-aggregator v0.37.2 pkg/apiserver.
    """
    parts = path.strip("/").split("/")
    return parts[0] == "apis" and len(parts) <= 2


def is_in_group(path: str) -> bool:
    """Tell whether a path is below a group that is served, so that what is unknown is told as a Status."""
    parts = [*path.strip("/").split("/"), ""]
    return parts[0] == "api" or (parts[0] == "apis" and _group(parts[1]) is not None)


def _takes_aggregated(accept: str) -> bool:
    """Tell whether the client takes aggregated discovery; else it takes the plain form.

    Raises:
        RequestError: 406, the client takes neither.
    """
    takes_plain = False
    for media, values in iter_clauses(accept):
        if media == "application/json" and (values.get("g"), values.get("v")) == (
            _AGGREGATED_GROUP,
            _AGGREGATED_VERSION,
        ):
            return True
        takes_plain |= "as" not in values
    if not takes_plain:
        raise not_acceptable()
    return False


@lru_cache(maxsize=8)
def _aggregated(root: str) -> Answer:
    groups = {group: None for group, _ in iter_group_versions() if (root == "api") == (group == "")}
    items = [_aggregated_group(group) for group in groups]
    value = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_AGGREGATED_GROUP}/{_AGGREGATED_VERSION}",
        "metadata": {},
        "items": items,
    }
    return Answer(body=encode_json(value), content_type=_AGGREGATED, headers={"Vary": "Accept"})


def _aggregated_group(group: str) -> dict[str, Any]:
    versions = [
        {
            "version": version,
            "resources": [_aggregated_resource(served) for served in _kinds_of(group, version)],
            "freshness": "Current",
        }
        for found, version in iter_group_versions()
        if found == group
    ]
    metadata = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
    return {"metadata": metadata, "versions": versions}


def _aggregated_resource(served: ServedKind) -> dict[str, Any]:
    kind = served.kind
    # A group and a version that are those of the list are left out, as in the plain form.
    value: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        value["shortNames"] = list(kind.short_names)
    if kind.categories:
        value["categories"] = list(kind.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": {**_foreign_version(served, group, version), "kind": answer},
            "verbs": list(verbs),
        }
        for name, group, version, answer, verbs in _subresources(served)
    ]
    return {**value, "subresources": subresources} if subresources else value


def _foreign_version(served: ServedKind, group: str, version: str) -> dict[str, str]:
    is_own = (group, version) == (served.kind.group, served.kind.version)
    return {"group": "", "version": ""} if is_own else {"group": group, "version": version}


def _subresources(served: ServedKind) -> list[_Subresource]:
    kind = served.kind
    found: list[_Subresource] = [(name, *_SUBRESOURCE_TYPES[name]) for name in served.subresources]
    if kind.has_status:
        found.append(("status", kind.group, kind.version, kind.kind, ("get", "patch", "update")))
    return sorted(found)


@lru_cache(maxsize=64)
def _resource_list(group: str, version: str) -> Answer | None:
    kinds = _kinds_of(group, version)
    if not kinds:
        return None
    resources: list[dict[str, Any]] = []
    for served in kinds:
        kind = served.kind
        entry = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
        entry |= {"verbs": list(kind.verbs), "shortNames": list(kind.short_names), "categories": list(kind.categories)}
        resources.append({key: value for key, value in entry.items() if value not in ([], ())})
        for name, answer_group, answer_version, answer, verbs in _subresources(served):
            sub = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "kind": answer}
            if (answer_group, answer_version) != (group, version):
                sub |= {"group": answer_group, "version": answer_version}
            resources.append({**sub, "verbs": list(verbs)})
    api_version = f"{group}/{version}" if group else version
    value = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}
    return json_answer(value)


def _kinds_of(group: str, version: str) -> list[ServedKind]:
    return [served for served in SERVED if (served.kind.group, served.kind.version) == (group, version)]


def _core_versions() -> dict[str, Any]:
    versions = [version for group, version in iter_group_versions() if not group]
    return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []}


def _group_list() -> dict[str, Any]:
    names = dict.fromkeys(group for group, _ in iter_group_versions() if group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def _group(name: str) -> dict[str, Any] | None:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for group, version in iter_group_versions()
        if group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]} if versions and name else None
