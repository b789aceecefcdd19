"""What API servers are asked when objects are read: lists and watches."""

from __future__ import annotations

from typing import Any

from tests.cluster.api_objects import claim, pod, resource_slice
from tests.cluster.api_script import MERGE, Script

__all__ = ["BEHAVIOURS"]


def _fill(script: Script) -> list[Any]:
    """Create five claims with labels."""
    labels = [{"app": "a"}, {"app": "b"}, {"app": "b", "old": ""}, {}, {"size": "3"}]
    return [script.make(script.claims, claim(f"c{i}", metadata={"labels": found})) for i, found in enumerate(labels)]


def _names(script: Script, path: str, **query: Any) -> list[str] | Any:
    """Note and return the names of a list, or the refusal."""
    reply = script.quietly("GET", path, **query)
    found = script.show(reply) if reply.status != 200 else [item["metadata"]["name"] for item in reply.body["items"]]
    script.note(f"names {query}", script.plain(found))
    return found


def lists_by_label(script: Script) -> None:
    """Label selectors of every form, and some that can't be read."""
    _fill(script)
    for text in ("app=a", "app==a", "app!=a", "app in (a, b)", "app notin (b)", "old", "!old", "size>2", "size<2"):
        _names(script, script.claims, labelSelector=text)
    for text in ("app=a,old", "app in (b),!old", " app = b "):
        _names(script, script.claims, labelSelector=text)
    for text in ("app=a b", "app in b", "=a", "app=a,,old", "size>x", "a/b/c=1", "app in (", "app=-a"):
        _names(script, script.claims, labelSelector=text)


def lists_by_field(script: Script) -> None:
    """Field selectors that a kind has, and those that it has not."""
    _fill(script)
    mine = f"metadata.namespace={script.namespace}"
    for text in ("metadata.name=c1", "metadata.name!=c1", mine, "metadata.name==c2"):
        _names(script, script.claims, fieldSelector=text)
    for text in ("spec.nothing=1", "metadata.labels=1", "metadata.name", "metadata.name>1"):
        _names(script, script.claims, fieldSelector=text)


def lists_slices_by_field(script: Script) -> None:
    """Slices can be selected by node, driver and pool."""
    mine = {"labels": {"mine": script.namespace}}
    for name, node, driver in (("a", "n1", "d1"), ("b", "n2", "d1"), ("c", "n1", "d2")):
        body = resource_slice(script.own(name), metadata=mine, nodeName=script.own(node), driver=driver)
        script.make(script.slices, body)
    for text in (f"spec.nodeName={script.own('n1')}", "spec.driver=d1", "spec.pool.name=pool", "spec.allNodes=true"):
        _names(script, script.slices, fieldSelector=text, labelSelector=f"mine={script.namespace}")


def lists_pods_by_field(script: Script) -> None:
    """Pods can be selected by what kubelet and kubectl select them by."""
    for i, name in enumerate(("a", "b")):
        script.make(script.pods, pod(name, restartPolicy=("Never", "Always")[i]))
    for text in ("spec.nodeName=", "status.phase=Pending", "status.phase!=Pending", "spec.restartPolicy=Never"):
        _names(script, script.pods, fieldSelector=text)
    for text in ("spec.schedulerName=nobody", "spec.hostNetwork=false", "status.podIP=", "spec.priority=0"):
        _names(script, script.pods, fieldSelector=text)


def a_list_looks_so(script: Script) -> None:
    """The whole answer, with metadata."""
    _fill(script)
    script.ask("GET", script.claims)
    script.ask("GET", script.claims, labelSelector="app=none")
    script.ask("GET", f"{script.claims}/c0")


def pages(script: Script) -> None:
    """A limit, the pages after it, and tokens that can't be read."""
    _fill(script)
    first = script.ask("GET", script.claims, limit=2)
    token = first.body["metadata"]["continue"]
    second = script.quietly("GET", script.claims, limit=2, **{"continue": token})
    script.note("second page", script.show(second))
    last = script.quietly("GET", script.claims, limit=2, **{"continue": second.body["metadata"]["continue"]})
    script.note("last page", script.show(last))
    script.note("rest", script.show(script.quietly("GET", script.claims, **{"continue": token})))
    versioned = script.quietly("GET", script.claims, limit=2, resourceVersion="1", **{"continue": token})
    script.note("page with a version", script.show(versioned))
    rubbish = script.quietly("GET", script.claims, limit=2, **{"continue": "rubbish"})
    # What follows are Go's words about text that is no JSON.
    script.note("rubbish", [rubbish.status, rubbish.body["reason"], rubbish.body["message"][:51]])
    script.ask("GET", script.claims, limit=2, labelSelector="app=b")
    script.ask("GET", script.claims, limit=1, labelSelector="app")
    script.ask("GET", script.claims, limit=0)
    for limit in ("-1", "x"):
        script.ask("GET", script.claims, limit=limit)


