"""What has happened to the devices so far: faults and hot-plug, by time or by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from claimsmith.drivers.simulated.settings import Step

__all__ = ["Condition", "apply_step", "find_next_s", "list_due"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The state of the devices that differ from their settings.

    Args:
        faults: By device or card: cause and message of the failure.
        recovered: Devices that were repaired although their settings name a fault.
        unplugged: Devices or cards that are not there.
        done: Timed steps that have happened.
    """

    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    recovered: frozenset[str] = frozenset()
    unplugged: frozenset[str] = frozenset()
    done: frozenset[Step] = frozenset()

    def find_fault(self, device: str, card: str, own: str) -> tuple[str, str] | None:
        """Return cause and message of a device's failure; None when it works.

        Args:
            device: Name of the device.
            card: Name of its card.
            own: The fault that its settings name; empty for none.
        """
        found = self.faults.get(device) or self.faults.get(card)
        if found is None and own and not {device, card} & self.recovered:
            return own, ""
        return found

    def is_plugged(self, device: str, card: str) -> bool:
        """Tell whether a device is there."""
        return not {device, card} & self.unplugged


def apply_step(condition: Condition, step: Step) -> Condition:
    """Return the condition after a step."""
    name = step.device
    faults = {device: fault for device, fault in condition.faults.items() if device != name}
    unplugged, recovered = condition.unplugged - {name}, condition.recovered - {name}
    if step.fail:
        changed = replace(condition, faults={**faults, name: (step.cause, step.message)}, recovered=recovered)
    elif step.recover:
        changed = replace(condition, faults=faults, recovered=recovered | {name})
    elif step.plug:
        changed = replace(condition, unplugged=unplugged)
    else:
        changed = replace(condition, unplugged=unplugged | {name})
    return replace(changed, done=changed.done | {step}) if step.after_seconds is not None else changed


def list_due(script: Iterable[Step], condition: Condition, now_s: float) -> tuple[Step, ...]:
    """Return the timed steps whose time has come, in the order of their times.

    Args:
        script: All steps.
        condition: What has happened.
        now_s: Seconds since the start of the driver.
    """
    timed = [(step.after_seconds, step) for step in script if step.after_seconds is not None]
    due = [(at_s, step) for at_s, step in timed if at_s <= now_s and step not in condition.done]
    return tuple(step for _, step in sorted(due, key=lambda pair: pair[0]))


def find_next_s(script: Iterable[Step], condition: Condition) -> float | None:
    """Return when the next timed step is, in seconds since the start; None when there is none left."""
    left = (step.after_seconds for step in script if step not in condition.done)
    return min((at_s for at_s in left if at_s is not None), default=None)
