"""From what a driver says of health to taints: bad news counts at once, good news when it has lasted. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.names import DeviceId

__all__ = ["UNHEALTHY_KEY", "HealthPolicy", "HealthTaints"]

UNHEALTHY_KEY: Final = "claimsmith.dev/unhealthy"
"""Key of the taint of a device that its driver reports unhealthy; the value is the cause."""
_NOT_IN_VALUE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_VALUE_MAX: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """When a device that failed may be used again.

    Args:
        hold_s: How long a device must have been healthy, in seconds, after its first failure.
        factor: By how much longer it must after each further failure.
        hold_max_s: Longest such time in seconds.
        forget_s: A device that was healthy for so long starts anew, in seconds.
        effect: Effect of the taint; running pods stay with NoSchedule.
    """

    hold_s: float = 5.0
    factor: float = 2.0
    hold_max_s: float = 600.0
    forget_s: float = 3600.0
    effect: str = "NoSchedule"


@dataclass(slots=True)
class _Record:
    """What is known of one device.

    Args:
        cause: Why it was last unhealthy.
        failures: How often it went from healthy to unhealthy.
        healthy_since_s: Since when it is healthy; None while it is not.
    """

    cause: str
    failures: int = 1
    healthy_since_s: float | None = None


@dataclass(slots=True)
class HealthTaints:
    """The taints of one driver's devices.

    Args:
        driver: Name of the driver.
        node: Name of the node, which is the name of a pool that has none.
        policy: When a taint goes.
    """

    driver: str
    node: str
    policy: HealthPolicy = field(default_factory=HealthPolicy)
    _records: dict[DeviceId, _Record] = field(default_factory=dict)

    def note(self, health: DeviceHealth, now_s: float) -> None:
        """Take in a report; one that says that health is not known changes nothing.

        Args:
            health: The report.
            now_s: Monotonic seconds.
        """
        device = DeviceId(self.driver, health.pool or self.node, health.device)
        record = self._records.get(device)
        if health.healthy is None:
            return
        if health.healthy:
            if record is not None and record.healthy_since_s is None:
                record.healthy_since_s = now_s
        elif record is None:
            self._records[device] = _Record(health.cause)
        else:
            if record.healthy_since_s is not None:
                is_new = now_s - record.healthy_since_s >= self.policy.forget_s
                record.failures = 1 if is_new else record.failures + 1
            record.cause, record.healthy_since_s = health.cause, None

    def taints(self, now_s: float) -> Mapping[DeviceId, tuple[DeviceTaint, ...]]:
        """Return the taints that hold now."""
        return {
            device: (self._taint(record),) for device, record in self._records.items() if self._holds(record, now_s)
        }

    def find_next_s(self, now_s: float) -> float | None:
        """Return when the next taint goes by itself, in monotonic seconds; None when none does."""
        ends = [
            record.healthy_since_s + self._hold_s(record)
            for record in self._records.values()
            if record.healthy_since_s is not None and self._holds(record, now_s)
        ]
        return min(ends, default=None)

    def _holds(self, record: _Record, now_s: float) -> bool:
        since_s = record.healthy_since_s
        return since_s is None or now_s < since_s + self._hold_s(record)

    def _hold_s(self, record: _Record) -> float:
        steps = min(record.failures - 1, 64)
        return float(min(self.policy.hold_max_s, self.policy.hold_s * self.policy.factor**steps))

    def _taint(self, record: _Record) -> DeviceTaint:
        value = _NOT_IN_VALUE.sub("-", record.cause)[:_VALUE_MAX].strip("-_.")
        return DeviceTaint(key=UNHEALTHY_KEY, value=value, effect=self.policy.effect)
