"""The doctor's checks of what the API server told: each a pure function of the facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from claimsmith.node.doctor_facts import ApiFacts, LocalFacts
from claimsmith.node.doctor_findings import Finding, good, problem, unknown, warning

__all__ = ["API_CHECKS", "ApiCheck", "check_server"]

ApiCheck = Callable[[LocalFacts, ApiFacts], Iterator[Finding]]

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_SERVER_MIN: Final = (1, 34)
_KUBELET_MIN: Final = (1, 32)
_GATE: Final = "DynamicResourceAllocation"
_SKEW_S: Final = 5.0
_SKEW_MAX_S: Final = 60.0
_SHOWN: Final = 5


def check_server(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """The API server must answer; without it nothing of the rest can be told."""
    del local
    if api.error:
        hint = "see whether the address is right and the server runs"
        yield problem("api-server", api.error, allowed="an answer", hint=hint)
        return
    found = _parse_version(api.version)
    if found is None or found >= _SERVER_MIN:
        yield good("api-server", f"answers, version {api.version or 'not told'}")
    else:
        hint = "upgrade the control plane, or use the device plugin alone"
        yield warning("api-server", f"version {api.version}", allowed="1.34 or later", hint=hint)


def check_dra(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """Source: resource.k8s.io/v1 is served since Kubernetes 1.34."""
    del local
    if "v1" in api.dra_versions:
        yield good("dra", f"resource.k8s.io {', '.join(api.dra_versions)} served")
    elif api.dra_versions:
        hint = "upgrade the control plane to 1.34, or use the device plugin alone"
        yield problem("dra", f"resource.k8s.io {', '.join(api.dra_versions)}", allowed="v1", hint=hint)
    else:
        hint = "upgrade the control plane to 1.34, or use the device plugin alone"
        yield problem("dra", "resource.k8s.io not served", allowed="v1", hint=hint)


def check_node(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """The Node must be there, be this machine, and be ready."""
    if api.node is None:
        hint = "name the node with --node, or let this user read nodes"
        yield problem("node", "no such Node, or not ours to read", allowed="a Node", hint=hint)
    elif local.boot_id and api.node.boot_id and api.node.boot_id != local.boot_id:
        hint = "name the node of this machine with --node; after a reboot, wait for its kubelet"
        found = f"a Node that runs boot {api.node.boot_id}"
        yield problem("node", found, allowed=f"{local.boot_id}, this machine's", hint=hint)
    elif not api.node.ready:
        yield warning("node", "not ready", allowed="a ready Node", hint="see `kubectl describe node`")
    else:
        yield good("node", f"ready, with {api.node.runtime_version or 'an unknown runtime'}")


def check_kubelet_version(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """Source: the DRA gRPC service v1beta1 is asked for by kubelets since 1.32, v1 since 1.34."""
    del local
    version = api.node.kubelet_version if api.node is not None else ""
    found = _parse_version(version)
    if found is None:
        yield unknown("kubelet-version", version or "none", allowed="1.32 or later", hint="see that the Node is there")
    elif found < _KUBELET_MIN:
        yield problem("kubelet-version", version, allowed="1.32 or later", hint="upgrade the kubelet")
    else:
        yield good("kubelet-version", version)


def check_gates(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """A kubelet may have the feature switched off by hand."""
    del local
    if api.gates is None:
        allowed, hint = "its configuration", "let this user get nodes/proxy, or look at the kubelet's configuration"
        yield unknown("gates", "a kubelet whose configuration we may not see", allowed=allowed, hint=hint)
    elif api.gates.get(_GATE) is False:
        hint = "remove it from featureGates in the kubelet's configuration"
        yield problem("gates", f"{_GATE}=false", allowed="true, as by default since 1.34", hint=hint)
    else:
        set_ = ", ".join(f"{name}={str(value).lower()}" for name, value in sorted(api.gates.items()))
        yield good("gates", set_ or "all as by default")


def check_clock(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """Leases, tokens and tolerations compare times of different machines."""
    if api.clock_s is None:
        yield unknown("clock", "an API server that tells no time", allowed="a Date header", hint="compare by hand")
        return
    skew_s = abs(local.now_s - api.clock_s)
    if skew_s <= _SKEW_S:
        yield good("clock", "as the API server's")
        return
    make = problem if skew_s > _SKEW_MAX_S else warning
    allowed = f"at most {_SKEW_S:g} s"
    yield make("clock", f"{skew_s:.0f} s beside the API server's", allowed=allowed, hint="synchronise it, as by NTP")


def check_access(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """The agent's user must be allowed what the agent does."""
    del local
    denied = [item for item in api.access if not item.allowed]
    for item in denied:
        make = problem if item.is_needed else warning
        hint = f"let its ClusterRole {item.verb} {item.resource}, and bind it to this user"
        found = f"no right to {item.verb} {item.resource}"
        yield make("access", found, allowed=f"it, for {item.purpose}", hint=hint)
    if api.access and not denied:
        yield good("access", f"all {len(api.access)} rights")
    if not api.access:
        hint = "let this user create selfsubjectaccessreviews"
        yield unknown("access", "nothing told of rights", allowed="answers to access reviews", hint=hint)


