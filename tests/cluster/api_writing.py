"""What API servers are asked when objects are created and replaced."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.api_objects import claim, device_class, pod, resource_slice, template
from tests.cluster.api_script import Script

__all__ = ["BEHAVIOURS"]


def defaults_are_filled_in(script: Script) -> None:
    """What the server makes of small objects of each kind."""
    script.ask("POST", script.claims, claim("c"))
    script.ask("POST", script.templates, template("t"))
    script.ask("POST", script.classes, device_class(script.own("c")))
    script.ask("POST", script.slices, resource_slice(script.own("s")))
    script.ask("POST", script.pods, pod("p"))


def requests_get_their_defaults(script: Script) -> None:
    """Modes, counts, tolerations and alternatives."""
    script.ask("POST", script.claims, claim("all", allocationMode="All"))
    script.ask("POST", script.claims, claim("tolerates", tolerations=[{"key": "a"}, {"operator": "Exists"}]))
    body = claim("first")
    first = [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y", "count": 2}]
    body["spec"]["devices"] = {"requests": [{"name": "r", "firstAvailable": first}]}
    script.ask("POST", script.claims, body)
    script.ask("POST", script.claims, claim("empty") | {"spec": {}})


def what_only_the_server_sets_is_dropped(script: Script) -> None:
    """A client sends a status, a uid, times and a generation."""
    metadata = {
        "uid": "00000000-0000-4000-8000-000000000000",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
        "generation": 7,
        "selfLink": "/x",
    }
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "x"}]}}
    script.ask("POST", script.claims, {**claim("c", metadata=metadata), "status": {"allocation": allocation}})
    script.ask("POST", script.claims, claim("d", metadata={"resourceVersion": "7"}))


def names_are_generated(script: Script) -> None:
    """A prefix gets five letters; a name wins over it."""
    made = script.quietly("POST", script.claims, claim(metadata={"generateName": "gen-"})).body
    name = made["metadata"]["name"]
    script.note("generated", [name[:4], len(name), made["metadata"]["generateName"]])
    script.ask("POST", script.claims, claim("named", metadata={"generateName": "gen-"}))
    long = script.quietly("POST", script.claims, claim(metadata={"generateName": "g" * 80})).body
    script.note("long", len(long["metadata"]["name"]))
    script.ask("POST", script.claims, claim())
    reply = script.quietly("POST", script.claims, claim(metadata={"generateName": "Gen-"}))
    message = reply.body["message"]
    script.note("bad prefix", [reply.status, [c["field"] for c in reply.body["details"]["causes"]], message[:35]])


def a_dry_run_stores_nothing(script: Script) -> None:
    """Create, replace and delete without effect."""
    script.ask("POST", script.claims, claim("c"), dryRun="All")
    script.ask("GET", f"{script.claims}/c")
    script.make(script.claims, claim("c"))
    script.ask("POST", script.claims, claim("c"), dryRun="All")
    script.ask("PUT", f"{script.claims}/c", claim("c", metadata={"labels": {"a": "b"}}), dryRun="All")
    script.ask("DELETE", f"{script.claims}/c", dryRun="All")
    script.ask("GET", f"{script.claims}/c")
    script.ask("POST", script.claims, claim("d"), dryRun="Some")


def unknown_fields(script: Script) -> None:
    """Unknown and repeated fields, under each kind of validation."""
    body = claim("c", odd=1)
    body["spec"]["odd"] = {}
    twice = b'{"metadata": {"name": "c", "name": "c"}, "spec": {}}'
    for mode in ("Strict", "Warn", "Ignore", "", "Odd"):
        query = {"fieldValidation": mode} if mode else {}
        script.ask("POST", script.claims, body, dryRun="All", **query)
        script.ask("POST", script.claims, twice, dryRun="All", **query)
    script.make(script.claims, claim("c"))
    for mode in ("Strict", "Warn"):
        changed = claim("c", metadata={"odd": "x"})
        script.ask("PUT", f"{script.claims}/c", changed, dryRun="All", fieldValidation=mode)


def bodies_that_are_no_object(script: Script) -> None:
    """What can't be read, is of another kind, or comes for another place."""
    for body in (b"{", b"", b"[]", b"7", b'"x"', b"{}"):
        reply = script.quietly("POST", script.claims, body)
        # Go's words about what it can't read come after these.
        script.note(repr(body), [reply.status, reply.body.get("reason"), reply.body["message"][:30]])
    script.ask("POST", script.claims, {**claim("c"), "kind": "Pod"})
    script.ask("POST", script.claims, {**claim("c"), "apiVersion": "v1"})
    script.ask("POST", script.claims, {**claim("c"), "apiVersion": "resource.k8s.io/v9"})
    script.ask("POST", script.claims, claim("c", metadata={"namespace": "elsewhere"}))
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"] = {"name": "x"}
    reply = script.quietly("POST", script.claims, wrong)
    script.note("wrong form", [reply.status, reply.body["reason"]])
    script.ask("POST", script.claims, json.dumps(claim("c")).encode(), type="text/plain")
    script.ask("POST", script.claims, json.dumps(claim("c")).encode(), type="application/xml", dryRun="All")
    script.ask("POST", script.claims, b"metadata: {name: why}\nspec: {}\n", type="application/yaml", dryRun="All")
    script.ask("POST", script.claims.replace(script.namespace, "nowhere"), claim("c"))
    script.ask("POST", f"{script.claims}/c", claim("c"))


