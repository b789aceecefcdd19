"""From a claim in the API server to what the driver is asked: pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from claimsmith.errors import ClaimNotReadyError
from claimsmith.model.claim import AllocationConfig, AllocationResult, DeviceResult, ResourceClaim
from claimsmith.model.names import RequestName
from claimsmith.model.prepared import ClaimKey, DeviceConfiguration, PrepareRequest, RequestedDevice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement

__all__ = ["POD_CLAIM_ANNOTATION", "parse_prepare_request"]

POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made from a template. Source: PodResourceClaimAnnotation of resource/v1."""
_PRECEDENCE = ("FromClass", "FromClaim")


def parse_prepare_request(claim: ResourceClaim, key: ClaimKey, *, driver: str, node_name: str) -> PrepareRequest:
    """Return what a driver is asked to prepare for a claim on a node.

    Args:
        claim: The claim as the API server has it now.
        key: The claim as the kubelet names it.
        driver: Name of the driver whose devices are wanted.
        node_name: Name of this node.

    Raises:
        ClaimNotReadyError: It is another claim of the same name, or not allocated, reserved or meant for this node, or
            has no device of the driver.

    Source: getResourceClaims of kubeletplugin in k8s.io/dynamic-resource-allocation v0.37.2; the last three checks are
    ours.
    """
    if claim.uid != key.uid:
        raise ClaimNotReadyError(
            key, f"found uid {claim.uid}, allowed {key.uid}: it was deleted and made again", lasts=True
        )
    allocation = claim.allocation
    if allocation is None:
        raise ClaimNotReadyError(key, "found no allocation, allowed an allocated claim")
    if not claim.reserved_for:
        raise ClaimNotReadyError(key, "found it reserved for nobody, allowed a claim that is reserved for a pod")
    if allocation.node_selector is not None and _excludes(allocation.node_selector, node_name):
        raise ClaimNotReadyError(
            key, f"found it allocated for another node, allowed one for node {node_name}", lasts=True
        )
    devices = tuple(_requested(result, allocation) for result in allocation.results if result.driver == driver)
    if not devices:
        raise ClaimNotReadyError(key, f"found no device of driver {driver}, allowed a claim that has some", lasts=True)
    template_name = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return PrepareRequest(claim=key, devices=devices, pod_claim_name=template_name)


def _excludes(selector: NodeSelector, node_name: str) -> bool:
    """Whether the selector can't match the node, judged by its name alone: a driver does not know the node's labels."""
    return not any(
        all(_matches_name(requirement, node_name) for requirement in term.match_fields) for term in selector.terms
    )


def _matches_name(requirement: NodeSelectorRequirement, node_name: str) -> bool:
    if requirement.key != "metadata.name":
        return True
    return (node_name in requirement.values) == (requirement.operator == "In")


def _requested(result: DeviceResult, allocation: AllocationResult) -> RequestedDevice:
    name = RequestName.parse(result.request)
    return RequestedDevice(
        id=result.device_id,
        request=name.request,
        subrequest=name.subrequest,
        share_id=result.share_id or "",
        consumed_capacity=result.consumed_capacity or {},
        admin_access=bool(result.admin_access),
        configs=tuple(_configs_of(result, name, allocation.config)),
    )


def _configs_of(
    result: DeviceResult, name: RequestName, configs: tuple[AllocationConfig, ...]
) -> Iterator[DeviceConfiguration]:
    """Yield the configurations for a device: those of classes before those of the claim, which win."""
    for source in _PRECEDENCE:
        for config in configs:
            opaque = config.opaque
            if config.source != source or opaque is None or opaque.driver != result.driver:
                continue
            if not config.requests or {result.request, name.request} & set(config.requests):
                yield DeviceConfiguration(source=source, parameters=opaque.parameters, requests=config.requests)
