"""What API servers are asked when objects go: finalizers, grace, preconditions, owners, collections, namespaces."""

from __future__ import annotations

from typing import Any

from tests.cluster.api_objects import claim, device_class, pod
from tests.cluster.api_script import MERGE, Script

__all__ = ["BEHAVIOURS"]


def objects_go_at_once(script: Script) -> None:
    """Without finalizers; a second time; what watches tell of it."""
    since = script.make(script.claims, claim("c"))["metadata"]["resourceVersion"]
    script.ask("DELETE", f"{script.claims}/c")
    script.ask("DELETE", f"{script.claims}/c")
    script.ask("GET", f"{script.claims}/c")
    script.watch(script.claims, resourceVersion=since)
    name = script.own("c")
    script.make(script.classes, device_class(name))
    script.ask("DELETE", f"{script.classes}/{name}")
    script.make(script.pods, pod("p"))
    script.ask("DELETE", f"{script.pods}/p")


def finalizers_hold_an_object(script: Script) -> None:
    """It is marked, can be changed, takes no new finalizers, and goes with the last one."""
    path = f"{script.claims}/c"
    made = script.make(script.claims, claim("c", metadata={"finalizers": ["example.com/a", "example.com/b"]}))
    script.ask("DELETE", path)
    script.ask("DELETE", path)
    script.ask("DELETE", path, {"gracePeriodSeconds": 5})
    script.ask("PATCH", path, {"metadata": {"labels": {"still": "here"}}}, type=MERGE)
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}
    script.ask("PATCH", path, more, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"deletionTimestamp": None}}, type=MERGE)
    script.ask("PATCH", path, {"metadata": {"finalizers": ["example.com/a"]}}, type=MERGE)
    script.ask("POST", script.claims, claim("c"))
    script.ask("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
    script.ask("GET", path)
    script.watch(script.claims, resourceVersion=made["metadata"]["resourceVersion"])


def pods_get_time_to_end(script: Script) -> None:
    """Grace of bound pods: asked, shortened, none; a pod that has ended goes at once."""
    path = f"{script.pods}/p"
    since = script.make(script.pods, pod("p"))["metadata"]["resourceVersion"]
    _bind(script, "p")
    script.ask("DELETE", path)
    script.ask("DELETE", path)
    script.ask("DELETE", path, {"gracePeriodSeconds": 5})
    script.ask("DELETE", path, {"gracePeriodSeconds": 60})
    script.ask("DELETE", path, gracePeriodSeconds="0")
    script.watch(script.pods, resourceVersion=since)
    script.make(script.pods, pod("q", terminationGracePeriodSeconds=0))
    _bind(script, "q")
    script.ask("DELETE", f"{script.pods}/q")
    script.ask("DELETE", f"{script.pods}/q", {"gracePeriodSeconds": 0})
    script.make(script.pods, pod("r"))
    _bind(script, "r")
    script.quietly("PATCH", f"{script.pods}/r/status", {"status": {"phase": "Succeeded"}}, type=MERGE)
    script.ask("DELETE", f"{script.pods}/r")
    script.ask("GET", f"{script.pods}/r")


def preconditions_are_looked_at(script: Script) -> None:
    """A uid and a version that are not the object's."""
    made = script.make(script.claims, claim("c"))
    path, metadata = f"{script.claims}/c", made["metadata"]
    script.ask("DELETE", path, {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}})
    wrong = script.quietly("DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    text = wrong.body["message"].replace(metadata["resourceVersion"], "VERSION")
    script.note("wrong version", [wrong.status, text, wrong.body["reason"]])
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    script.ask("DELETE", path, {"preconditions": right})


def options_that_mean_nothing(script: Script) -> None:
    """Policies and bodies that are not allowed."""
    script.make(script.claims, claim("c"))
    path = f"{script.claims}/c"
    script.ask("DELETE", path, {"propagationPolicy": "Sideways"})
    script.ask("DELETE", path, {"propagationPolicy": "Orphan", "orphanDependents": True})
    script.ask("DELETE", path, {"gracePeriodSeconds": -1}, dryRun="All")
    script.ask("DELETE", path, {"kind": "Pod", "apiVersion": "v1"})
    script.ask("DELETE", path, {"dryRun": ["Some"]})
    script.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    for query in ({"gracePeriodSeconds": "x"}, {"propagationPolicy": "Sideways"}):
        reply = script.quietly("DELETE", path, **query)
        script.note(str(query), [reply.status, reply.body.get("reason")])
    script.ask("GET", path)


def owners_and_what_they_own(script: Script) -> None:
    """In the background, the foreground, and left behind."""
    # The collector hears of objects in their order: after the first two rounds it knows of the third one's.
    policies = ("Background", "Foreground", "Orphan")
    for policy in policies:
        _own(script, policy.lower())
    for policy in policies:
        name = policy.lower()
        script.ask("DELETE", f"{script.claims}/{name}", {"propagationPolicy": policy})
        script.wait_gone(script.claims, name)
        if policy == "Orphan":
            script.wait(script.claims, f"{name}-owned", lambda found: "ownerReferences" not in found["metadata"])
        else:
            script.wait_gone(script.claims, f"{name}-owned")
    listed = script.quietly("GET", script.claims).body["items"]
    script.note("left", [item["metadata"]["name"] for item in listed])


def _own(script: Script, name: str) -> None:
    """Create a claim and another that it owns."""
    owner = script.make(script.claims, claim(name))["metadata"]
    reference = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "name": name,
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    script.make(script.claims, claim(f"{name}-owned", metadata={"ownerReferences": [reference]}))


def whole_collections(script: Script) -> None:
    """All that a selector names; what it answers."""
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        script.make(script.claims, claim(name, metadata={"labels": {"k": label}}))
    script.make(script.claims, claim("d", metadata={"labels": {"k": "x"}, "finalizers": ["example.com/f"]}))
    script.ask("DELETE", script.claims, labelSelector="k=x", dryRun="All")
    script.ask("DELETE", script.claims, labelSelector="k=x")
    script.ask("GET", script.claims)
    script.ask("DELETE", script.claims, labelSelector="k=none")
    script.ask("DELETE", script.claims, labelSelector="a b")
    script.ask("DELETE", script.claims.replace(script.namespace, "nowhere"))


def a_namespace_goes_with_its_content(script: Script) -> None:
    """Nothing new gets in while it goes; a finalizer inside holds it."""
    name = script.own("gone")
    path, claims = f"/api/v1/namespaces/{name}", script.claims.replace(script.namespace, script.own("gone"))
    script.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    script.make(claims, claim("c", metadata={"finalizers": ["example.com/f"]}))
    script.make(claims, claim("d"))
    deleted = script.quietly("DELETE", path)
    seen = deleted.body
    script.note("deleted", [deleted.status, seen["kind"], seen["status"].get("phase"), seen["spec"]])
    script.ask("POST", claims, claim("new"))
    script.wait_gone(claims, "d")
    script.wait(claims, "c", lambda found: "deletionTimestamp" in found["metadata"])
    script.quietly("PATCH", f"{claims}/c", {"metadata": {"finalizers": None}}, type=MERGE)
    script.wait_gone("/api/v1/namespaces", name)
    script.ask("GET", path)
    for lasting in ("default", "kube-system", "kube-public"):
        script.ask("DELETE", f"/api/v1/namespaces/{lasting}", dryRun="All")


def _bind(script: Script, name: str) -> Any:
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "node-x"}}
    reply = script.quietly("POST", f"{script.pods}/{name}/binding", {"metadata": {"name": name}, **target})
    assert reply.status == 201, reply.body


BEHAVIOURS = {
    found.__name__: found
    for found in (
        a_namespace_goes_with_its_content,
        finalizers_hold_an_object,
        objects_go_at_once,
        options_that_mean_nothing,
        owners_and_what_they_own,
        pods_get_time_to_end,
        preconditions_are_looked_at,
        whole_collections,
    )
}
"""What is asked, by its name."""
