"""From what a driver says of health to taints, as the policy grades it. Pure: time comes in as an argument.

Each cause of a device is followed by itself, so that a later harmless cause does not hide an earlier serious one; a
report that the device is healthy ends all of them. Bad news counts as soon as the rule says, good news when it has
lasted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.names import DeviceId
from claimsmith.publish.health_policy import (
    UNHEALTHY_KEY,
    CauseRule,
    Effect,
    HealthPolicy,
    stronger,
)
from claimsmith.publish.health_spread import spread_failures

__all__ = ["UNHEALTHY_KEY", "ChangeKind", "Failure", "HealthChange", "HealthPolicy", "HealthTaints"]

ChangeKind = Literal["reported", "tainted", "escalated", "returned", "released"]
"""A cause was reported anew · its taint came · its effect became stronger · the taint went by itself · or by hand."""

_NOT_IN_VALUE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_VALUE_MAX: Final = 63
_TAINTS_MAX: Final = 16
_CHANGES_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A cause for which a device is out of use.

    Args:
        device: The device.
        cause: As the driver named it.
        effect: NoSchedule or NoExecute.
        message: For people.
        origin: The device that failed, when this one fails along with it; else the device itself.
    """

    device: DeviceId
    cause: str
    effect: Effect
    key: str
    value: str
    message: str = ""
    origin: DeviceId | None = None

    @property
    def taint(self) -> DeviceTaint:
        """The taint that tells of it."""
        return DeviceTaint(key=self.key, value=self.value, effect=self.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChange:
    """Something that has changed, for events, logs and metrics.

    Args:
        effect: The effect from now on; `none` when there is none.
        failures: How often the device has failed for this cause.
    """

    kind: ChangeKind
    device: DeviceId
    cause: str
    effect: Effect
    message: str = ""
    failures: int = 0


@dataclass(slots=True)
class _Record:
    """What is known of one cause of one device.

    Args:
        failing_since_s: Since when it has failed without a break; None while it is healthy.
        healthy_since_s: Since when it is healthy; None while it is not, or when it never failed before.
        reports_s: When the latest failures were reported, as far as the rule counts them.
        failures: How often it was tainted, or failed again while it was to return.
        adopted_until_s: Until when a taint of an earlier process is kept without a word of the driver; None for what
            the driver has reported.
    """

    rule: CauseRule
    reports_s: deque[float]
    message: str = ""
    failing_since_s: float | None = None
    healthy_since_s: float | None = None
    tainted: bool = False
    failures: int = 0
    adopted_until_s: float | None = None

    @property
    def effect(self) -> Effect:
        more = self.rule.escalation
        return stronger(self.rule.effect, more.effect) if more and self.failures >= more.failures else self.rule.effect

    @property
    def returns(self) -> bool:
        more = self.rule.escalation
        return self.rule.returns and not (more and self.failures >= more.failures and not more.returns)


@dataclass(slots=True)
class HealthTaints:
    """The health of one driver's devices, graded.

    Times are monotonic seconds and never go back; an earlier one counts as the latest that was seen.

    Args:
        driver: Name of the driver.
        node: Name of the node, which is the name of a pool that has none.
        policy: What causes lead to.
        parents: For each partition the card that it is a part of; see `find_parents`. May be replaced at any time.
    """

    driver: str
    node: str
    policy: HealthPolicy = field(default_factory=HealthPolicy)
    parents: Mapping[DeviceId, DeviceId] = field(default_factory=dict)
    _records: dict[DeviceId, dict[str, _Record]] = field(default_factory=dict)
    _reported: dict[DeviceId, DeviceHealth] = field(default_factory=dict)
    _changes: deque[HealthChange] = field(default_factory=lambda: deque(maxlen=_CHANGES_MAX))
    _now_s: float = float("-inf")

    # --- what happens -------------------------------------------------------------------------------------------------

    def note(self, health: DeviceHealth, now_s: float) -> None:
        """Take in a report; one that says that health is not known changes nothing.

        Args:
            health: The report.
            now_s: Monotonic seconds.
        """
        self._settle(now_s)
        device = DeviceId(self.driver, health.pool or self.node, health.device)
        if health.healthy is None:
            self._reported.setdefault(device, health)
            return
        self._reported[device] = health
        if health.healthy:
            for record in (*self._records.get(device, {}).values(), *self._iter_adopted(device)):
                if record.failing_since_s is not None:
                    record.failing_since_s, record.healthy_since_s = None, self._now_s
            self._settle(now_s)
        else:
            self._fail(device, health)

    def adopt(self, published: Mapping[DeviceId, Iterable[DeviceTaint]], now_s: float) -> None:
        """Take over taints that an earlier process has published, so that a restart makes no broken device usable.

        They go like all others: when the driver says that the device, or another one of its card, is healthy, and
        that has lasted; when it says nothing of them, after `hold_max_s`. Only for drivers that report health.

        Args:
            published: Taints by device; those that no rule makes are passed over.
            now_s: Monotonic seconds.
        """
        self._settle(now_s)
        for device, taints in published.items():
            for taint in taints:
                rule = self.policy.find_rule_of(taint.key, taint.value)
                if device.driver == self.driver and rule is not None:
                    self._adopt(device, taint, rule)

    def release(self, device: DeviceId, now_s: float) -> bool:
        """Take a device that is healthy back into use by hand; tell whether a taint went.

        A cause that its driver still reports stays.
        """
        self._settle(now_s)
        causes = self._records.get(device, {})
        freed = [cause for cause, record in causes.items() if record.tainted and record.failing_since_s is None]
        for cause in freed:
            record = causes.pop(cause)
            self._tell("released", device, cause, replace_effect="none", record=record)
        if not causes:
            self._records.pop(device, None)
        return bool(freed)

    # --- what follows from it -----------------------------------------------------------------------------------------

    def failures(self, now_s: float) -> Mapping[DeviceId, tuple[Failure, ...]]:
        """Return why devices are out of use now, with those that fail along with others of their card."""
        self._settle(now_s)
        own = {
            device: tuple(self._failure(device, cause, record) for cause, record in causes.items() if record.tainted)
            for device, causes in self._records.items()
        }
        own = {device: found for device, found in own.items() if found}
        return spread_failures(own, self.parents, self.policy.spread, copy=_failed_along)

    def taints(self, now_s: float) -> Mapping[DeviceId, tuple[DeviceTaint, ...]]:
        """Return the taints that hold now, each once."""
        return {
            device: tuple(dict.fromkeys(failure.taint for failure in found))[:_TAINTS_MAX]
            for device, found in self.failures(now_s).items()
        }

    def unhealthy(self, now_s: float) -> frozenset[DeviceId]:
        """Return the devices that a device plugin must offer as Unhealthy now."""
        return frozenset(self.failures(now_s))

    def graded(self, now_s: float) -> tuple[DeviceHealth, ...]:
        """Return what the kubelet is to be told of all devices that are known: reports as the policy grades them."""
        failures = self.failures(now_s)
        names = sorted(self._reported.keys() | failures.keys())
        return tuple(self._grade(device, failures.get(device, ())) for device in names)

    def find_next_s(self, now_s: float) -> float | None:
        """Return when something changes by itself, in monotonic seconds; None when nothing does."""
        self._settle(now_s)
        ends = (self._due_s(record) for causes in self._records.values() for record in causes.values())
        return min((end for end in ends if end is not None), default=None)

    def take_changes(self) -> tuple[HealthChange, ...]:
        """Return what has changed since the last call, oldest first; of very many only the latest."""
        found = tuple(self._changes)
        self._changes.clear()
        return found

    # --- one cause ----------------------------------------------------------------------------------------------------

    def _fail(self, device: DeviceId, health: DeviceHealth) -> None:
        causes = self._records.setdefault(device, {})
        record = causes.get(health.cause)
        if record is None:
            rule = self.policy.get_rule(health.cause)
            record = causes[health.cause] = _Record(rule, deque(maxlen=rule.reports))
        record.message, record.adopted_until_s = health.message, None
        record.reports_s.append(self._now_s)
        if record.failing_since_s is None:
            self._begin(device, health.cause, record)
        self._tell("reported", device, health.cause, record=record)
        is_enough = len(record.reports_s) == record.rule.reports
        if not record.tainted and is_enough and self._now_s - record.reports_s[0] <= record.rule.within_s:
            self._taint(device, health.cause, record)
        self._settle(self._now_s)

    def _begin(self, device: DeviceId, cause: str, record: _Record) -> None:
        """Note that a device fails again; the first time, as it were, when it was healthy for long."""
        before, since_s = record.effect, record.healthy_since_s
        if since_s is not None and self._now_s - since_s >= self.policy.forget_s:
            record.failures = 0
        record.failing_since_s, record.healthy_since_s = self._now_s, None
        if record.tainted:
            record.failures += 1
            if record.effect != before:
                self._tell("escalated", device, cause, record=record)

    def _taint(self, device: DeviceId, cause: str, record: _Record) -> None:
        if record.rule.effect == "none" and record.rule.escalation is None:
            return
        record.failures += 1
        record.tainted = record.effect != "none"
        if record.tainted:
            self._tell("tainted", device, cause, record=record)

    def _adopt(self, device: DeviceId, taint: DeviceTaint, rule: CauseRule) -> None:
        causes = self._records.setdefault(device, {})
        if taint.value in causes:
            return
        more = rule.escalation
        is_escalated = more is not None and taint.effect != rule.effect
        is_healthy = any(known.healthy for known in self._iter_reports(device))
        causes[taint.value] = _Record(
            rule,
            deque(maxlen=rule.reports),
            failing_since_s=None if is_healthy else self._now_s,
            healthy_since_s=self._now_s if is_healthy else None,
            tainted=True,
            failures=more.failures if more is not None and is_escalated else 1,
            adopted_until_s=self._now_s + self.policy.hold_max_s,
        )

    def _iter_reports(self, device: DeviceId) -> Iterator[DeviceHealth]:
        """Yield what was said last of the devices of a device's card."""
        card = self.parents.get(device, device)
        for other, report in self._reported.items():
            if other == device or card in (other, self.parents.get(other)):
                yield report

    def _iter_adopted(self, device: DeviceId) -> Iterator[_Record]:
        """Yield what was taken over for the other devices of a device's card."""
        card = self.parents.get(device, device)
        for other, causes in self._records.items():
            if other != device and card in (other, self.parents.get(other)):
                yield from (record for record in causes.values() if record.adopted_until_s is not None)

    def _settle(self, now_s: float) -> None:
        """Let happen what is due until now."""
        self._now_s = max(self._now_s, now_s)
        for device, causes in list(self._records.items()):
            for cause, record in list(causes.items()):
                due_s = self._due_s(record)
                if due_s is not None and due_s <= self._now_s:
                    self._change(device, cause, record, at_s=due_s)
                if self._is_forgotten(record):
                    del causes[cause]
            if not causes:
                del self._records[device]

    def _change(self, device: DeviceId, cause: str, record: _Record, *, at_s: float) -> None:
        """Do what is due for one cause: the device has failed, or was healthy, for long enough."""
        if record.failing_since_s is not None and record.adopted_until_s is None:
            self._taint(device, cause, record)
        else:
            record.tainted, record.failing_since_s = False, None
            record.healthy_since_s = at_s if record.healthy_since_s is None else record.healthy_since_s
            self._tell("returned", device, cause, record=record, replace_effect="none")

    def _due_s(self, record: _Record) -> float | None:
        """Return when the state of a cause changes by itself; None when it does not."""
        rule = record.rule
        if record.failing_since_s is not None and record.adopted_until_s is not None:
            return record.adopted_until_s
        if record.failing_since_s is not None:
            waits = not record.tainted and rule.lasting_s is not None and rule.effect != "none"
            return record.failing_since_s + (rule.lasting_s or 0.0) if waits else None
        if not record.tainted or not record.returns or record.healthy_since_s is None:
            return None
        return record.healthy_since_s + self.policy.hold_of(rule, record.failures)

    def _is_forgotten(self, record: _Record) -> bool:
        """Tell whether nothing that may still come depends on what is known of a cause."""
        since_s = record.healthy_since_s
        keep_s = max(self.policy.forget_s, record.rule.within_s)
        return not record.tainted and since_s is not None and self._now_s - since_s > keep_s

    # --- in words -----------------------------------------------------------------------------------------------------

    def _failure(self, device: DeviceId, cause: str, record: _Record) -> Failure:
        rule = record.rule
        value = _as_value(cause) if rule.value is None else rule.value
        effect, message = record.effect, record.message
        return Failure(device=device, cause=cause, effect=effect, key=rule.key, value=value, message=message)

    def _grade(self, device: DeviceId, failures: tuple[Failure, ...]) -> DeviceHealth:
        if not failures:
            known = self._reported[device]
            healthy = None if known.healthy is None else True
            return DeviceHealth(device=device.device, pool=device.pool, healthy=healthy)
        return DeviceHealth(
            device=device.device, pool=device.pool, healthy=False, cause=failures[0].cause,
            message="; ".join(dict.fromkeys(_sentence(failure) for failure in failures)),
        )  # fmt: skip

    def _tell(
        self, kind: ChangeKind, device: DeviceId, cause: str, *, record: _Record, replace_effect: Effect | None = None
    ) -> None:
        effect = (record.effect if record.tainted else "none") if replace_effect is None else replace_effect
        self._changes.append(
            HealthChange(
                kind=kind, device=device, cause=cause, effect=effect, message=record.message, failures=record.failures
            )
        )


def _as_value(cause: str) -> str:
    """Return a cause as the value of a taint."""
    return _NOT_IN_VALUE.sub("-", cause)[:_VALUE_MAX].strip("-_.")


def _failed_along(failure: Failure, device: DeviceId) -> Failure:
    """Return what a failure of one device means for another one of its card."""
    return replace(failure, device=device, origin=failure.origin or failure.device)


def _sentence(failure: Failure) -> str:
    text = ": ".join(part for part in (failure.cause, failure.message) if part) or "unhealthy"
    return f"{failure.origin.device} has failed: {text}" if failure.origin is not None else text
