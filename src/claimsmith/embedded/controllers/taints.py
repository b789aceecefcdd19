"""The device taint eviction controller: deletes pods whose devices are tainted NoExecute, and tells rules about it.

Source: pkg/controller/devicetainteviction/device_taint_eviction.go of kubernetes v1.37.2.

Deviates: eviction-queue.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from claimsmith.api import resource
from claimsmith.api.kinds import DEVICE_TAINT_RULE, POD, RESOURCE_SLICE
from claimsmith.cluster.follow import follow_claims, follow_pods
from claimsmith.embedded.api.ages import parse_time
from claimsmith.embedded.controllers.claim_plans import is_pod
from claimsmith.embedded.controllers.disruption import PodKey, disruption, drive_away, format_moment
from claimsmith.embedded.controllers.taint_index import TaintIndex
from claimsmith.embedded.controllers.taint_plans import (
    EVICTION_IN_PROGRESS,
    Eviction,
    RuleCounts,
    build_rule_condition,
    plan_claim_eviction,
    plan_pod_eviction,
    rule_selects,
)
from claimsmith.errors import NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.podgroup import PodGroupRef
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import find_group_ref

__all__ = ["TaintEvictionController"]

_COMPONENT: Final = "device-taint-eviction-controller"
_EVICTED_MAX: Final = 500
_EVENT: Final = "DeviceTaintManagerEviction"
_CONDITION: Final = disruption("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint")


class _Key(NamedTuple):
    subject: Literal["pod", "rule"]
    namespace: str
    name: str
    uid: str


class TaintEvictionController:
    """Drives pods off tainted devices.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        status_period_s: Least seconds between two reports of one rule's progress.
        now: The time of day, against which the times of taints count.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        *,
        status_period_s: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._informers, self._now = client, informers, now
        self._status_period_s = status_period_s
        self._recorder = EventRecorder(client, _COMPONENT, now=now)
        self._queue: WorkQueue[_Key] = WorkQueue("device taint eviction", self._work, workers=8)
        self._index = TaintIndex()
        self._evictions: dict[ClaimRef, Eviction | None] = {}
        self._by_device: defaultdict[DeviceId, set[ClaimRef]] = defaultdict(set)
        self._due: dict[_Key, Eviction] = {}
        self._evicted: OrderedDict[str, None] = OrderedDict()
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._reports_due: set[_Key] = set()
        self._pods, self._claims = follow_pods(informers), follow_claims(informers)
        self._rules = informers.of(DEVICE_TAINT_RULE, resource.parse_device_taint_rule)
        informers.of(RESOURCE_SLICE, resource.parse_resource_slice).subscribe(self._see_slice)
        self._rules.subscribe(self._see_rule)
        self._claims.subscribe(self._see_claim)
        self._pods.subscribe(self._see_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        for pod in self._pods:
            self._check_pod(pod)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="device taint eviction events")
            group.create_task(self._queue.run(), name="device taint eviction")

    def _see_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for ref in {ref for device in self._index.see_slice(old, new) for ref in self._by_device.get(device, ())}:
            self._settle_claim(ref)

    def _see_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._counts.pop(old.metadata.uid, None)
        elif old is not None and new is not None and _content(old) == _content(new):
            return
        self._index.see_rule(old, new)
        if new is not None:
            self._queue.add(_key_of_rule(new))
        for ref in tuple(self._evictions):
            self._settle_claim(ref)

    def _settle_claim(self, ref: ClaimRef) -> None:
        """Find anew when the users of an allocated claim must go."""
        claim = self._claims.find(*ref)
        if claim is None:
            return
        eviction = plan_claim_eviction(claim, self._index.find_taints)
        if eviction != self._evictions.get(ref):
            self._evictions[ref] = eviction
            self._check_users(claim)

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and old.allocation is not None:
            self._forget_claim(old)
        if new is not None and new.allocation is not None:
            self._evictions[new.ref] = plan_claim_eviction(new, self._index.find_taints)
            for result in new.allocation.results:
                self._by_device[result.device_id].add(new.ref)
        for claim in (old, new):
            if claim is not None:
                self._check_users(claim)

    def _forget_claim(self, claim: ResourceClaim) -> None:
        self._evictions.pop(claim.ref, None)
        for result in claim.allocation.results if claim.allocation is not None else ():
            refs = self._by_device[result.device_id]
            refs.discard(claim.ref)
            if not refs:
                del self._by_device[result.device_id]

    def _check_users(self, claim: ResourceClaim) -> None:
        for consumer in claim.reserved_for:
            if consumer.is_pod_group:
                group = PodGroupRef(claim.ref.namespace, consumer.name)
                for member in (item for item in self._pods if find_group_ref(item) == group):
                    self._check_pod(member)
                continue
            pod = self._pods.find(claim.ref.namespace, consumer.name) if is_pod(consumer) else None
            if pod is not None and pod.uid == consumer.uid:
                self._check_pod(pod)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._due.pop(_key_of_pod(old), None)
        if new is not None and (old is None or old.uid != new.uid or _uses(old) != _uses(new)):
            self._check_pod(new)

    def _check_pod(self, pod: Pod) -> None:
        """Plan the eviction of a pod, or take it back."""
        eviction, key = self._plan(pod), _key_of_pod(pod)
        if eviction is None:
            if self._due.pop(key, None) is not None:
                self._recorder.record(_about(key), "Normal", _EVENT, "Cancelling deletion")
            return
        if self._due.get(key) == eviction or pod.uid in self._evicted:
            return
        self._due[key] = eviction
        self._queue.add(key)
        for uid in eviction.rule_uids:
            self._report_later(uid)

    def _plan(self, pod: Pod) -> Eviction | None:
        return plan_pod_eviction(pod, lambda ref: self._claims.find(*ref), self._evictions.get)

    async def _work(self, key: _Key) -> None:
        await (self._evict(key) if key.subject == "pod" else self._report(key))

    async def _evict(self, key: _Key) -> None:
        """Delete a pod whose time has come; earlier than that, come again."""
        eviction = self._due.get(key)
        if eviction is None or key.uid in self._evicted:
            return
        left_s = eviction.at_s - self._now().timestamp()
        if left_s > 0:
            self._queue.add_after(key, left_s)
            return
        with suppress(NotFoundError):
            if await self._delete(key):
                self._count(eviction)
        self._due.pop(key, None)
        self._evicted[key.uid] = None
        if len(self._evicted) > _EVICTED_MAX:
            self._evicted.popitem(last=False)

    def _count(self, eviction: Eviction) -> None:
        for uid in eviction.rule_uids:
            self._counts[uid] += 1
            self._report_later(uid)

    async def _delete(self, key: _Key) -> bool:
        """Mark and delete this very pod; False when another pod has its name now.

        Raises:
            NotFoundError: It is gone.
            ApiError: The server refused or could not be reached.
        """
        return await drive_away(
            self._client,
            PodKey(key.namespace, key.name, key.uid),
            _CONDITION,
            now=self._now(),
            marking=lambda: self._recorder.record(_about(key), "Normal", _EVENT, "Marking for deletion"),
        )

    def _report_later(self, rule_uid: str) -> None:
        """Report on a rule after a while, since more pods may come."""
        rule = next((item for item in self._rules if item.metadata.uid == rule_uid), None)
        if rule is not None and (key := _key_of_rule(rule)) not in self._reports_due:
            self._reports_due.add(key)
            self._queue.add_after(key, self._status_period_s)

    async def _report(self, key: _Key) -> None:
        """Write a rule's progress into its status, unless that was done just now."""
        self._reports_due.discard(key)
        rule = self._rules.find("", key.name)
        if rule is None or rule.metadata.uid != key.uid:
            return
        known: Mapping[str, object] = next((i for i in rule.conditions if i.get("type") == EVICTION_IN_PROGRESS), {})
        since_s = self._now().timestamp() - (parse_time(str(known.get("lastTransitionTime", ""))) or 0.0)
        if known.get("observedGeneration") == rule.metadata.generation and since_s < self._status_period_s:
            self._reports_due.add(key)
            self._queue.add_after(key, self._status_period_s - since_s)
            return
        condition = build_rule_condition(rule, self._count_for(rule))
        if any((known.get(name) or None) != (value or None) for name, value in condition.items()):
            body = {
                "metadata": {"name": key.name, "uid": key.uid},
                "status": {"conditions": [{**condition, "lastTransitionTime": format_moment(self._now())}]},
            }
            await self._client.apply(
                DEVICE_TAINT_RULE, body, field_manager=_COMPONENT, force=True, subresource="status"
            )

    def _count_for(self, rule: DeviceTaintRule) -> RuleCounts:
        """What a rule drives out, or would if its effect None were NoExecute."""
        evicted, find = self._counts.get(rule.metadata.uid, 0), self._evictions.get
        if rule.taint.effect not in ("None", "NoExecute"):
            return RuleCounts(evicted=evicted)
        is_dry = rule.taint.effect == "None"
        if is_dry:
            as_if = {
                ref: plan_claim_eviction(claim, lambda device: self._index.find_taints_as_if(device, rule))
                for ref in self._evictions
                if (claim := self._claims.find(*ref)) is not None
            }
            find = as_if.get
        struck = [
            pod for pod in self._pods if pod.metadata.deletion_timestamp is None and self._strikes(rule, pod, find)
        ]
        return RuleCounts(
            published=self._index.count_published(rule) if is_dry else 0,
            allocated=self._count_allocated(rule) if is_dry else 0,
            pods=len(struck),
            namespaces=len({pod.metadata.namespace for pod in struck}),
            evicted=evicted,
        )

    def _strikes(self, rule: DeviceTaintRule, pod: Pod, find: Callable[[ClaimRef], Eviction | None]) -> bool:
        eviction = plan_pod_eviction(pod, lambda ref: self._claims.find(*ref), find)
        return eviction is not None and rule.metadata.uid in eviction.rule_uids

    def _count_allocated(self, rule: DeviceTaintRule) -> int:
        claims = (self._claims.find(*ref) for ref in self._evictions)
        return sum(
            rule_selects(rule, result.device_id)
            for claim in claims
            if claim is not None and claim.allocation is not None
            for result in claim.allocation.results
        )


def _key_of_pod(pod: Pod) -> _Key:
    return _Key("pod", pod.metadata.namespace, pod.metadata.name, pod.uid)


def _key_of_rule(rule: DeviceTaintRule) -> _Key:
    return _Key("rule", "", rule.metadata.name, rule.metadata.uid)


def _about(key: _Key) -> ObjectReference:
    return ObjectReference(kind=POD, name=key.name, namespace=key.namespace, uid=key.uid)


def _uses(pod: Pod) -> tuple[object, ...]:
    """What of a pod decides whether it must go; its own conditions do not."""
    return pod.node_name, pod.claims, pod.claim_names, pod.extended_claim_name


def _content(rule: DeviceTaintRule) -> tuple[object, ...]:
    return rule.taint, rule.selects, rule.driver, rule.pool, rule.device
