"""What API servers are asked about claims: their status, templates, users that go; pods that are bound and evicted."""

from __future__ import annotations

from typing import Any

from tests.cluster.api_objects import DRIVER, allocated, allocation, claim, pod, template
from tests.cluster.api_script import MERGE, STRATEGIC, Script

__all__ = ["BEHAVIOURS"]

_FINALIZER = "resource.kubernetes.io/delete-protection"


def allocations_are_checked(script: Script) -> None:
    """Results of unknown requests, bad names, too many, a second allocation."""
    script.make(script.claims, claim("c"))
    long = [f"gpu-{i}" for i in range(33)]
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}
    tried: tuple[dict[str, Any], ...] = (
        {"devices": {"results": [{"request": "other", "driver": DRIVER, "pool": "pool", "device": "x"}]}},
        {"devices": {"results": [{"request": "gpu", "driver": "Upper", "pool": "a b", "device": "X"}]}},
        {"devices": {"results": [{}]}},
        allocation(*long),
        allocation("x", nodeSelector={"nodeSelectorTerms": []}),
        allocation("x", nodeSelector=selector),
        {"devices": {"results": [], "config": [{"source": "Elsewhere"}]}},
    )
    for found in tried:
        _set_status(script, "c", {"allocation": found})
    _set_status(script, "c", {"allocation": allocation("gpu-0")})
    _set_status(script, "c", {"allocation": allocation("gpu-1")})
    _set_status(script, "c", {"allocation": None})
    _set_status(script, "c", {"allocation": allocation("gpu-1")})


def users_are_checked(script: Script) -> None:
    """Reservations without allocation, twice, nameless, too many; deallocation while in use."""
    script.make(script.claims, claim("c"))
    # Controllers leave users alone that are no pods.
    user = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "u"}
    _set_status(script, "c", {"reservedFor": [user]})
    _set_status(script, "c", {"allocation": allocation("gpu-0"), "reservedFor": [user]})
    _set_status(script, "c", {"reservedFor": [user, user]})
    _set_status(script, "c", {"reservedFor": [{"resource": "", "name": "", "uid": ""}]})
    many = [{**user, "name": f"p{i}", "uid": f"u{i}"} for i in range(257)]
    _set_status(script, "c", {"reservedFor": many})
    _set_status(script, "c", {"allocation": None})
    script.quietly("PATCH", f"{script.claims}/c", {"metadata": {"finalizers": [_FINALIZER]}}, type=MERGE)
    script.quietly("DELETE", f"{script.claims}/c")
    other = {**user, "name": "q", "uid": "v"}
    _set_status(script, "c", {"reservedFor": [user, other]})


def the_status_of_devices_is_checked(script: Script) -> None:
    """Devices that are not allocated, twice, data and addresses that are not allowed."""
    allocated(script, "c", "gpu-0")
    entry: dict[str, Any] = {"driver": DRIVER, "pool": "pool", "device": "gpu-0"}
    condition = {"type": "Ready", "status": "Perhaps", "reason": "", "message": "", "lastTransitionTime": None}
    good = {**condition, "status": "True", "reason": "Fine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for devices in (
        [{**entry, "device": "gpu-9"}],
        [entry, entry],
        [{**entry, "driver": "Upper"}],
        [{**entry, "conditions": [condition]}],
        [{**entry, "conditions": [{**good, "type": f"T{i}"} for i in range(9)]}],
        [{**entry, "networkData": {"interfaceName": "e" * 257, "ips": ["10.0.0.1", "x/8"]}}],
        [{**entry, "networkData": {"hardwareAddress": "h" * 129, "ips": ["10.0.0.1/8", "10.0.0.1/8"]}}],
        [{**entry, "data": {"big": "x" * 10300}}],
        [{**entry, "data": ["no object"]}],
        [{**entry, "shareID": "no uid"}],
        [{**entry, "conditions": [good], "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/8"]}}],
    ):
        _set_status(script, "c", {"devices": devices})
    _set_status(script, "c", {"allocation": None})


def templates_make_claims(script: Script) -> None:
    """A pod's claim: its name, owner, annotation and labels; what the pod's status tells."""
    script.make(script.templates, template("t"))
    uses = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "own", "resourceClaimName": "mine"}]
    containers = [{"name": "main", "image": "a:1", "resources": {"claims": [{"name": "gpu"}]}}]
    script.make(script.pods, pod("p", resourceClaims=uses, containers=containers))
    found = _wait_claims(script, "p")
    name = found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    made = script.quietly("GET", f"{script.claims}/{name}").body
    script.note("owned", made["metadata"]["ownerReferences"][0].pop("uid") == found["metadata"]["uid"])
    script.note("prefix", name.startswith("p-gpu-"))
    shown = {**made, "metadata": {**made["metadata"], "name": "NAME"}}
    script.note("claim", script.plain(shown))
    script.note("entries", [sorted(entry) for entry in found["status"]["resourceClaimStatuses"]])
    script.quietly("DELETE", f"{script.pods}/p")
    script.wait_gone(script.claims, name)