def versions_of_lists(script: Script) -> None:
    """The options resourceVersion and resourceVersionMatch, alone and together."""
    made = _fill(script)
    for version in ("0", made[0]["metadata"]["resourceVersion"], made[-1]["metadata"]["resourceVersion"]):
        reply = script.quietly("GET", script.claims, resourceVersion=version)
        script.note("list not older", [reply.status, len(reply.body["items"])])
    for version in ("x", "-1", "1.5"):
        script.ask("GET", script.claims, resourceVersion=version)
    for query in (
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Newest", "resourceVersion": "1"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"},
        {"resourceVersionMatch": "Exact", "resourceVersion": made[-1]["metadata"]["resourceVersion"], "limit": "1"},
    ):
        reply = script.quietly("GET", script.claims, **query)
        told = script.show(reply) if reply.status != 200 else [item["metadata"]["name"] for item in reply.body["items"]]
        script.note(str({key: query[key] for key in sorted(query) if key != "resourceVersion"}), told)


def a_version_that_is_not_reached(script: Script) -> None:
    """A list and an object at a version far in the future."""
    script.make(script.claims, claim("c"))
    for path in (script.claims, f"{script.claims}/c"):
        reply = script.quietly("GET", path, resourceVersion="9000000000000000")
        body = reply.body
        seen = {key: body.get(key) for key in ("status", "reason", "code", "kind")}
        script.note("too large", {**seen, "causes": (body.get("details") or {}).get("causes"), "status": reply.status})


def a_watch_tells_what_changes(script: Script) -> None:
    """Created, changed, deleted: from a version on, and from now on with what is there."""
    first = script.make(script.claims, claim("a"))
    since = first["metadata"]["resourceVersion"]
    script.make(script.claims, claim("b"))
    script.quietly("PATCH", f"{script.claims}/a", {"metadata": {"labels": {"x": "1"}}}, type=MERGE)
    script.quietly("DELETE", f"{script.claims}/b")
    script.watch(script.claims, resourceVersion=since)
    script.watch(script.claims)
    script.watch(script.claims, resourceVersion="0")
    script.watch(script.claims, resourceVersion=since, fieldSelector="metadata.name=b")


def objects_move_in_and_out_of_a_watch(script: Script) -> None:
    """An object whose label comes and goes is added to, and deleted from, what the watch is about."""
    since = script.make(script.claims, claim("a"))["metadata"]["resourceVersion"]
    for label in ("1", "2", "1", None):
        script.quietly("PATCH", f"{script.claims}/a", {"metadata": {"labels": {"x": label}}}, type=MERGE)
    script.quietly("DELETE", f"{script.claims}/a")
    script.watch(script.claims, resourceVersion=since, labelSelector="x=1")


def a_watch_begins_with_all_there_is(script: Script) -> None:
    """sendInitialEvents, with and without bookmarks, and the combinations that are refused."""
    for name in ("a", "b"):
        script.make(script.claims, claim(name))
    begin = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    events = script.world.watch(f"{script.claims}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&" + _query(begin))
    marks = [event["object"]["metadata"].get("annotations") for event in events.body if event["type"] == "BOOKMARK"][:1]
    names = [event["object"]["metadata"]["name"] for event in events.body if event["type"] != "BOOKMARK"]
    script.note("with bookmarks", [names, marks])
    for query in (
        begin,
        {"sendInitialEvents": "true"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        {"sendInitialEvents": "maybe", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
    ):
        script.note(str(query), None)
        script.watch(script.claims, **query)
    script.ask("GET", script.claims, **begin)


def a_watch_from_a_version_that_cant_be(script: Script) -> None:
    """Versions that are no number, and selectors that can't be read."""
    script.make(script.claims, claim("a"))
    script.watch(script.claims, resourceVersion="x")
    script.watch(script.claims, labelSelector="a b")
    script.watch(script.claims, fieldSelector="spec.x=1")
    script.watch(script.claims, timeoutSeconds="x")
    script.watch(f"{script.claims}/a")


def tables(script: Script) -> None:
    """What kubectl prints, without ages."""
    _fill(script)
    script.make(script.templates, _template())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    for path in (script.claims, f"{script.claims}/c0", script.templates):
        reply = script.quietly("GET", path, accept=accept)
        body = reply.body
        rows = [[cell for cell in row["cells"] if not str(cell).endswith("s")] for row in body["rows"]]
        # Their descriptions are those of the fields, whole paragraphs: see table-descriptions.
        columns = [{key: column[key] for key in column if key != "description"} for column in body["columnDefinitions"]]
        script.note(path, [columns, rows, body["kind"], body["apiVersion"]])
    script.ask("GET", script.claims, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    script.ask("GET", f"{script.claims}/c0", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")


def _template() -> Any:
    return {
        "metadata": {"name": "t"},
        "spec": {"spec": claim("")["spec"]},
    }


def _query(parts: dict[str, str]) -> str:
    return "&".join(f"{key}={value}" for key, value in parts.items())


BEHAVIOURS = {
    found.__name__: found
    for found in (
        a_list_looks_so,
        a_version_that_is_not_reached,
        a_watch_begins_with_all_there_is,
        a_watch_from_a_version_that_cant_be,
        a_watch_tells_what_changes,
        lists_by_field,
        lists_by_label,
        lists_pods_by_field,
        lists_slices_by_field,
        objects_move_in_and_out_of_a_watch,
        pages,
        tables,
        versions_of_lists,
    )
}
"""What is asked, by its name."""
