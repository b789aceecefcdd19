"""The slow, obvious way to grade a device: second by second, from all that was ever reported."""

from __future__ import annotations

from dataclasses import dataclass, field

from claimsmith.publish.health_policy import CauseRule, HealthPolicy

_ORDER = ("none", "NoSchedule", "NoExecute")


@dataclass
class Twin:
    """One cause of one device. Times are whole seconds.

    Args:
        reports: All reports: when, and whether the device had failed.
    """

    policy: HealthPolicy
    rule: CauseRule
    reports: list[tuple[int, bool]] = field(default_factory=list)
    failures: int = 0
    now: int = 0
    is_tainted: bool = False

    def advance(self, until: int) -> None:
        """Let the seconds pass, one after the other."""
        while self.now < until:
            self.now += 1
            self._pass_second()

    def report(self, failed: bool) -> None:
        """Take in a report at the present second."""
        was_failing, healthy_s = self._is_failing(), self._healthy_for()
        self.reports.append((self.now, failed))
        if failed and healthy_s is not None and healthy_s >= self.policy.forget_s:
            self.failures = 0
        if failed and self.is_tainted and not was_failing:
            self.failures += 1
        elif failed and not self.is_tainted:
            latest = [at for at, bad in self.reports if bad][-self.rule.reports :]
            if len(latest) == self.rule.reports and self.now - latest[0] <= self.rule.within_s:
                self._taint()
        self._pass_second()

    @property
    def effect(self) -> str:
        """The effect now; empty without a taint."""
        return self._effect() if self.is_tainted else ""

    @property
    def returns(self) -> bool:
        """Whether the device comes back by itself."""
        more = self.rule.escalation
        is_escalated = more is not None and self.failures >= more.failures
        return self.rule.returns and (more is None or not is_escalated or more.returns)

    def hold_s(self) -> float:
        """How long the device must be healthy before it returns."""
        seconds = float(self.policy.hold_s)
        for _ in range(self.failures - 1):
            seconds *= self.policy.factor
        return min(seconds, max(self.policy.hold_max_s, self.policy.hold_s))

    def _effect(self) -> str:
        more = self.rule.escalation
        effects = [self.rule.effect, *([more.effect] if more and self.failures >= more.failures else [])]
        return max(effects, key=_ORDER.index)

    def _taint(self) -> None:
        if self.rule.effect != "none" or self.rule.escalation is not None:
            self.failures += 1
            self.is_tainted = self._effect() != "none"

    def _is_failing(self) -> bool:
        return bool(self.reports) and self.reports[-1][1]

    def _failing_for(self) -> int:
        since = self.now
        for at, failed in reversed(self.reports):
            if not failed:
                break
            since = at
        return self.now - since

    def _healthy_for(self) -> int | None:
        """How long the device is healthy; None when it is not, or never failed before."""
        if self._is_failing() or not any(failed for _, failed in self.reports):
            return None
        since = self.now
        for at, failed in reversed(self.reports):
            if failed:
                break
            since = at
        return self.now - since

    def _pass_second(self) -> None:
        if self._is_failing():
            lasts = self.rule.lasting_s is not None and self._failing_for() >= self.rule.lasting_s
            if not self.is_tainted and lasts and self.rule.effect != "none":
                self._taint()
        elif self.is_tainted and self.returns:
            healthy_s = self._healthy_for()
            if healthy_s is not None and healthy_s >= self.hold_s():
                self.is_tainted = False
