"""Claims that the pods of a group share: made once from their template, told to group and pods, released at the end.

Source: syncPodGroup, handlePodGroupClaim and syncClaim in pkg/controller/resourceclaim/controller.go of kubernetes
v1.37.2 (KEP-5729).
"""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

from claimsmith.api.kinds import POD, POD_GROUP, RESOURCE_CLAIM
from claimsmith.api.resource import parse_resource_claim
from claimsmith.cluster.follow import follow_claims, follow_groups, follow_pods, follow_templates
from claimsmith.embedded.controllers.claim_plans import (
    POD_CLAIM_ANNOTATION,
    build_group_claim,
    is_pod_done,
    plan_claim_statuses,
)
from claimsmith.errors import ForbiddenError, InvalidObjectError, NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.claim import FINALIZER, ConsumerReference, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.schedule.claims import ClaimWriter
from claimsmith.schedule.gangs import find_group_ref
from claimsmith.schedule.groupclaims import is_group_claim

__all__ = ["GroupClaimController"]


class _Key(NamedTuple):
    subject: Literal["group", "pod", "claim"]
    namespace: str
    name: str


class GroupClaimController:
    """Keeps the claims of pod groups.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        workers: Objects that are worked on at the same time.
    """

    def __init__(self, client: KubeClient, informers: Informers, *, workers: int = 4) -> None:
        self._client, self._writer = client, ClaimWriter(client)
        self._recorder = EventRecorder(client, "resource_claim")
        self._queue: WorkQueue[_Key] = WorkQueue("group claim controller", self._work, workers=workers)
        self._groups, self._pods = follow_groups(informers), follow_pods(informers)
        self._claims, self._templates = follow_claims(informers), follow_templates(informers)
        self._informers = informers
        self._made: dict[tuple[str, str], ClaimRef] = {}
        self._groups.subscribe(self._see_group)
        self._pods.subscribe(self._see_pod)
        self._claims.subscribe(self._see_claim)
        self._templates.subscribe(self._see_template)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="group claim controller events")
            group.create_task(self._queue.run(), name="group claim controller")

    # --- what there is to do ------------------------------------------------------------------------------------------

    def _see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None and new.spec.claims:
            self._queue.add(_Key("group", *new.ref))
            if old is None or old.claim_names != new.claim_names:
                self._queue_pods(new.ref)
        if old is not None and old.spec.claims and (new is None or new.uid != old.uid):
            for claim in self._claims:
                if any(item.uid == old.uid for item in claim.reserved_for):
                    self._queue.add(_Key("claim", *claim.ref))

    def _queue_pods(self, ref: PodGroupRef) -> None:
        for pod in self._pods:
            if find_group_ref(pod) == ref:
                self._queue.add(_Key("pod", *pod.ref))

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.pod_group and any(entry.template_name for entry in new.claims):
            self._queue.add(_Key("pod", *new.ref))

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (claim for claim in (old, new) if claim is not None):
            for owner in claim.metadata.owner_references:
                self._made.pop((owner.uid, claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")), None)
        if new is not None and any(item.is_pod_group for item in new.reserved_for):
            self._queue.add(_Key("claim", *new.ref))
        if new is None and old is not None:
            for owner in old.metadata.owner_references:
                if owner.kind == POD_GROUP.kind:
                    self._queue.add(_Key("group", old.ref.namespace, owner.name))

    def _see_template(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if new is None:
            return
        for group in self._groups:
            named = (entry.template_name for entry in group.spec.claims)
            if group.ref.namespace == new.metadata.namespace and new.metadata.name in named:
                self._queue.add(_Key("group", *group.ref))

    async def _work(self, key: _Key) -> None:
        match key.subject:
            case "group":
                await self._make_claims(PodGroupRef(key.namespace, key.name))
            case "pod":
                await self._tell_pod(key.namespace, key.name)
            case "claim":
                await self._release(ClaimRef(key.namespace, key.name))

    # --- doing it -----------------------------------------------------------------------------------------------------

    async def _make_claims(self, ref: PodGroupRef) -> None:
        """Make what a group needs from templates, and record the names in its status."""
        group = self._groups.find(*ref)
        if group is None or group.metadata.deletion_timestamp is not None:
            return
        names: dict[str, str] = {}
        for entry in group.spec.claims:
            if entry.template_name is None or self._has_claim(group, entry):
                continue
            made = self._find_made(group, entry) or await self._make_claim(group, entry, entry.template_name)
            if made is not None and made.name != group.claim_names.get(entry.name):
                names[entry.name] = made.name
        if names:
            patch = plan_claim_statuses(group.uid, names)
            await self._client.patch(
                POD_GROUP, ref.name, patch, namespace=ref.namespace, patch_type="strategic", subresource="status"
            )

    def _has_claim(self, group: PodGroup, entry: PodClaim) -> bool:
        """Whether a claim of the group is recorded for the entry and exists; None as its name: none is needed."""
        if entry.name not in group.claim_names:
            return False
        name = group.claim_names[entry.name]
        claim = self._claims.find(group.ref.namespace, name) if name is not None else None
        return name is None or (claim is not None and _is_owned(claim, group))

    def _find_made(self, group: PodGroup, entry: PodClaim) -> ClaimRef | None:
        """Return the claim that an earlier try has made, but that is not recorded yet; None for none."""
        for claim in self._claims:
            if _is_owned(claim, group) and claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == entry.name:
                return claim.ref
        return self._made.get((group.uid, entry.name))

    async def _make_claim(self, group: PodGroup, entry: PodClaim, template_name: str) -> ClaimRef | None:
        namespace = group.ref.namespace
        template = self._templates.find(namespace, template_name)
        if template is None:
            text = f"claim template {namespace}/{template_name} does not exist; create it"
            self._warn(group, f"claim {entry.name!r} of the group: {text}")
            return None
        try:
            body = build_group_claim(group, entry, template)
            stored = await self._client.create(RESOURCE_CLAIM, body, namespace=namespace)
        except (ForbiddenError, InvalidObjectError) as error:
            self._warn(group, f"claim {entry.name!r} of the group: {error}")
            raise
        made = parse_resource_claim(stored).ref
        if self._claims.find(*made) is None:
            self._made[group.uid, entry.name] = made
        return made

    async def _tell_pod(self, namespace: str, name: str) -> None:
        """Record the names of the group's claims in the status of one of its pods."""
        pod = self._pods.find(namespace, name)
        group = self._groups.find(namespace, pod.pod_group) if pod is not None else None
        if pod is None or group is None or is_pod_done(pod):
            return
        names = {
            entry.name: group.claim_names[entry.name]
            for entry in pod.claims
            if entry.template_name and is_group_claim(entry, group) and entry.name in group.claim_names
        }
        missing = {key: claim for key, claim in names.items() if claim and pod.claim_names.get(key) != claim}
        if not missing:
            return
        patch = plan_claim_statuses(pod.uid, missing)
        await self._client.patch(POD, name, patch, namespace=namespace, patch_type="strategic", subresource="status")

    async def _release(self, ref: ClaimRef) -> None:
        """Take groups that are gone off a claim; it is deallocated when nobody else uses it."""
        claim = self._claims.find(*ref)
        if claim is None:
            return
        gone = {item.uid for item in claim.reserved_for if item.is_pod_group and await self._is_gone(ref, item)}
        if gone:
            try:
                await self._writer.release(claim, gone, keep_allocation=FINALIZER not in claim.metadata.finalizers)
            except NotFoundError:
                return

    async def _is_gone(self, ref: ClaimRef, consumer: ConsumerReference) -> bool:
        """Whether a group that uses a claim is no more; one that is not known is looked up at the server."""
        group = self._groups.find(ref.namespace, consumer.name)
        if group is not None:
            return group.uid != consumer.uid
        try:
            found = await self._client.get(POD_GROUP, consumer.name, namespace=ref.namespace)
        except NotFoundError:
            return True
        return bool(found["metadata"].get("uid") != consumer.uid)

    def _warn(self, group: PodGroup, text: str) -> None:
        about = ObjectReference(kind=POD_GROUP, name=group.ref.name, namespace=group.ref.namespace, uid=group.uid)
        self._recorder.record(about, "Warning", "FailedResourceClaimCreation", text)


def _is_owned(claim: ResourceClaim, group: PodGroup) -> bool:
    return any(owner.uid == group.uid and owner.controller for owner in claim.metadata.owner_references)
