"""What is wrong with the classes, claims, pods, taint rules and slices of a cluster. The entry point of lint."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from claimsmith.allocate.lint.correcting import Corrector
from claimsmith.allocate.lint.pools import SliceFault, find_pool_faults
from claimsmith.allocate.lint.published import Published
from claimsmith.allocate.lint.requests import lint_claim_spec, lint_class
from claimsmith.allocate.lint.slices import find_missing_node
from claimsmith.allocate.lint.values import Fault, Finding
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef
from claimsmith.model.pool import DeviceTaintRule
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["ObjectKey", "lint_cluster"]

ObjectKey = tuple[str, str, str]
"""Kind, namespace (empty for kinds without) and name."""


def lint_cluster(
    snapshot: ClusterSnapshot, *, only: Collection[ObjectKey] | None = None, made_templates: Collection[ClaimRef] = ()
) -> tuple[Finding, ...]:
    """Return what is wrong with objects, held against the devices that the cluster publishes.

    While nothing is published, selectors are not held against anything.

    Args:
        snapshot: The cluster.
        only: The objects to look at; None: all.
        made_templates: Claim templates that are not there yet, but will be made.
    """
    templates = {*snapshot.templates, *made_templates}
    found: list[Finding] = []
    for kind, metadata, faults in _list_checks(snapshot, Corrector(Published(snapshot)), templates=templates):
        key = (kind, metadata.namespace, metadata.name)
        if only is None or key in only:
            found += [Finding(kind=kind, namespace=key[1], name=key[2], fault=fault) for fault in faults]
    return (*found, *_lint_slices(snapshot, only))


def _list_checks(
    snapshot: ClusterSnapshot, corrector: Corrector, *, templates: Collection[ClaimRef]
) -> Iterator[tuple[str, Metadata, Iterator[Fault]]]:
    """Yield each object with the faults that it has, which are looked for when they are asked for."""
    for device_class in snapshot.classes.values():
        yield "DeviceClass", device_class.metadata, lint_class(device_class, corrector)
    for claim in snapshot.claims.values():
        if claim.allocation is None:
            yield "ResourceClaim", claim.metadata, lint_claim_spec(claim.spec, snapshot.classes, corrector)
    for template in snapshot.templates.values():
        faults = lint_claim_spec(template.spec, snapshot.classes, corrector, at="spec.spec")
        yield "ResourceClaimTemplate", template.metadata, faults
    for pod in snapshot.pods.values():
        yield "Pod", pod.metadata, _lint_pod(pod, snapshot, templates=templates)
    for rule in snapshot.taint_rules:
        yield "DeviceTaintRule", rule.metadata, _lint_rule(rule, corrector)


def _lint_slices(snapshot: ClusterSnapshot, only: Collection[ObjectKey] | None) -> Iterator[Finding]:
    """Yield what is wrong with slices: each by itself, and the pools that they make."""
    asked = None if only is None else {name for kind, _, name in only if kind == "ResourceSlice"}
    if asked is not None and not asked:
        return
    faults = [*find_pool_faults(snapshot.slices, asked=asked)]
    alone = ((item.name, find_missing_node(item, snapshot.nodes)) for item in snapshot.slices)
    faults += [SliceFault(slice=name, fault=fault) for name, fault in alone if fault is not None]
    for one in faults:
        if asked is None or one.slice in asked:
            yield Finding(kind="ResourceSlice", namespace="", name=one.slice, fault=one.fault)


def _lint_pod(pod: Pod, snapshot: ClusterSnapshot, *, templates: Collection[ClaimRef]) -> Iterator[Fault]:
    """Yield the claims, templates and group that a pod names but that don't exist."""
    if pod.node_name or pod.finished:
        return
    namespace = pod.metadata.namespace
    for place, entry in enumerate(pod.claims):
        path = f"spec.resourceClaims[{place}]"
        if entry.claim_name and ClaimRef(namespace, entry.claim_name) not in snapshot.claims:
            known = {ref.name for ref in snapshot.claims if ref.namespace == namespace}
            yield _miss("claim", entry.claim_name, known, f"{path}.resourceClaimName")
        if entry.template_name and ClaimRef(namespace, entry.template_name) not in templates:
            known = {ref.name for ref in templates if ref.namespace == namespace}
            yield _miss("claim template", entry.template_name, known, f"{path}.resourceClaimTemplateName")
    groups = {ref.name for ref in snapshot.pod_groups if ref.namespace == namespace}
    if pod.pod_group and pod.pod_group not in groups:
        yield _miss("pod group", pod.pod_group, groups, "spec.schedulingGroup.podGroupName")


def _miss(what: str, name: str, known: Collection[str], path: str) -> Fault:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean {near[0]}?" if near else "create it"
    text = f"{what} {name!r} does not exist in the pod's namespace; {hint}"
    return Fault(rule="missing-reference", severity="warning", path=path, text=text, corrected=near[0] if near else "")


def _lint_rule(rule: DeviceTaintRule, corrector: Corrector) -> Iterator[Fault]:
    """Yield a fault when a taint rule selects no published device."""
    devices = corrector.published.devices
    if not rule.selects or not devices:
        return
    left = list(devices)
    parts = (("driver", rule.driver), ("pool", rule.pool), ("device", rule.device))
    for field, wanted in parts:
        kept = [item for item in left if wanted is None or getattr(item.id, field) == wanted]
        if not kept and wanted is not None:
            known = sorted({str(getattr(item.id, field)) for item in left})
            near = difflib.get_close_matches(wanted, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Fault(
                rule="rule-selects-nothing",
                severity="warning",
                path=f"spec.deviceSelector.{field}",
                text=f"{field} {wanted!r}: no published device has it{hint}",
                corrected=near[0] if near else "",
            )
            return
        left = kept
