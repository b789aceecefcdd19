"""What API servers are asked before objects: which resources there are, in which forms, by which methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from claimsmith.embedded.api.served import SERVED
from tests.cluster.api_objects import claim, pod
from tests.cluster.api_script import Script

__all__ = ["BEHAVIOURS"]

_VERSIONS: Final = ("api/v1", "apis/coordination.k8s.io/v1", "apis/resource.k8s.io/v1", "apis/scheduling.k8s.io/v1")
"""Those that a real server has by default, of those that the embedded one has."""
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PARTIAL: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def _known() -> frozenset[str]:
    """Return the resources and subresources that the embedded server has: the real one has others besides."""
    found = set()
    for served in SERVED:
        name = f"{served.kind.group}/{served.kind.version}/{served.kind.plural}"
        found |= {name, *(f"{name}/{part}" for part in served.subresources)}
        found |= {f"{name}/status"} if served.kind.has_status else set()
    return frozenset(found)


_KNOWN: Final = _known()


def versions_of_the_core_group(script: Script) -> None:
    """The plain form; addresses of servers are nobody's affair."""
    body = script.quietly("GET", "/api").body
    script.note("/api", [body["kind"], body["versions"]])


def groups(script: Script) -> None:
    """A group by itself and in the list; the real server has others besides."""
    wanted = ("coordination.k8s.io", "resource.k8s.io")
    body = script.quietly("GET", "/apis").body
    listed = {group["name"]: _plain_group(group) for group in body["groups"] if group["name"] in wanted}
    script.note("/apis", [body["kind"], body["apiVersion"], listed])
    for name in wanted:
        found = script.quietly("GET", f"/apis/{name}").body
        script.note(name, [found["kind"], found["apiVersion"], _plain_group(found)])
    for path in (
        "/apis/nothing.example.com", "/apis/nothing.example.com/v1/things", "/apis/resource.k8s.io/v9", "/api/v9",
        "/apis/resource.k8s.io/v9/things", "/api/v1/nothings", "/api/v9/things", "/nothing/else",
    ):  # fmt: skip
        script.ask("GET", path)


def _plain_group(group: Mapping[str, Any]) -> Any:
    """Return a group with its preferred version: which older ones are served is the operator's choice."""
    return [group["name"], group["preferredVersion"], group["preferredVersion"] in group["versions"]]


def resources(script: Script) -> None:
    """What each version has: names, kinds, verbs, short names, categories, subresources."""
    for path in _VERSIONS:
        body = script.quietly("GET", f"/{path}").body
        version = body["groupVersion"]
        prefix = version if "/" in version else f"/{version}"
        known = [item for item in body["resources"] if f"{prefix}/{item['name']}" in _KNOWN]
        # Which version is stored can't be told by what others would make of it.
        plain = [{key: item[key] for key in sorted(item) if key != "storageVersionHash"} for item in known]
        script.note(path, [body["kind"], sorted(plain, key=lambda item: str(item["name"]))])


def aggregated_discovery(script: Script) -> None:
    """All versions at once, as kubectl and controllers ask for it, and what they get from servers without it."""
    v2, beta = _AGGREGATED.format("v2"), _AGGREGATED.format("v2beta1")
    binary = v2.replace("application/json", _PROTOBUF)
    for accept in (f"{v2},{beta},application/json", f"{beta},application/json", v2, f"{_AGGREGATED.format('v9')}"):
        _aggregated(script, accept)
    for accept in ("application/json", f"application/json,{v2}", ""):
        reply = script.quietly("GET", "/api", accept=accept)
        script.note(accept, [reply.status, reply.headers["content-type"], reply.body["kind"]])
    for accept in (f"{binary},{v2}",):
        reply = script.quietly("GET", "/api", accept=accept)
        script.note(accept, reply.status)


