"""The claim controller: makes claims from templates, takes finished pods off claims, frees and deletes claims.

Claims that the pods of a group share are left to the controller of group claims.

Source: pkg/controller/resourceclaim/controller.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from claimsmith.api.kinds import POD, RESOURCE_CLAIM
from claimsmith.api.resource import parse_resource_claim
from claimsmith.cluster.follow import follow_claims, follow_groups, follow_pods, follow_templates
from claimsmith.embedded.controllers.claim_plans import (
    POD_CLAIM_ANNOTATION,
    build_template_claim,
    find_made_claim,
    find_owning_pod,
    find_pod_claims,
    is_pod,
    is_pod_done,
    plan_claim_statuses,
    plan_upkeep,
)
from claimsmith.errors import ForbiddenError, InvalidObjectError, NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.claim import FINALIZER, ConsumerReference, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.schedule.claims import RESERVED_MAX, ClaimWriter, is_reserved_for
from claimsmith.schedule.gangs import find_group_ref
from claimsmith.schedule.groupclaims import find_claim_consumer, is_group_claim, is_made_for

__all__ = ["ClaimController"]

_DELETED_MAX: Final = 10_000
_RESERVE_AFTER_S: Final = 5.0


class _Key(NamedTuple):
    subject: Literal["pod", "claim", "reserve"]
    namespace: str
    name: str


class ClaimController:
    """Keeps the claims of a cluster in order.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        writer: Writes to claims.
        workers: Objects that are worked on at the same time.
    """

    def __init__(
        self, client: KubeClient, informers: Informers, *, writer: ClaimWriter | None = None, workers: int = 8
    ) -> None:
        self._client, self._writer = client, writer or ClaimWriter(client)
        self._recorder = EventRecorder(client, "resource_claim")
        self._queue: WorkQueue[_Key] = WorkQueue("claim controller", self._work, workers=workers)
        self._pods, self._claims = follow_pods(informers), follow_claims(informers)
        self._templates, self._groups = follow_templates(informers), follow_groups(informers)
        self._informers = informers
        self._by_consumer: defaultdict[str, set[ClaimRef]] = defaultdict(set)
        self._by_owner: defaultdict[str, set[ClaimRef]] = defaultdict(set)
        self._users: defaultdict[ClaimRef, set[PodRef]] = defaultdict(set)
        self._made: dict[tuple[str, str], ResourceClaim] = {}
        self._awaiting: defaultdict[ClaimRef, set[PodRef]] = defaultdict(set)
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._claims.subscribe(self._see_claim)
        self._pods.subscribe(self._see_pod)
        self._templates.subscribe(self._see_template)
        self._groups.subscribe(self._see_group)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        for pod in self._pods:
            self._queue_pod(pod)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="claim controller events")
            group.create_task(self._queue.run(), name="claim controller")

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None:
            self._index(old, remove=True)
        if new is not None:
            self._index(new)
            owner_uid, entry = find_owning_pod(new)[1], new.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
            self._made.pop((owner_uid, entry), None)
            self._queue.add(_Key("claim", *new.ref))
            self._queue_reservations(new)
            return
        owner = find_owning_pod(old)[0] if old is not None else None
        if owner is not None:
            self._queue.add(_Key("pod", *owner))

    def _index(self, claim: ResourceClaim, *, remove: bool = False) -> None:
        entries = [(self._by_consumer, item.uid) for item in claim.reserved_for]
        owner_uid = find_owning_pod(claim)[1]
        if owner_uid:
            entries.append((self._by_owner, owner_uid))
        for index, uid in entries:
            if not remove:
                index[uid].add(claim.ref)
            elif uid in index:
                index[uid].discard(claim.ref)
                if not index[uid]:
                    del index[uid]

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._note_uses(old, remove=True)
        if old is not None and (new is None or new.uid != old.uid):
            self._deleted[old.uid] = None
            if len(self._deleted) > _DELETED_MAX:
                self._deleted.popitem(last=False)
            self._enqueue_claims(old.uid)
            for entry in old.claims:
                self._made.pop((old.uid, entry.name), None)
        if new is None:
            return
        self._note_uses(new)
        if is_pod_done(new):
            self._enqueue_claims(new.uid)
        elif any(entry.template_name and entry.name not in new.claim_names for entry in new.claims):
            self._queue.add(_Key("pod", *new.ref))
        elif new.node_name and (old is None or not old.node_name) and new.claims:
            self._queue.add_after(_Key("reserve", *new.ref), _RESERVE_AFTER_S)

    def _queue_pod(self, pod: Pod) -> None:
        """Look after a pod whose claims somebody may have deleted while no controller ran."""
        if any(entry.template_name for entry in pod.claims) and not is_pod_done(pod):
            self._queue.add(_Key("pod", *pod.ref))

    def _queue_reservations(self, claim: ResourceClaim) -> None:
        """Look after pods that were bound before their claim was allocated."""
        if claim.allocation is None or len(claim.reserved_for) >= RESERVED_MAX:
            return
        for ref in self._users.get(claim.ref, ()):
            pod = self._pods.find(*ref)
            if pod is not None and pod.node_name and not is_pod_done(pod) and not is_reserved_for(claim, pod.uid):
                self._queue.add_after(_Key("reserve", *ref), _RESERVE_AFTER_S)

    def _note_uses(self, pod: Pod, *, remove: bool = False) -> None:
        for ref, _ in find_pod_claims(pod):
            if not remove:
                self._users[ref].add(pod.ref)
            elif ref in self._users:
                self._users[ref].discard(pod.ref)
                if not self._users[ref]:
                    del self._users[ref]

    def _see_template(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if new is not None:
            ref = ClaimRef(new.metadata.namespace, new.metadata.name)
            for pod in self._awaiting.pop(ref, ()):
                self._queue.add(_Key("pod", *pod))

    def _see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Look after the pods that have waited for their group, which settles whose their claims are."""
        if old is None and new is not None:
            for pod in self._pods:
                if find_group_ref(pod) == new.ref:
                    self._queue_pod(pod)

    def _enqueue_claims(self, pod_uid: str) -> None:
        for ref in self._by_consumer.get(pod_uid, set()) | self._by_owner.get(pod_uid, set()):
            self._queue.add(_Key("claim", *ref))

    async def _work(self, key: _Key) -> None:
        match key.subject:
            case "pod":
                await self._make_claims(PodRef(key.namespace, key.name))
            case "claim":
                await self._keep_up(ClaimRef(key.namespace, key.name))
            case "reserve":
                await self._reserve(PodRef(key.namespace, key.name))

    async def _make_claims(self, ref: PodRef) -> None:
        """Make what a pod needs from templates, and record the names in its status."""
        pod = self._pods.find(*ref)
        if pod is None or is_pod_done(pod) or pod.metadata.deletion_timestamp is not None:
            return
        names: dict[str, str] = {}
        group = self._groups.find(ref.namespace, pod.pod_group) if pod.pod_group else None
        if pod.pod_group and group is None:
            return
        for entry in pod.claims:
            if entry.template_name and not is_group_claim(entry, group) and not await self._has_claim(pod, entry):
                made = await self._make_claim(pod, entry, entry.template_name)
                if made is None:
                    return
                names[entry.name] = made.name
        if names:
            patch = plan_claim_statuses(pod.uid, names)
            await self._client.patch(
                POD, ref.name, patch, namespace=ref.namespace, patch_type="strategic", subresource="status"
            )

    async def _has_claim(self, pod: Pod, entry: PodClaim) -> bool:
        """Whether a claim is recorded for the entry and exists; None as its name says that none is needed.

        One that is not known here is looked up at the server, which may be ahead. Source: claimExists in controller.go.
        """
        if entry.name not in pod.claim_names:
            return False
        name = pod.claim_names[entry.name]
        if name is None or (pod.uid, entry.name) in self._made:
            return True
        claim = self._claims.find(pod.metadata.namespace, name)
        if claim is None:
            try:
                found = await self._client.get(RESOURCE_CLAIM, name, namespace=pod.metadata.namespace)
            except NotFoundError:
                return False
            claim = parse_resource_claim(found)
        return find_owning_pod(claim)[1] == pod.uid

    async def _make_claim(self, pod: Pod, entry: PodClaim, template_name: str) -> ClaimRef | None:
        """Make the claim of one entry, or find the one that an earlier try has made."""
        made = self._made.get((pod.uid, entry.name))
        if made is not None:
            return made.ref
        present = (self._claims.find(*ref) for ref in self._by_owner.get(pod.uid, ()))
        found = find_made_claim(pod, entry, tuple(claim for claim in present if claim is not None))
        if found is not None:
            return found
        template = self._templates.find(pod.metadata.namespace, template_name)
        if template is None:
            self._await_template(pod, entry, template_name)
            return None
        body = build_template_claim(pod, entry, template)
        try:
            stored = await self._client.create(RESOURCE_CLAIM, body, namespace=pod.metadata.namespace)
        except (ForbiddenError, InvalidObjectError) as error:
            self._tell(pod, f"claim {entry.name!r} of the pod: {error}")
            raise
        claim = parse_resource_claim(stored)
        if self._claims.find(*claim.ref) is None:
            self._made[pod.uid, entry.name] = claim
        return claim.ref

    def _await_template(self, pod: Pod, entry: PodClaim, template_name: str) -> None:
        """Make the claim as soon as the template is there, and tell people that it is not."""
        ref = ClaimRef(pod.metadata.namespace, template_name)
        self._awaiting[ref].add(pod.ref)
        self._tell(pod, f"claim {entry.name!r} of the pod: claim template {ref} does not exist; create it")

    def _tell(self, pod: Pod, text: str) -> None:
        about = ObjectReference(kind=POD, name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.uid)
        self._recorder.record(about, "Warning", "FailedResourceClaimCreation", text)

    async def _keep_up(self, ref: ClaimRef) -> None:
        """Take consumers that are gone off a claim, free its devices, delete it."""
        claim = self._claims.find(*ref)
        if claim is None:
            return
        gone = {item.uid for item in claim.reserved_for if is_pod(item) and await self._is_gone(ref, item)}
        owner = find_owning_pod(claim)[0]
        pod = self._pods.find(*owner) if owner is not None else None
        upkeep = plan_upkeep(claim, lambda item: item.uid in gone, pod)
        if not upkeep.is_needed:
            return
        try:
            if upkeep.release or upkeep.deallocate:
                keep = FINALIZER not in claim.metadata.finalizers
                await self._writer.release(claim, upkeep.release, keep_allocation=keep)
            if upkeep.delete:
                await self._writer.delete(claim)
        except NotFoundError:
            return

    async def _is_gone(self, ref: ClaimRef, consumer: ConsumerReference) -> bool:
        """Whether a pod that uses a claim will never run again; one never seen is looked up at the server."""
        pod = self._pods.find(ref.namespace, consumer.name)
        if pod is not None and pod.uid == consumer.uid:
            return is_pod_done(pod)
        if pod is not None or consumer.uid in self._deleted:
            return True
        try:
            found = await self._client.get(POD, consumer.name, namespace=ref.namespace)
        except NotFoundError:
            return True
        return bool(found["metadata"].get("uid") != consumer.uid)

    async def _reserve(self, ref: PodRef) -> None:
        """Reserve allocated claims for a pod that was bound without a scheduler that knows claims."""
        pod = self._pods.find(*ref)
        if pod is None or not pod.node_name or is_pod_done(pod) or pod.metadata.deletion_timestamp is not None:
            return
        group = self._groups.find(ref.namespace, pod.pod_group) if pod.pod_group else None
        for claim_ref, must_own in find_pod_claims(replace(pod, extended_claim_name="")):
            claim = self._claims.find(*claim_ref)
            consumer = find_claim_consumer(pod, claim_ref, group)
            if claim is None or claim.allocation is None or is_reserved_for(claim, consumer.uid):
                continue
            if must_own and not is_made_for(claim, pod, group):
                continue
            if len(claim.reserved_for) < RESERVED_MAX:
                await self._writer.reserve(claim, consumer)
