"""What the kubelet reads of a pod and of a claim: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from claimsmith.errors import PodStartError
from claimsmith.model.quantity import find_quantity
from claimsmith.validate.names import is_extended_resource_name

__all__ = [
    "EXIT_CODE",
    "RUN_FOR",
    "ContainerView",
    "PodClaimView",
    "PodView",
    "find_run_time_s",
    "parse_duration_s",
    "view_pod",
]

RUN_FOR: Final = "claimsmith.dev/run-for"
"""Annotation: how long the containers of a pod run, such as `2s` or `1m30s`."""
EXIT_CODE: Final = "claimsmith.dev/exit-code"
"""Annotation: the exit code of the containers of a pod; 0 without it."""

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SLEEP: Final = re.compile(r"(?:^|[\s;&/])sleep\s+(\d+(?:\.\d+)?(?:ms|[smhd])?|infinity|inf)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """One container.

    Args:
        words: Command and arguments.
        claims: (pod claim, request) pairs; request empty for all.
        extended: Names of the resources that it asks for.
        limits: Amounts of extended resources, by name.
        sidecar: An init container that goes on running.
    """

    name: str
    image: str = ""
    env: Mapping[str, str]
    words: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    extended: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    sidecar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaimView:
    """One claim of a pod.

    Args:
        pod_name: Name by which containers use it; empty for the claim of extended resources.
        claim_name: Name of the ResourceClaim; None when none was needed.
        from_template: Whether the claim must be owned by the pod.
        made: False while the claim has not been made from its template.
    """

    pod_name: str
    claim_name: str | None
    from_template: bool = False
    made: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod, as far as a kubelet that pretends to run it needs it.

    Args:
        extended: (container, resource, request) of the claim of extended resources.
        conditions: As stored; the kubelet writes the list as a whole.
        started_at: `status.startTime`; empty before.
        deleting: Whether the pod is to end.
    """

    namespace: str
    name: str
    uid: str
    node_name: str
    phase: str
    restart_policy: str
    containers: tuple[ContainerView, ...]
    init_containers: tuple[ContainerView, ...]
    claims: tuple[PodClaimView, ...]
    extended: tuple[tuple[str, str, str], ...]
    annotations: Mapping[str, str]
    conditions: Sequence[Mapping[str, Any]]
    started_at: str
    pod_ip: str
    deleting: bool
    resource_version: str
    pod_group: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether no container will run again."""
        return self.phase in ("Succeeded", "Failed")


def view_pod(pod: Mapping[str, Any]) -> PodView:
    """Return the view of a pod as decoded JSON.

    Source: resourceclaim.Name of k8s.io/dynamic-resource-allocation v0.37.2.
    """
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    extended = status.get("extendedResourceClaimStatus") or {}
    return PodView(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        node_name=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        restart_policy=spec.get("restartPolicy") or "Always",
        containers=tuple(_view_container(container) for container in spec.get("containers") or ()),
        init_containers=tuple(_view_container(container) for container in spec.get("initContainers") or ()),
        claims=_view_claims(spec, status),
        extended=tuple(
            (mapping.get("containerName", ""), mapping.get("resourceName", ""), mapping.get("requestName", ""))
            for mapping in extended.get("requestMappings") or ()
        ),
        annotations=metadata.get("annotations") or {},
        conditions=status.get("conditions") or (),
        started_at=status.get("startTime") or "",
        pod_ip=status.get("podIP") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        resource_version=metadata.get("resourceVersion", ""),
        pod_group=(spec.get("schedulingGroup") or {}).get("podGroupName") or "",
    )


def find_run_time_s(pod: PodView, container: ContainerView) -> float | None:
    """Return for how many seconds a container runs; None: until its pod is deleted.

    The annotation `claimsmith.dev/run-for` decides, else a `sleep` in the command. No program is run.

    Raises:
        PodStartError: The annotation is no duration.
    """
    if pod.restart_policy == "Always":
        return None
    if (text := pod.annotations.get(RUN_FOR)) is not None:
        return parse_duration_s(text)
    found = _SLEEP.search(" ".join(container.words))
    if found is None or found[1].startswith("inf"):
        return None
    amount = found[1]
    return parse_duration_s(amount if amount[-1].isalpha() else f"{amount}s")


def parse_duration_s(text: str) -> float:
    """Return the seconds of a duration such as `2s`, `500ms` or `1m30s`.

    Raises:
        PodStartError: It is none.
    """
    parts = _PART.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise PodStartError(
            f"annotation {RUN_FOR}: found {text[:80]!r}, allowed a duration such as 2s or 1m30s; correct it",
            reason="InvalidAnnotation",
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _view_container(container: Mapping[str, Any]) -> ContainerView:
    resources = container.get("resources") or {}
    return ContainerView(
        name=container.get("name", ""),
        image=container.get("image") or "",
        env={item["name"]: item["value"] for item in container.get("env") or () if item.get("value") is not None},
        words=tuple(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))),
        claims=tuple((claim.get("name", ""), claim.get("request") or "") for claim in resources.get("claims") or ()),
        extended=frozenset({**(resources.get("limits") or {}), **(resources.get("requests") or {})}),
        limits=_view_amounts({**(resources.get("requests") or {}), **(resources.get("limits") or {})}),
        sidecar=container.get("restartPolicy") == "Always",
    )


def _view_amounts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the amounts of extended resources, which are whole numbers."""
    found = {name: find_quantity(str(text)) for name, text in amounts.items() if is_extended_resource_name(name)}
    return {name: amount.value() for name, amount in found.items() if amount is not None}


def _view_claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[PodClaimView, ...]:
    made = {item.get("name"): item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or ()}
    claims = [_view_claim(claim, made) for claim in spec.get("resourceClaims") or ()]
    if extended := (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"):
        claims.append(PodClaimView(pod_name="", claim_name=extended))
    return tuple(claims)


def _view_claim(claim: Mapping[str, Any], made: Mapping[str, str | None]) -> PodClaimView:
    name = claim.get("name", "")
    if claim.get("resourceClaimName"):
        return PodClaimView(pod_name=name, claim_name=claim["resourceClaimName"])
    return PodClaimView(pod_name=name, claim_name=made.get(name), from_template=True, made=name in made)