def _aggregated(script: Script, accept: str) -> None:
    for root in ("/api", "/apis"):
        reply = script.quietly("GET", root, accept=accept)
        if reply.status != 200 or "items" not in reply.body:
            script.note(f"{root} {accept}", [reply.status, reply.headers["content-type"]])
            continue
        found = [
            _plain_resource(group["metadata"].get("name", ""), version["version"], item)
            for group in reply.body["items"]
            for version in group["versions"]
            for item in version["resources"]
            if f"{root}/{group['metadata'].get('name', '')}/{version['version']}".replace("//", "/")
            in {f"/{path}" for path in _VERSIONS}
        ]
        known = sorted((item for item in found if item is not None), key=str)
        head = [reply.headers["content-type"], reply.body["kind"], reply.body["apiVersion"]]
        script.note(f"{root} {accept}", [*head, known])


def _plain_resource(group: str, version: str, item: Mapping[str, Any]) -> Any:
    name = f"{group}/{version}/{item['resource']}"
    if name not in _KNOWN:
        return None
    subresources = [sub for sub in item.get("subresources") or () if f"{name}/{sub['subresource']}" in _KNOWN]
    kept = {key: value for key, value in item.items() if key != "subresources"}
    return [name, kept, sorted(subresources, key=lambda sub: str(sub["subresource"]))]


