"""What API servers are asked when objects are patched: four kinds of patches, the status, who owns which field."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.api_objects import allocated, allocation, claim, pod, resource_slice
from tests.cluster.api_script import APPLY, JSON_PATCH, MERGE, STRATEGIC, Script

__all__ = ["BEHAVIOURS"]


def merge_patches(script: Script) -> None:
    """Set, change, remove; lists as a whole; an old version; what is no patch."""
    script.make(script.claims, claim("c", metadata={"labels": {"a": "1", "b": "2"}}))
    path = f"{script.claims}/c"
    script.ask("PATCH", path, {"metadata": {"labels": {"a": None, "c": "3"}}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"labels": None, "annotations": {"x": "y"}}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"resourceVersion": "1", "labels": {"z": "z"}}}, type=MERGE)
    script.ask("PATCH", path, {}, type=MERGE)
    script.ask("PATCH", path, {"spec": {"devices": {"requests": []}}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"name": "other"}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"namespace": "other"}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}, type=MERGE)
    script.ask("PATCH", path, {"kind": "Pod"}, type=MERGE)
    script.ask("PATCH", f"{script.claims}/missing", {}, type=MERGE)
    script.ask("PATCH", path, {"spec": {"odd": 1}}, type=MERGE, fieldValidation="Strict")
    script.ask("PATCH", path, {"metadata": {"labels": {"d": "4"}}, "odd": 1}, type=MERGE)
    script.ask("PATCH", path, {}, type="application/json")
    for body in (b"[]", b"7", b"{"):
        reply = script.quietly("PATCH", path, body, type=MERGE)
        script.note(repr(body), [reply.status, reply.body.get("reason")])


def json_patches(script: Script) -> None:
    """Every operation, and those that can't be done."""
    script.make(script.claims, claim("c", metadata={"labels": {"a": "1", "x/y": "2"}}))
    path = f"{script.claims}/c"
    for operations in (
        [{"op": "add", "path": "/metadata/labels/b", "value": "2"}],
        [{"op": "test", "path": "/metadata/labels/b", "value": "2"}, {"op": "remove", "path": "/metadata/labels/b"}],
        [{"op": "replace", "path": "/metadata/labels/x~1y", "value": "3"}],
        [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/k"}],
        [{"op": "move", "from": "/metadata/labels/k", "path": "/metadata/labels/m"}],
        [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/f"]}],
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/g"}],
        [{"op": "remove", "path": "/metadata/finalizers/0"}],
        [{"op": "remove", "path": "/metadata/finalizers"}],
    ):
        script.ask("PATCH", path, operations, type=JSON_PATCH)
    for wrong in (
        [{"op": "test", "path": "/metadata/labels/a", "value": "9"}],
        [{"op": "remove", "path": "/metadata/labels/none"}],
        [{"op": "replace", "path": "/metadata/nothing/here", "value": 1}],
        {"op": "add"},
    ):
        reply = script.quietly("PATCH", path, wrong, type=JSON_PATCH)
        # Which words follow is up to the library for such patches.
        script.note(str(wrong), [reply.status, reply.body.get("reason")])
    script.ask("GET", path)


def strategic_patches(script: Script) -> None:
    """Lists with keys are merged, others replaced; directives."""
    containers = [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]
    script.make(script.pods, pod("p", containers=containers))
    path = f"{script.pods}/p"
    script.ask("PATCH", path, {"spec": {"containers": [{"name": "side", "image": "b:2"}]}}, type=STRATEGIC)
    toleration = {"key": "a", "operator": "Exists"}
    script.ask("PATCH", path, {"spec": {"tolerations": [toleration]}}, type=STRATEGIC)
    script.ask("PATCH", path, {"metadata": {"finalizers": ["example.com/a"]}}, type=STRATEGIC)
    script.ask("PATCH", path, {"metadata": {"finalizers": ["example.com/b"]}}, type=STRATEGIC)
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    script.ask("PATCH", path, gone, type=STRATEGIC)
    script.ask("PATCH", path, {"metadata": {"finalizers": None, "labels": {"$patch": "replace"}}}, type=STRATEGIC)


def a_status_is_written_by_itself(script: Script) -> None:
    """A write to the object leaves the status alone, one to the status everything else."""
    path = f"{script.claims}/c"
    allocated(script, "c", "gpu-0")
    script.ask("PATCH", path, {"status": None, "metadata": {"labels": {"a": "1"}}}, type=MERGE)
    change = {"spec": {"devices": {}}, "metadata": {"labels": {"b": "2"}, "finalizers": ["example.com/f"]}}
    # Controllers leave users alone that are no pods.
    users = [{"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "u"}]
    script.ask("PATCH", f"{path}/status", {**change, "status": {"reservedFor": users}}, type=MERGE)
    script.ask("GET", f"{path}/status")
    found = script.quietly("GET", path).body
    found["status"] = {}
    found["spec"] = {}
    script.ask("PUT", f"{path}/status", found)
    script.ask("PUT", path, found)
    script.ask("DELETE", f"{path}/status")
    script.ask("POST", f"{path}/status", claim("c"))
    script.make(script.pods, pod("p"))
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    moved = {"metadata": {"labels": {"from": "status"}}, "spec": {"priority": 7}, "status": status}
    script.ask("PATCH", f"{script.pods}/p/status", moved, type=STRATEGIC)


def a_configuration_is_applied(script: Script) -> None:
    """Create, change, drop what one no longer wants; a conflict, taken over by force."""
    script.shows_managers = True
    path = f"{script.claims}/c"
    first = claim("c", metadata={"labels": {"a": "1", "b": "2"}})
    script.ask("PATCH", path, first, type=APPLY, fieldManager="one")
    script.ask("PATCH", path, first, type=APPLY, fieldManager="one")
    script.ask("PATCH", path, claim("c", metadata={"labels": {"a": "1"}}), type=APPLY, fieldManager="one")
    other = _bare("c", {"labels": {"a": "9", "c": "3"}})
    script.ask("PATCH", path, other, type=APPLY, fieldManager="two")
    script.ask("PATCH", path, other, type=APPLY, fieldManager="two", force="true")
    script.ask("PATCH", path, first, type=APPLY, fieldManager="one")
    script.ask("PATCH", path, _bare("c", {"labels": {"c": "3"}}), type=APPLY, fieldManager="two")
    script.ask("PATCH", path, {"metadata": {"labels": {"c": "4"}}}, type=MERGE, fieldManager="three")
    script.ask("PATCH", path, _bare("c", {"labels": {"c": "5"}}), type=APPLY, fieldManager="two")


def what_cant_be_applied(script: Script) -> None:
    """No manager, managed fields, another name, a wrong version, no name, an unknown field."""
    path = f"{script.claims}/c"
    script.ask("PATCH", path, claim("c"), type=APPLY)
    script.ask("PATCH", path, claim("c", metadata={"managedFields": [{"manager": "x"}]}), type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim("other"), type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim(), type=APPLY, fieldManager="m")
    script.ask("PATCH", path, {**claim("c"), "apiVersion": "v1"}, type=APPLY, fieldManager="m")
    script.ask("PATCH", path, {"metadata": {"name": "c"}}, type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim("c", metadata={"resourceVersion": "7"}), type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim("c", metadata={"uid": "u"}), type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim("c", odd=1), type=APPLY, fieldManager="m")
    script.ask("PATCH", f"{path}/status", {**_bare("c", {}), "status": {}}, type=APPLY, fieldManager="m")
    script.ask("PATCH", path, claim("c"), type=MERGE, fieldManager="m", force="true")
    script.ask("PATCH", path, claim("c"), type=APPLY, fieldManager="m" * 129)
    script.ask("PATCH", path, claim("c"), type=APPLY, fieldManager="a\nb")
    script.ask("GET", path)


def a_status_is_applied(script: Script) -> None:
    """The driver's part of a claim's status, device by device, beside the allocation."""
    script.shows_managers = True
    path = f"{script.claims}/c/status"
    body = claim("c")
    script.quietly("POST", script.claims, body, fieldManager="user")
    granted = {"status": {"allocation": allocation("gpu-0", "gpu-1")}}
    script.quietly("PATCH", path, granted, type=MERGE, fieldManager="scheduler")
    for manager, device, ready in (("a", "gpu-0", "True"), ("b", "gpu-1", "False"), ("a", "gpu-0", "False")):
        script.ask("PATCH", path, _device_status(device, ready), type=APPLY, fieldManager=manager)
    script.ask("PATCH", path, {**_bare("c", {}), "status": {}}, type=APPLY, fieldManager="b")
    script.ask("PATCH", path, _device_status("gpu-7", "True"), type=APPLY, fieldManager="c")


def a_slice_is_applied(script: Script) -> None:
    """Its devices are one value: who applies them owns them all."""
    script.shows_managers = True
    name = script.own("s")
    path = f"{script.slices}/{name}"
    script.ask("PATCH", path, resource_slice(name), type=APPLY, fieldManager="one")
    script.ask("PATCH", path, resource_slice(name, devices=[{"name": "x"}]), type=APPLY, fieldManager="two")
    changed = resource_slice(name, devices=[{"name": "x"}])
    script.ask("PATCH", path, changed, type=APPLY, fieldManager="two", force="true")
    script.ask("PATCH", path, json.dumps(changed).encode(), type=APPLY, fieldManager="two", dryRun="All")


def _bare(name: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a claim without its spec, as one applies who wants something else of it."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, **metadata}}


def _device_status(device: str, ready: str) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Told",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    entry = {"driver": "gpu.example.com", "pool": "pool", "device": device, "conditions": [condition]}
    return {**_bare("c", {}), "status": {"devices": [entry]}}


def another_object_of_the_name(script: Script) -> None:
    """Every kind of patch, of the object and of its status, with the uid of an earlier object of the name."""
    script.make(script.claims, claim("c"))
    path, metadata = f"{script.claims}/c", {"name": "c", "uid": "00000000-0000-4000-8000-000000000000"}
    for part in ("", "/status"):
        script.ask("PATCH", path + part, {"metadata": metadata, "status": {}}, type=MERGE)
        script.ask("PATCH", path + part, _bare("c", metadata), type=APPLY, fieldManager="m")
    operation = {"op": "replace", "path": "/metadata/uid", "value": metadata["uid"]}
    script.ask("PATCH", path, [operation], type=JSON_PATCH)
    script.ask("PATCH", path, {"metadata": metadata}, type=STRATEGIC)


def bodies_that_are_no_objects(script: Script) -> None:
    """`null`, numbers and lists, where an object is expected; and no body at all."""
    script.make(script.claims, claim("c"))
    path = f"{script.claims}/c"
    for body in (b"null", b" null ", b"{}", b"7", b"true", b"[]", b'"text"', b""):
        for method, target in (("POST", script.claims), ("PUT", path), ("POST", script.templates)):
            reply = script.quietly(method, target, body)
            # What follows are Go's words about types.
            script.note(f"{method} {target} {body!r}", [reply.status, reply.body.get("reason"), reply.body.get("code")])
        for type in (MERGE, STRATEGIC, JSON_PATCH, APPLY):
            reply = script.quietly("PATCH", path, body, type=type, fieldManager="me")
            script.note(f"PATCH {type} {body!r}", [reply.status, reply.body.get("reason"), reply.body.get("code")])
        reply = script.quietly("DELETE", f"{script.claims}/none", body)
        script.note(f"DELETE {body!r}", [reply.status, reply.body.get("reason")])


def fields_of_pods_that_stay(script: Script) -> None:
    """A pod that runs may change images, tolerations and deadlines; anything else is refused, each at its place."""
    script.make(script.pods, pod("p", containers=[{"name": "main", "image": "a:1"}], activeDeadlineSeconds=60))
    path = f"{script.pods}/p"
    more = [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]
    changes: tuple[dict[str, Any], ...] = (
        {"containers": more},
        {"containers": [{"name": "other", "image": "a:1"}]},
        {"containers": []},
        {"containers": [{"name": "main", "image": "a:1", "command": ["sh"]}]},
        {"nodeName": "n"},
        {"hostNetwork": True},
        {"containers": [{"name": "main", "image": "a:2"}]},
        {"containers": [{"name": "main", "image": ""}]},
        {"activeDeadlineSeconds": 30},
        {"activeDeadlineSeconds": 90},
        {"activeDeadlineSeconds": None},
        {"initContainers": [{"name": "first", "image": "a:1"}]},
        {"terminationGracePeriodSeconds": 1},
        {"tolerations": []},
        {"resourceClaims": [{"name": "x", "resourceClaimName": "x"}]},
        {"schedulingGates": [{"name": "a/b"}]},
        {"containers": more, "initContainers": [{"name": "first", "image": "a:1"}], "hostNetwork": True},
    )
    for change in changes:
        script.ask("PATCH", path, {"spec": change}, type=MERGE, dryRun="All")


def operations_that_cant_be_read(script: Script) -> None:
    """JSON patches with operations, paths or values that are none."""
    script.make(script.claims, claim("c", metadata={"labels": {"a": "1"}}))
    label = "/metadata/labels/b"
    wrong: tuple[Any, ...] = (
        [{"op": "odd", "path": label}],
        [{"path": label, "value": "1"}],
        [{"op": "add", "value": "1"}],
        [{"op": "add", "path": label}],
        [{"op": "add", "path": "metadata/labels/b", "value": "1"}],
        [{"op": "add", "path": "", "value": {}}],
        [{"op": "remove", "path": ""}],
        [{"op": "move", "path": label}],
        [{"op": "copy", "from": "/metadata/none", "path": label}],
        [{"op": "move", "from": "/metadata", "path": "/metadata/x"}],
        [{"op": "add", "path": "/metadata/finalizers/7", "value": "a/b"}],
        [{"op": "test", "path": "/metadata/none", "value": None}],
        [{"op": "test", "path": label}],
        [{"op": "replace", "path": label, "value": "1"}],
        [7],
        ["x"],
        [None],
        [[]],
        {},
        [],
        [{"op": "add", "path": "/metadata/labels/b", "value": 7}],
        [{"op": "replace", "path": "/spec", "value": None}],
        [{"op": "add", "path": "/spec/odd", "value": 1}],
        [{"op": "remove", "path": "/metadata/labels/a", "value": "x"}],
        [{"op": "add", "path": "/metadata/labels/-", "value": "1"}],
        [{"op": 7, "path": label}],
        [{"op": "add", "path": 7, "value": 1}],
        [{"op": "replace", "path": "/metadata/name", "value": "other"}],
        [{"op": "remove", "path": "/metadata/uid"}],
    )
    for operations in wrong:
        reply = script.quietly("PATCH", f"{script.claims}/c", operations, type=JSON_PATCH, dryRun="All")
        # Which words follow is up to the library for such patches.
        labels = (reply.body.get("metadata") or {}).get("labels")
        script.note(str(operations), [reply.status, reply.body.get("reason"), reply.body.get("code"), labels])


BEHAVIOURS = {
    found.__name__: found
    for found in (
        bodies_that_are_no_objects,
        fields_of_pods_that_stay,
        operations_that_cant_be_read,
        a_configuration_is_applied,
        a_slice_is_applied,
        a_status_is_applied,
        a_status_is_written_by_itself,
        another_object_of_the_name,
        json_patches,
        merge_patches,
        strategic_patches,
        what_cant_be_applied,
    )
}
"""What is asked, by its name."""
