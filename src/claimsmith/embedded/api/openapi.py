"""OpenAPI documents: version 3 per group and version, and version 2 as one document.

Source: KEP-2896 (OpenAPI v3); k8s.io/kubernetes v1.37.2 api/openapi-spec.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final

from claimsmith.api.kinds import iter_group_versions
from claimsmith.embedded.api.discovery import SERVER_VERSION
from claimsmith.embedded.api.http import JSON_TYPE, Answer, json_answer
from claimsmith.embedded.api.openapi_protobuf import OPENAPI_PROTOBUF_TYPE, encode_document, takes_protobuf
from claimsmith.embedded.api.openapi_schemas import build_schemas
from claimsmith.embedded.api.served import SERVED, ServedKind
from claimsmith.embedded.store_records import encode_json
from claimsmith.errors import RequestError

__all__ = ["find_openapi"]

_V3_PREFIX: Final = "#/components/schemas/"
_V2_PREFIX: Final = "#/definitions/"
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETE_PARAMETERS: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_METHODS: Final = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_BOOLEANS: Final = frozenset({"allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch"})
_INTEGERS: Final = frozenset({"gracePeriodSeconds", "limit", "timeoutSeconds"})


def find_openapi(path: str, accept: str) -> Answer | None:
    """Return an OpenAPI document; None if the path is no such request.

    Args:
        path: Such as `/openapi/v3/apis/resource.k8s.io/v1`.
        accept: The `Accept` header.

    Raises:
        RequestError: 406, the client takes version 2 neither as JSON nor as protobuf.
    """
    if path.rstrip("/") == "/openapi/v3":
        return json_answer(_index())
    if path.startswith("/openapi/v3/"):
        found = _documents().get(path.removeprefix("/openapi/v3/").rstrip("/"))
        return None if found is None else Answer(body=found, headers={"Vary": "Accept"})
    if path.rstrip("/") == "/openapi/v2":
        return _answer_v2(accept)
    return None


def _answer_v2(accept: str) -> Answer:
    headers = {"Vary": "Accept"}
    if takes_protobuf(accept):
        return Answer(body=_document_v2_protobuf(), content_type=OPENAPI_PROTOBUF_TYPE, headers=headers)
    if "json" not in accept and "*/*" not in accept and accept:
        allowed = f"application/json, {OPENAPI_PROTOBUF_TYPE}"
        raise RequestError(406, "NotAcceptable", f"only the following media types are accepted: {allowed}")
    return Answer(body=encode_json(_document_v2()), headers=headers)


def _index() -> dict[str, Any]:
    paths = {
        name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={hashlib.sha256(body).hexdigest().upper()}"}
        for name, body in _documents().items()
    }
    return {"paths": paths}


@lru_cache(maxsize=1)
def _documents() -> dict[str, bytes]:
    """Return the documents of all groups and versions by their path, such as `apis/resource.k8s.io/v1`."""
    documents = {}
    for group, version in iter_group_versions():
        kinds = [served for served in SERVED if (served.kind.group, served.kind.version) == (group, version)]
        paths: dict[str, Any] = {}
        for served in kinds:
            paths |= _paths(served)
        documents[_root(group, version)] = encode_json(
            {
                "openapi": "3.0.0",
                "info": _info(),
                "paths": paths,
                "components": {"schemas": build_schemas(kinds, prefix=_V3_PREFIX)},
            }
        )
    return documents


@lru_cache(maxsize=1)
def _document_v2() -> dict[str, Any]:
    definitions = build_schemas(SERVED, prefix=_V2_PREFIX)
    return {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": definitions}


@lru_cache(maxsize=1)
def _document_v2_protobuf() -> bytes:
    return encode_document(_document_v2())


def _info() -> dict[str, str]:
    return {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]}


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _paths(served: ServedKind) -> dict[str, Any]:
    kind = served.kind
    scope = "namespaces/{namespace}/" if kind.namespaced else ""
    base = f"/{_root(kind.group, kind.version)}/"
    collection, item = f"{base}{scope}{kind.plural}", f"{base}{scope}{kind.plural}/{{name}}"
    paths: dict[str, Any] = {collection: _collection(served)}
    if kind.namespaced and kind.is_listable:
        paths[f"{base}{kind.plural}"] = {"get": _operation(served, "list", _LIST_PARAMETERS)}
    methods = {_METHODS[verb]: _object_operation(served, verb) for verb in kind.verbs if verb in _METHODS}
    if methods:
        paths[item] = methods
    if kind.has_status:
        verbs = ("get", "update", "patch")
        paths[f"{item}/status"] = {_METHODS[verb]: _object_operation(served, verb) for verb in verbs}
    return paths


def _collection(served: ServedKind) -> dict[str, Any]:
    found = {"post": _body(served, _operation(served, "post", _WRITE_PARAMETERS))}
    if served.kind.is_listable:
        found["get"] = _operation(served, "list", _LIST_PARAMETERS)
        found["delete"] = _operation(served, "deletecollection", (*_DELETE_PARAMETERS, *_LIST_PARAMETERS))
    return found


def _object_operation(served: ServedKind, verb: str) -> dict[str, Any]:
    if verb == "patch":
        operation = _operation(served, "patch", (*_WRITE_PARAMETERS, "force"))
        content = {media: {"schema": {"type": "object"}} for media in _PATCH_TYPES}
        return {**operation, "requestBody": {"content": content, "required": True}}
    if verb == "update":
        return _body(served, _operation(served, "put", _WRITE_PARAMETERS))
    return _operation(served, verb, _DELETE_PARAMETERS if verb == "delete" else ())


def _operation(served: ServedKind, action: str, parameters: tuple[str, ...]) -> dict[str, Any]:
    kind = served.kind
    answer = {"schema": {"$ref": _V3_PREFIX + served.wire_type.__openapi_name__}}
    return {
        "operationId": f"{action}{kind.group.split('.')[0].title()}{kind.version.title()}{kind.kind}",
        "parameters": [_parameter(name) for name in sorted(parameters)],
        "responses": {"200": {"description": "OK", "content": {JSON_TYPE: answer}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }


def _body(served: ServedKind, operation: dict[str, Any]) -> dict[str, Any]:
    schema = {"schema": {"$ref": _V3_PREFIX + served.wire_type.__openapi_name__}}
    return {**operation, "requestBody": {"content": {"*/*": schema}, "required": True}}


def _parameter(name: str) -> dict[str, Any]:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
