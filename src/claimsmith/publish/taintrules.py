"""Health as DeviceTaintRules: one rule for each cause of each device, for those who keep slices as drivers made them.

All rules of a node belong to it: they carry its name, go when the Node goes, and those that nothing asks for any more
are deleted, also those of drivers that are gone. Rules of others are never touched.

Source: DeviceTaintRule of resource.k8s.io/v1; pkg/registry/resource/devicetaintrule/strategy.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol

from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE, Kind
from claimsmith.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient, KubeObject, Preconditions
from claimsmith.kube.reflector import Reflector, Selection
from claimsmith.model.device import DeviceTaint
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import Failure
from claimsmith.telemetry import get_logger, log_event

__all__ = [
    "RuleOwner",
    "RulePlan",
    "TaintRuleKeeper",
    "apply_rule_plan",
    "plan_taint_rules",
    "remove_rules",
    "rule_selector",
]

_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_US: Final = "claimsmith-health"
_NODE_LABEL: Final = "claimsmith.dev/node"
_MESSAGE: Final = "claimsmith.dev/message"
_LABEL_MAX: Final = 63
_MESSAGE_MAX: Final = 1024

Failures = Mapping[DeviceId, tuple[Failure, ...]]

_log = get_logger("publish")


class RuleClient(Protocol):
    """What is needed of a client."""

    async def create(self, kind: Kind, obj: Mapping[str, Any]) -> KubeObject:
        """Create an object."""
        ...

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any]) -> KubeObject:
        """Change parts of an object."""
        ...

    async def delete(self, kind: Kind, name: str, *, preconditions: Preconditions | None = None) -> KubeObject:
        """Delete an object if it still is the one that is meant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOwner:
    """The node whose rules they are.

    Args:
        node: Its name.
        node_uid: Its uid: the rules go when the node goes. Empty: they stay.
    """

    node: str
    node_uid: str = ""

    @property
    def label(self) -> str:
        """The node's name as the value of a label; a digest stands for the end of one that is too long."""
        if len(self.node) <= _LABEL_MAX:
            return self.node
        return f"{self.node[: _LABEL_MAX - 17]}-{sha256(self.node.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    """What to write.

    Args:
        creates: New rules.
        updates: Merge patches by name.
        deletes: Rules as they are stored; only these very ones may be deleted.
    """

    creates: tuple[KubeObject, ...] = ()
    updates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deletes: tuple[KubeObject, ...] = ()

    @property
    def writes(self) -> int:
        """Number of requests."""
        return len(self.creates) + len(self.updates) + len(self.deletes)


def rule_selector(owner: RuleOwner) -> str:
    """Return the label selector of a node's rules."""
    return f"{_MANAGED_BY}={_US},{_NODE_LABEL}={owner.label}"


def plan_taint_rules(owner: RuleOwner, failures: Failures, existing: Iterable[KubeObject]) -> RulePlan:
    """Return what to write so that the rules of a node tell of its failures, and of nothing else.

    Args:
        owner: The node.
        failures: What has failed, of all its drivers.
        existing: Rules as the server has them; those of others are passed over.
    """
    wanted = {rule["metadata"]["name"]: rule for rule in _iter_rules(owner, failures)}
    stored = {_name_of(rule): rule for rule in existing if _is_ours(owner, rule)}
    return RulePlan(
        creates=tuple(rule for name, rule in wanted.items() if name not in stored),
        updates={
            name: patch
            for name, rule in wanted.items()
            if name in stored and (patch := _difference(stored[name], rule))
        },
        deletes=tuple(rule for name, rule in stored.items() if name not in wanted),
    )


async def apply_rule_plan(client: RuleClient, plan: RulePlan) -> None:
    """Do the writes of a plan: new taints first, so that no device is usable in between.

    What is there already, or gone already, is fine: the next plan sees it.

    Raises:
        ApiError: The server refused, or could not be reached.
    """
    for rule in plan.creates:
        try:
            await client.create(DEVICE_TAINT_RULE, rule)
        except AlreadyExistsError:
            continue
    for name, patch in plan.updates.items():
        try:
            await client.patch(DEVICE_TAINT_RULE, name, patch)
        except NotFoundError:
            continue
    for rule in plan.deletes:
        wanted = Preconditions(uid=str(rule["metadata"].get("uid") or ""))
        try:
            await client.delete(DEVICE_TAINT_RULE, _name_of(rule), preconditions=wanted)
        except (NotFoundError, ConflictError):
            continue


def read_rule_taints(rules: Iterable[KubeObject]) -> Mapping[DeviceId, tuple[DeviceTaint, ...]]:
    """Return the taints that rules for single devices tell of; other rules are passed over."""
    found: dict[DeviceId, list[DeviceTaint]] = {}
    for rule in rules:
        spec = rule.get("spec") or {}
        selector, taint = spec.get("deviceSelector") or {}, spec.get("taint") or {}
        names = tuple(str(selector.get(name) or "") for name in ("driver", "pool", "device"))
        if all(names) and taint.get("key") and taint.get("effect"):
            value = DeviceTaint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
            found.setdefault(DeviceId(*names), []).append(value)
    return {device: tuple(taints) for device, taints in found.items()}


async def remove_rules(client: KubeClient, node: str) -> int:
    """Delete the rules of a node, as when taints go elsewhere from now on; return how many there were.

    Raises:
        ApiError: The server refused, or could not be reached.
    """
    owner = RuleOwner(node=node)
    try:
        found = (await client.list(DEVICE_TAINT_RULE, label_selector=rule_selector(owner))).items
    except NotFoundError:
        # The server knows no such rules.
        return 0
    plan = plan_taint_rules(owner, {}, found)
    await apply_rule_plan(client, plan)
    return len(plan.deletes)