def devices_are_given_back(script: Script) -> None:
    """When its only user has ended, a claim of a template goes; another one is freed."""
    script.make(script.templates, template("t"))
    uses = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "own", "resourceClaimName": "mine"}]
    made = script.make(script.pods, pod("p", resourceClaims=uses))
    found = _wait_claims(script, "p")
    name = found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    script.make(script.claims, claim("mine"))
    user = {"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}
    for used in (name, "mine"):
        script.quietly("PATCH", f"{script.claims}/{used}", {"metadata": {"finalizers": [_FINALIZER]}}, type=MERGE)
        status = {"allocation": allocation("gpu-0"), "reservedFor": [user]}
        script.quietly("PATCH", f"{script.claims}/{used}/status", {"status": status}, type=MERGE)
    script.quietly("PATCH", f"{script.pods}/p/status", {"status": {"phase": "Succeeded"}}, type=MERGE)
    freed = script.wait(script.claims, "mine", lambda claim: not claim.get("status"))
    script.wait_gone(script.claims, name)
    settled = script.wait(script.claims, "mine", lambda claim: "finalizers" not in claim["metadata"])
    script.note("freed", [freed["status"], settled["status"], settled["metadata"].get("finalizers")])


def pods_are_bound(script: Script) -> None:
    """Once; not while gated or going; to a node that is named."""
    script.make(script.pods, pod("p"))
    for target in ({}, {"kind": "Pod", "name": "x"}, {"kind": "Node", "name": ""}):
        script.ask("POST", f"{script.pods}/p/binding", {"metadata": {"name": "p"}, "target": target})
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-x"}
    body = {"metadata": {"name": "p", "annotations": {"from": "binding"}}, "target": target}
    wrong = {**body, "metadata": {"name": "p", "uid": "00000000-0000-4000-8000-000000000000"}}
    script.ask("POST", f"{script.pods}/p/binding", wrong)
    script.ask("POST", f"{script.pods}/p/binding", body, dryRun="All")
    script.ask("POST", f"{script.pods}/p/binding", body)
    script.ask("GET", f"{script.pods}/p")
    script.ask("POST", f"{script.pods}/p/binding", body)
    script.ask("POST", f"{script.pods}/missing/binding", {**body, "metadata": {"name": "missing"}})
    script.make(script.pods, pod("gated", schedulingGates=[{"name": "example.com/gate"}]))
    script.ask("GET", f"{script.pods}/gated")
    script.ask("POST", f"{script.pods}/gated/binding", {**body, "metadata": {"name": "gated"}})
    script.ask("PATCH", f"{script.pods}/gated", {"spec": {"schedulingGates": None}}, type=MERGE)
    script.make(script.pods, pod("q"))
    path = script.pods.removesuffix("/pods") + "/bindings"
    script.ask("POST", path, {**body, "metadata": {"name": "q"}})


def pods_are_evicted(script: Script) -> None:
    """Without a budget an eviction is a deletion."""
    script.make(script.pods, pod("p"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    script.ask("POST", f"{script.pods}/p/eviction", body, dryRun="All")
    script.ask("POST", f"{script.pods}/p/eviction", body)
    script.ask("GET", f"{script.pods}/p")
    script.ask("POST", f"{script.pods}/p/eviction", body)
    script.ask("POST", f"{script.pods}/p/eviction", {"kind": "Pod", "apiVersion": "v1"})


def pods_are_checked(script: Script) -> None:
    """What of a pod can change, and what can't be at all."""
    script.make(script.pods, pod("p"))
    path = f"{script.pods}/p"
    script.ask("PATCH", path, {"spec": {"nodeName": "node-x"}}, type=STRATEGIC)
    script.ask("PATCH", path, {"spec": {"resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}}, type=STRATEGIC)
    script.ask("PATCH", path, {"spec": {"containers": [{"name": "main", "image": "new:1"}]}}, type=STRATEGIC)
    both = {"name": "x", "resourceClaimName": "y", "resourceClaimTemplateName": "z"}
    script.ask("POST", script.pods, pod("q", resourceClaims=[both]))
    script.ask("POST", script.pods, pod("q", resourceClaims=[{"name": "x"}]))
    missing = {"name": "main", "image": "a:1", "resources": {"claims": [{"name": "none"}]}}
    script.ask("POST", script.pods, pod("q", containers=[missing]))
    script.ask("POST", script.pods, pod("q", serviceAccountName="nobody"))
    script.ask("POST", script.pods, pod("q", priorityClassName="nothing"))


def _set_status(script: Script, name: str, status: dict[str, Any]) -> None:
    script.ask("PATCH", f"{script.claims}/{name}/status", {"status": status}, type=MERGE)


def _wait_claims(script: Script, name: str) -> Any:
    """Return a pod once its status names its claims."""
    return script.wait(script.pods, name, lambda found: bool(found["status"].get("resourceClaimStatuses")))


BEHAVIOURS = {
    found.__name__: found
    for found in (
        allocations_are_checked,
        devices_are_given_back,
        pods_are_bound,
        pods_are_checked,
        pods_are_evicted,
        templates_make_claims,
        the_status_of_devices_is_checked,
        users_are_checked,
    )
}
"""What is asked, by its name."""
