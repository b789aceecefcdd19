"""Tells of failed devices: events about the node for people, numbers for machines, lines for the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from claimsmith.api.kinds import NODE
from claimsmith.kube.events import EventRecorder, EventType, ObjectReference
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import ChangeKind, Failure, HealthChange
from claimsmith.telemetry import DEVICE_FAILURES, DEVICES_UNHEALTHY, Meter, get_logger, log_event

__all__ = ["HealthReporter"]

_WORDS: Final[Mapping[ChangeKind, tuple[EventType, str, str]]] = {
    "reported": ("Warning", "DeviceFailureRecorded", "has reported {cause}, which keeps nobody from using it"),
    "tainted": ("Warning", "DeviceUnhealthy", "has failed: {cause}; its taint is {effect}"),
    "escalated": (
        "Warning",
        "DeviceUnhealthy",
        "has failed again, {failures} times by now: {cause}; its taint is {effect}",
    ),
    "returned": ("Normal", "DeviceHealthy", "is usable again after {cause}"),
    "released": ("Normal", "DeviceHealthy", "was released by hand after {cause}"),
}
_EFFECTS: Final = ("NoSchedule", "NoExecute")

_log = get_logger("publish")


class HealthReporter:
    """Tells of the changes of one driver's devices.

    Args:
        driver: Name of the driver.
        node: Name of the node.
        meter: Takes the numbers.
        recorder: Takes the events; None: none are wanted.
    """

    def __init__(self, driver: str, node: str, *, meter: Meter, recorder: EventRecorder | None = None) -> None:
        self._driver, self._meter, self._recorder = driver, meter, recorder
        # Events about nodes have the name in place of the uid, as those of the kubelet do.
        self._about = ObjectReference(kind=NODE, name=node, uid=node)

    def tell(self, changes: Iterable[HealthChange], failures: Mapping[DeviceId, tuple[Failure, ...]]) -> None:
        """Tell of what has changed, and count what is out of use now.

        Args:
            changes: As `HealthTaints.take_changes` gives them.
            failures: As `HealthTaints.failures` gives them.
        """
        known = tuple(changes)
        for change in known:
            if change.kind == "reported":
                self._meter.add(DEVICE_FAILURES, driver=self._driver, cause=change.cause)
        for change in _without_echoes(known):
            self._tell_one(change)
        worst = Counter(max((failure.effect for failure in found), key=_EFFECTS.index) for found in failures.values())
        for effect in _EFFECTS:
            self._meter.set(DEVICES_UNHEALTHY, worst[effect], driver=self._driver, effect=effect)

    def _tell_one(self, change: HealthChange) -> None:
        type_, reason, words = _WORDS[change.kind]
        cause = ": ".join(part for part in (change.cause, change.message) if part) or "no cause given"
        text = words.format(cause=cause, effect=change.effect, failures=change.failures)
        level = logging.WARNING if type_ == "Warning" else logging.INFO
        log_event(_log, level, f"Device {text}", device=change.device)
        if self._recorder is not None:
            self._recorder.record(self._about, type_, reason, f"Device {change.device} {text}")


def _without_echoes(changes: tuple[HealthChange, ...]) -> Iterator[HealthChange]:
    """Yield changes without reports of what is out of use anyway: its taint is told of, each repetition is not."""
    told = {(change.device, change.cause) for change in changes if change.kind in ("tainted", "escalated")}
    for change in changes:
        is_echo = change.effect != "none" or (change.device, change.cause) in told
        if change.kind != "reported" or not is_echo:
            yield change