class TaintRuleKeeper:
    """Keeps the rules of a node as its failures are, until cancelled.

    Those of earlier processes are handed to `subscribe`; what nobody takes over then is deleted.

    Args:
        client: The API server.
        node: Name of the node.
        backoff: Pauses after failures.
    """

    def __init__(self, client: KubeClient, node: str, *, backoff: Backoff | None = None) -> None:
        self.last_error: ApiError | None = None
        """Why rules can't be written now; None when they can."""
        self._client, self._node = client, node
        self._backoff = backoff or Backoff(initial_s=0.5)
        self._failures: dict[str, Failures] = {}
        self._subscribers: list[Callable[[Mapping[DeviceId, tuple[DeviceTaint, ...]]], None]] = []
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        selection = Selection(label_selector=rule_selector(RuleOwner(node=node)))
        self._rules: Reflector[KubeObject] = Reflector(client, DEVICE_TAINT_RULE, lambda obj: obj, selection=selection)
        self._rules.subscribe(self._look)

    def publish(self, driver: str, failures: Failures) -> None:
        """Say what has failed of a driver's devices; all that was said of it before is replaced."""
        if self._failures.get(driver) == failures:
            return
        self._failures[driver] = failures
        self._settled.clear()
        self._wake.set()

    def subscribe(self, adopt: Callable[[Mapping[DeviceId, tuple[DeviceTaint, ...]]], None]) -> None:
        """Call this once with the taints of all rules that are there at the start, before any of them is deleted."""
        self._subscribers.append(adopt)

    async def wait_settled(self) -> None:
        """Return once the API server has the rules as they should be."""
        await self._settled.wait()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._rules.run(), name="taint rules")
            try:
                await self._rules.wait_synced()
                for adopt in self._subscribers:
                    adopt(read_rule_taints(self._rules))
                while True:
                    await self._turn()
                    await self._wake.wait()
            finally:
                follower.cancel()

    async def _turn(self) -> None:
        """Write until all is as it should be, or the server refuses."""
        self._wake.clear()
        joined = {device: found for failures in self._failures.values() for device, found in failures.items()}
        try:
            owner = RuleOwner(node=self._node, node_uid=await self._find_uid() if joined else "")
            plan = plan_taint_rules(owner, joined, self._rules)
            await apply_rule_plan(self._client, plan)
        except ApiError as error:
            if str(error) != str(self.last_error):
                log_event(_log, logging.WARNING, "DeviceTaintRules can't be written", reason=error)
            self.last_error = error
            await self._backoff.wait()
            self._wake.set()
            return
        self.last_error = None
        self._backoff.reset()
        if not plan.writes:
            self._settled.set()

    async def _find_uid(self) -> str:
        """Return the uid of the node; empty when there is no such node."""
        try:
            return str((await self._client.get(NODE, self._node))["metadata"].get("uid") or "")
        except NotFoundError:
            return ""

    def _look(self, before: KubeObject | None, after: KubeObject | None) -> None:
        del before, after
        self._wake.set()


def _iter_rules(owner: RuleOwner, failures: Failures) -> Iterator[KubeObject]:
    """Yield the rules of a node; causes that make the same taint are one rule."""
    for device, found in sorted(failures.items()):
        strongest: dict[tuple[str, str], Failure] = {}
        for failure in found:
            known = strongest.get((failure.key, failure.value))
            if known is None or (known.effect, failure.effect) == ("NoSchedule", "NoExecute"):
                strongest[failure.key, failure.value] = failure
        yield from (_build(owner, device, failure) for failure in strongest.values())


def _build(owner: RuleOwner, device: DeviceId, failure: Failure) -> KubeObject:
    text = "/".join((owner.node, *device, failure.key, failure.value))
    metadata: dict[str, Any] = {
        # The policy of agents knows this form: no agent takes the name of another node's rule.
        "name": f"{_US}-{owner.label.replace('.-', '-')}-{sha256(text.encode()).hexdigest()[:20]}",
        "labels": {_MANAGED_BY: _US, _NODE_LABEL: owner.label},
        "annotations": {_MESSAGE: failure.message[:_MESSAGE_MAX]},
    }
    if owner.node_uid:
        reference = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": owner.node, "uid": owner.node_uid}
        metadata["ownerReferences"] = [reference]
    return {
        "apiVersion": DEVICE_TAINT_RULE.api_version,
        "kind": DEVICE_TAINT_RULE.kind,
        "metadata": metadata,
        "spec": {
            "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
            "taint": {"key": failure.key, "value": failure.value, "effect": failure.effect},
        },
    }


def _difference(stored: KubeObject, wanted: KubeObject) -> Mapping[str, Any]:
    """Return a merge patch; empty when the rule is right. The server keeps, and renews, the time of the taint."""
    patch: dict[str, Any] = {}
    spec = stored.get("spec") or {}
    taint = {key: value for key, value in (spec.get("taint") or {}).items() if key != "timeAdded"}
    if "" in wanted["spec"]["taint"].values():
        taint.setdefault("value", "")
    if taint != wanted["spec"]["taint"] or spec.get("deviceSelector") != wanted["spec"]["deviceSelector"]:
        patch["spec"] = wanted["spec"]
    message = wanted["metadata"]["annotations"][_MESSAGE]
    if (stored["metadata"].get("annotations") or {}).get(_MESSAGE, "") != message:
        patch["metadata"] = {"annotations": {_MESSAGE: message}}
    return patch


def _is_ours(owner: RuleOwner, rule: KubeObject) -> bool:
    labels = (rule.get("metadata") or {}).get("labels") or {}
    return labels.get(_MANAGED_BY) == _US and labels.get(_NODE_LABEL) == owner.label


def _name_of(rule: KubeObject) -> str:
    return str(rule["metadata"]["name"])