def what_exists_already(script: Script) -> None:
    """A second object of a name, with and without a namespace."""
    script.make(script.claims, claim("c"))
    script.ask("POST", script.claims, claim("c"))
    script.make(script.classes, device_class(script.own("c")))
    script.ask("POST", script.classes, device_class(script.own("c")))
    script.make(script.pods, pod("p"))
    script.ask("POST", script.pods, pod("p"))


def two_clients_replace_an_object(script: Script) -> None:
    """The second one has an old version, a wrong uid, no version, or another name."""
    made = script.make(script.claims, claim("c"))
    path = f"{script.claims}/c"
    made["metadata"]["labels"] = {"by": "first"}
    script.ask("PUT", path, made)
    script.ask("PUT", path, made)
    script.ask("PUT", path, claim("c", metadata={"labels": {"by": "nobody"}}))
    script.ask("PUT", path, claim("c", metadata={"uid": "00000000-0000-4000-8000-000000000000"}))
    script.ask("PUT", path, claim("other"))
    script.ask("PUT", path, claim())
    script.ask("PUT", f"{script.claims}/missing", claim("missing"))
    script.ask("PUT", path, claim("c", metadata={"resourceVersion": "x"}))
    script.ask("PUT", path, claim("c", metadata={"namespace": "elsewhere"}))
    slice_path = f"{script.slices}/{script.own('s')}"
    script.make(script.slices, resource_slice(script.own("s")))
    script.ask("PUT", slice_path, resource_slice(script.own("s"), devices=[]))


def a_write_that_changes_nothing(script: Script) -> None:
    """It keeps the version; a change of the spec raises the generation."""
    made = script.make(script.claims, claim("c"))
    script.ask("PUT", f"{script.claims}/c", made)
    name = script.own("s")
    slice_ = script.make(script.slices, resource_slice(name))
    script.ask("PUT", f"{script.slices}/{name}", slice_)
    slice_["spec"]["devices"] = []
    script.ask("PUT", f"{script.slices}/{name}", slice_)
    label = {**slice_["metadata"], "labels": {"a": "b"}, "resourceVersion": None}
    script.ask("PUT", f"{script.slices}/{name}", {**slice_, "metadata": {k: v for k, v in label.items() if v}})