def check_rivals(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """One device must be offered by one plugin alone."""
    ours = {driver.name for driver in local.drivers}
    owners: dict[str, dict[str, str]] = {}
    for device in api.devices or ():
        for hardware in device.ids:
            owners.setdefault(hardware, {})[device.driver] = device.device
    twice = {hardware: found for hardware, found in owners.items() if len(found) > 1}
    ids = {id_: resource for resource, listed in local.registered.items() for id_ in listed}
    shared = {
        hardware: f"device plugin of {resource}"
        for hardware in owners
        for id_, resource in ids.items()
        if id_.partition("::")[0] == hardware and not owners[hardware].keys() & ours
    }
    for hardware, found in sorted(twice.items())[:_SHOWN]:
        names = " and ".join(f"{driver} as {name}" for driver, name in sorted(found.items()))
        yield problem("rivals", f"{hardware} offered by {names}", allowed="one driver", hint="stop one of the drivers")
    for hardware, plugin in sorted(shared.items())[:_SHOWN]:
        hint = "stop one of them, or let one agent serve both"
        names = f"{hardware} offered by a {plugin} and by {', '.join(sorted(owners[hardware]))}"
        yield problem("rivals", names, allowed="one plugin", hint=hint)
    if not twice and not shared:
        yield good("rivals", "no device is offered twice")


def check_claims(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """What is prepared for a claim that is gone holds devices for nobody."""
    if api.claims is None:
        allowed = "a list of claims"
        yield unknown(
            "claims", "claims that we may not list", allowed=allowed, hint="let this user list resourceclaims"
        )
        return
    gone = [name for driver in local.drivers for uid, name in driver.claims.items() if uid not in api.claims]
    if gone:
        hint = "start the agent, which releases them within seconds; see its log if they stay"
        found = f"devices held for {_join(gone)}"
        yield warning("claims", found, allowed="claims that are there", hint=hint)
    else:
        yield good("claims", "every prepared claim is there")


def check_pods(local: LocalFacts, api: ApiFacts) -> Iterator[Finding]:
    """A privileged container sees all devices by nature; a variable may show some to others."""
    del local
    if api.pods is None:
        hint = "let this user list pods"
        yield unknown("pods", "pods that we may not list", allowed="a list of the node's pods", hint=hint)
        return
    privileged = [pod.name for pod in api.pods if pod.is_privileged]
    asking = [pod.name for pod in api.pods if pod.sets_visible and not pod.is_privileged]
    if privileged:
        hint = "run them without privileged, or keep them off nodes with devices"
        found = f"{_join(privileged)} privileged, which see all devices of the node"
        yield warning("pods", found, allowed="pods that see what they were given", hint=hint)
    if asking:
        hint = "ask for devices in the pod's limits or claims; see that the runtime does not obey the variable"
        found = f"{_join(asking)} setting NVIDIA_VISIBLE_DEVICES without asking for a device"
        yield warning("pods", found, allowed="pods that see what they were given", hint=hint)
    if not privileged and not asking:
        yield good("pods", "all see what they were given")


API_CHECKS: Final[Mapping[str, ApiCheck]] = {
    "dra": check_dra,
    "node": check_node,
    "kubelet-version": check_kubelet_version,
    "gates": check_gates,
    "clock": check_clock,
    "access": check_access,
    "rivals": check_rivals,
    "claims": check_claims,
    "pods": check_pods,
}
"""All checks of what an API server that answers has told, in order."""


def _parse_version(text: str) -> tuple[int, int] | None:
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


def _join(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"