def accepted_forms(script: Script) -> None:
    """The forms in which clients may ask for an object, a list and a watch, and those that nobody gives."""
    script.make(script.claims, claim("c"))
    for accept in (
        "", "*/*", "application/*", "application/json", "application/yaml", "text/html", "text/*", "nonsense",
        "application/json;q=0.1", "text/html, application/json", "text/html,*/*;q=0.8",
        "application/json;charset=utf-8",
        "APPLICATION/JSON", f"{_PROTOBUF},application/json;q=0.5", "application/xml;q=0.9,application/yaml",
        "application/json;stream=watch", "application/json;as=Nothing;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io", "application/json;as=Table;v=v1;g=other.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "application/json;as=Table",
        "application/json,application/json;as=Table;v=v1;g=meta.k8s.io", "*/*,application/yaml",
        "application/json;q=0.2,application/yaml", "application/yaml;q=0.2,*/*;q=0.1",
        "application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    ):  # fmt: skip
        for path in (script.claims, f"{script.claims}/c"):
            reply = script.quietly("GET", path, accept=accept)
            # Clients that prefer protobuf take JSON too: see protobuf.
            seen = None if accept.startswith(_PROTOBUF) else [reply.headers["content-type"], _find_kind(reply.body)]
            script.note(f"{path} {accept!r}", [reply.status, seen])
    for accept in ("text/html", "application/json;as=Nothing;v=v1;g=meta.k8s.io"):
        body = script.quietly("GET", f"{script.claims}/c", accept=accept).body
        script.note(accept, script.plain({**body, "message": body["message"].removesuffix(f", {_PROTOBUF}")}))


def _find_kind(body: Any) -> Any:
    return [body.get("apiVersion"), body.get("kind")] if isinstance(body, Mapping) else type(body).__name__


def forms_of_watches(script: Script) -> None:
    """Tables and metadata as they change."""
    script.make(script.claims, claim("c", metadata={"labels": {"a": "1"}}))
    for accept in (_TABLE, _PARTIAL, f"{_TABLE},application/json"):
        kinds = []
        for event in _events(script, accept):
            found = event["object"]
            rows = [row["object"]["kind"] for row in found.get("rows") or ()]
            kinds.append([event["type"], found["kind"], found["apiVersion"], sorted(found), rows])
        script.note(accept, kinds)
    reply = script.world.watch(f"{script.claims}?watch=1&timeoutSeconds=1", {"Accept": "text/html"})
    script.note("text/html", reply.status)


def _events(script: Script, accept: str = "application/json", **query: Any) -> list[Any]:
    """Return the events of a watch that lasts a second."""
    target = script.target(script.claims, watch=1, timeoutSeconds=1, **query)
    body = script.world.watch(target, {"Accept": accept}).body
    return body if isinstance(body, list) else [body]


def forms_of_rows(script: Script) -> None:
    """What rows of a table carry: metadata, the object, or nothing."""
    script.make(script.claims, claim("c"))
    for choice in ("", "None", "Metadata", "Object", "Nothing"):
        query = {"includeObject": choice} if choice else {}
        reply = script.quietly("GET", f"{script.claims}/c", accept=_TABLE, **query)
        rows = [_find_kind(row.get("object")) for row in reply.body.get("rows") or ()]
        script.note(choice, [reply.status, rows, reply.body.get("message")])


def methods(script: Script) -> None:
    """Every method on every kind of path: what is allowed, and what a refusal says."""
    script.make(script.claims, claim("c"))
    script.make(script.pods, pod("p"))
    group = "/apis/resource.k8s.io"
    paths = (
        script.claims, f"{script.claims}/c", f"{script.claims}/c/status", f"{script.claims}/c/nothing", script.slices,
        f"{script.pods}/p/binding", f"{script.pods}/p/eviction", f"{script.pods}/p/status",
        f"{group}/v1/resourceclaims", f"{group}/v1/nothing", f"{group}/v1", group, "/api", "/apis", "/version",
        "/nothing",
        f"/api/v1/namespaces/{script.namespace}/bindings", f"/api/v1/namespaces/{script.namespace}/status",
    )  # fmt: skip
    for path in paths:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            if _is_done(method, path, script):
                continue
            reply = script.quietly(method, path, {} if method in ("POST", "PUT") else None)
            body = script.plain(reply.body) if isinstance(reply.body, Mapping) else None
            if reply.status == 200 and path.startswith("/apis"):
                body = _find_kind(body)
            script.note(f"{method} {path}", [reply.status, reply.headers.get("allow"), body])
        reply = script.quietly("PATCH", path, {}, type="application/json")
        script.note(f"PATCH {path}", [reply.status, reply.headers.get("allow"), _find_reason(reply.body)])
    for path in (script.claims, f"{script.claims}/c", f"{script.claims}/missing", "/version", "/apis", "/nothing"):
        reply = script.quietly("HEAD", path)
        script.note(f"HEAD {path}", [reply.status, reply.body])


def _is_done(method: str, path: str, script: Script) -> bool:
    """Tell whether a request would do something that other behaviours tell of."""
    objects = (script.claims, script.slices, script.pods)
    return (
        path.startswith(objects)
        and method in ("DELETE", "POST", "PUT")
        and not path.endswith("/nothing")
        and not (method == "PUT" and path in objects)
        and not (method == "POST" and path.endswith(("/c", "/status")))
        and not path.endswith(("binding", "eviction"))
    )


def _find_reason(body: Any) -> Any:
    return [body.get("reason"), body.get("code")] if isinstance(body, Mapping) else None


def a_watch_from_a_version_that_is_gone(script: Script) -> None:
    """Who resumes after too long gets 410 in the stream, lists again, and goes on from there."""
    script.make(script.claims, claim("a"))
    script.world.forget()
    since = script.make(script.claims, claim("b"))["metadata"]["resourceVersion"]
    for query in ({}, {"allowWatchBookmarks": "true"}, {"fieldSelector": "metadata.name=a"}):
        (event,) = _events(script, resourceVersion="1", **query)
        found = event["object"]
        # The versions that the message names are the server's own.
        message = found["message"].partition(":")[0]
        script.note(str(query), [event["type"], found["reason"], found["code"], found["kind"], message])
    listed = script.quietly("GET", script.claims)
    script.note("names", [item["metadata"]["name"] for item in listed.body["items"]])
    script.watch(script.claims, resourceVersion=listed.body["metadata"]["resourceVersion"])
    script.watch(script.claims, resourceVersion=since)


BEHAVIOURS = {
    found.__name__: found
    for found in (
        a_watch_from_a_version_that_is_gone,
        accepted_forms,
        aggregated_discovery,
        forms_of_rows,
        forms_of_watches,
        groups,
        methods,
        resources,
        versions_of_the_core_group,
    )
}
"""What is asked, by its name."""
