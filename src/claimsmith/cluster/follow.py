"""The reflectors that keep a cache of the cluster up to date."""

from __future__ import annotations

from claimsmith.api import core, resource, scheduling
from claimsmith.api.core_pods import parse_pod
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from claimsmith.cluster.cache import ClusterCache
from claimsmith.kube.informers import Informers
from claimsmith.kube.reflector import Reflector
from claimsmith.model.claim import ResourceClaim, ResourceClaimTemplate
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod

__all__ = ["follow_claims", "follow_cluster", "follow_groups", "follow_nodes", "follow_pods", "follow_templates"]


def follow_pods(informers: Informers) -> Reflector[Pod]:
    """Return the shared reflector of all pods."""
    return informers.of(POD, parse_pod)


def follow_claims(informers: Informers) -> Reflector[ResourceClaim]:
    """Return the shared reflector of all claims."""
    return informers.of(RESOURCE_CLAIM, resource.parse_resource_claim)


def follow_templates(informers: Informers) -> Reflector[ResourceClaimTemplate]:
    """Return the shared reflector of all claim templates."""
    return informers.of(RESOURCE_CLAIM_TEMPLATE, resource.parse_resource_claim_template)


def follow_nodes(informers: Informers) -> Reflector[Node]:
    """Return the shared reflector of all nodes."""
    return informers.of(NODE, core.parse_node)


def follow_groups(informers: Informers) -> Reflector[PodGroup]:
    """Return the shared reflector of all pod groups; a server that does not know the kind has none."""
    return informers.of(POD_GROUP, scheduling.parse_pod_group)


def follow_cluster(informers: Informers, cache: ClusterCache) -> None:
    """Feed the cache from the shared reflectors of all kinds that a decision depends on."""
    follow_nodes(informers).subscribe(cache.see_node)
    informers.of(RESOURCE_SLICE, resource.parse_resource_slice).subscribe(cache.see_slice)
    informers.of(DEVICE_CLASS, resource.parse_device_class).subscribe(cache.see_class)
    informers.of(DEVICE_TAINT_RULE, resource.parse_device_taint_rule).subscribe(cache.see_taint_rule)
    informers.of(NAMESPACE, core.parse_namespace).subscribe(cache.see_namespace)
    follow_templates(informers).subscribe(cache.see_template)
    follow_groups(informers).subscribe(cache.see_group)
    follow_claims(informers).subscribe(cache.see_claim)
    follow_pods(informers).subscribe(cache.see_pod)