def fields_that_cant_be_changed(script: Script) -> None:
    """The spec of a claim and of a template; driver, pool and node of a slice; the containers of a pod."""
    script.make(script.claims, claim("c"))
    script.ask("PUT", f"{script.claims}/c", claim("c", count=2))
    script.make(script.templates, template("t"))
    script.ask("PUT", f"{script.templates}/t", template("t", count=2))
    name = script.own("s")
    made = script.make(script.slices, resource_slice(name))
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
    for change in ({"driver": "other.example.com"}, {"nodeName": "node-y"}, {"pool": pool}):
        script.ask("PUT", f"{script.slices}/{name}", resource_slice(name, metadata=version, **change))
    metadata = {"creationTimestamp": "2001-01-01T00:00:00Z", "generateName": "x-", "generation": 9}
    script.ask("PUT", f"{script.claims}/c", claim("c", metadata=metadata))


def metadata_is_checked(script: Script) -> None:
    """Names, labels, annotations, finalizers and owners that are not allowed."""
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    script.ask("POST", script.claims, claim("Upper"))
    script.ask("POST", script.claims, claim("a" * 254))
    script.ask("POST", script.classes, device_class("under_score"))
    for metadata in (
        {"labels": {"a b": "c"}},
        {"labels": {"a": "c d"}},
        {"labels": {"a": "x" * 64, "UPPER.com/x": "y"}},
        {"annotations": {"a b": "c"}},
        {"annotations": {"big": "x" * (257 * 1024)}},
        {"finalizers": ["plain"]},
        {"finalizers": ["a b/c"]},
        {"ownerReferences": [{**owner, "uid": ""}]},
        {"ownerReferences": [{**owner, "controller": True}, {**owner, "controller": True, "uid": "v"}]},
        {"labels": {"a": "b"}, "annotations": {"x": "y"}, "finalizers": ["example.com/f"]},
    ):
        script.ask("POST", script.claims, claim("c", metadata=metadata), dryRun="All")
    for odd in ({"labels": {"a": 7}}, {"labels": ["a"]}, {"name": 7}):
        reply = script.quietly("POST", script.claims, claim("c", metadata=odd))
        script.note(str(odd), [reply.status, reply.body["reason"]])


def specs_are_checked(script: Script) -> None:
    """Requests, classes and slices that are not allowed."""
    script.ask("POST", script.claims, claim("c", count=-1))
    script.ask("POST", script.claims, claim("c", deviceClassName=""))
    script.ask("POST", script.claims, claim("c", allocationMode="Some"))
    script.ask("POST", script.claims, claim("c", allocationMode="All", count=2))
    script.ask("POST", script.claims, claim("c", selectors=[{"cel": {"expression": "device.nothing"}}]))
    script.ask("POST", script.claims, claim("c", selectors=[{}]))
    script.ask("POST", script.claims, claim("c", adminAccess=True))
    script.ask("POST", script.classes, device_class(script.own("c"), selectors=[{"cel": {"expression": "1"}}]))
    name = script.own("s")
    for change in (
        {"nodeName": None},
        {"allNodes": True},
        {"driver": "Upper"},
        {"devices": [{"name": "a"}, {"name": "a"}]},
        {"devices": [{"name": "a", "attributes": {"x": {}}}]},
        {"pool": {"name": "", "generation": -1, "resourceSliceCount": 0}},
    ):
        script.ask("POST", script.slices, resource_slice(name, **change))


BEHAVIOURS = {
    found.__name__: found
    for found in (
        a_dry_run_stores_nothing,
        a_write_that_changes_nothing,
        bodies_that_are_no_object,
        defaults_are_filled_in,
        fields_that_cant_be_changed,
        metadata_is_checked,
        names_are_generated,
        requests_get_their_defaults,
        specs_are_checked,
        two_clients_replace_an_object,
        unknown_fields,
        what_exists_already,
        what_only_the_server_sets_is_dropped,
    )
}
"""What is asked, by its name."""
